"""ST-τ layers: ``nn.LSTM`` and ``nn.GRU`` whose hidden state is sampled from k learnable states (paper §2.2)."""

from __future__ import annotations

from typing import ClassVar

from sttau.engine import Cell
from sttau.layers.base import register_layer
from sttau.layers.finite_state import FiniteStateRNN
from sttau.layers.lstm_gru import GRULayer, LSTMLayer


@register_layer
class STTauLSTM(FiniteStateRNN, LSTMLayer):
    """An LSTM whose hidden state is sampled, at every step, from k learnable states.

    Arguments, shapes and results are those of ``nn.LSTM``; ``num_states`` is the third argument.

    Args:
        input_size: Features per step.
        hidden_size: d, the size of the hidden state and of each learnable state.
        num_states: k, at least 2.
        num_layers: Number of stacked layers, each with its own states and temperature.
        bias: Whether gates have biases.
        batch_first: Whether the batch comes before time in input and output.
        dropout: Dropout rate between layers, in training.
        bidirectional: Whether to read from the end too; the two outputs are concatenated.
        temperature: Initial τ.
        learn_temperature: Whether τ is trained.
        mode: ``soft`` (the paper's), ``hard`` (one-hot states, straight-through gradient) or ``deterministic`` (no
            noise, a state-regularized RNN). The layer samples in eval mode too.
        readout: Output of the layer: ``state`` for h_t, a mixture of states, or ``cell`` for u_t, the cell's output.
        initial: h_0, ``zeros`` or the ``first`` state.
        peephole: Whether the gates read the memory.
        device: Device of the weights.
        dtype: Dtype of the weights. With bfloat16 the recurrence itself runs in float32.

    Example:
        >>> import torch
        >>> layer = STTauLSTM(8, 32, num_states=5, batch_first=True)
        >>> output, (h_n, c_n) = layer(torch.randn(4, 10, 8))
        >>> output.shape, h_n.shape, c_n.shape
        (torch.Size([4, 10, 32]), torch.Size([1, 4, 32]), torch.Size([1, 4, 32]))
        >>> layer.temperature.item(), layer.states.shape
        (1.0, torch.Size([5, 32]))
    """

    cell: ClassVar[Cell] = "lstm"
    _gates: ClassVar[int] = 4


@register_layer
class STTauGRU(FiniteStateRNN, GRULayer):
    """A GRU whose hidden state is sampled, at every step, from k learnable states.

    Arguments, shapes and results are those of ``nn.GRU``, in its reset-after form; ``num_states`` is the third
    argument. The other arguments are those of :class:`STTauLSTM`, and ``mode="exact"`` is possible: the layer then
    computes the exact distribution π_t over its states instead of a sample and returns the mean state π_t S, and a
    model trains on the path sum. Its h_n is the mean state, from which an exact run cannot be continued.

    Example:
        >>> import torch
        >>> layer = STTauGRU(3, 16, num_states=4, batch_first=True, mode="exact")
        >>> x = torch.randn(2, 5, 3)
        >>> output, h_n = layer(x)
        >>> output.shape, h_n.shape
        (torch.Size([2, 5, 16]), torch.Size([1, 2, 16]))
        >>> layer.state_distribution(x).sum(-1).allclose(torch.ones(2, 5))
        True
    """

    cell: ClassVar[Cell] = "gru"
    _gates: ClassVar[int] = 3
