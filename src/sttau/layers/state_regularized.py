"""State-regularized RNNs (Wang & Niepert, 2019): ST-τ without noise and with a fixed τ."""

from __future__ import annotations

from typing import Any

import torch

from sttau.engine import Readout
from sttau.layers.base import register_layer
from sttau.layers.finite_state import FiniteStateRNN, Initial
from sttau.layers.st_tau import STTauGRU, STTauLSTM


class _StateRegularized(FiniteStateRNN):
    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_states: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        temperature: float = 1.0,
        learn_temperature: bool = False,
        readout: Readout = "state",
        initial: Initial = "zeros",
        peephole: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_states,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            temperature=temperature,
            learn_temperature=learn_temperature,
            mode="deterministic",
            readout=readout,
            initial=initial,
            peephole=peephole,
            device=device,
            dtype=dtype,
        )

    def config(self) -> dict[str, Any]:
        """Return the arguments that construct a layer like this one."""
        return {name: value for name, value in super().config().items() if name != "mode"}


@register_layer
class StateRegularizedLSTM(_StateRegularized, STTauLSTM):
    """An LSTM whose hidden state is the mixture α = softmax(S u / τ) of k learnable states.

    Arguments as :class:`~sttau.layers.st_tau.STTauLSTM` without ``mode``; τ is fixed by default.

    Example:
        >>> layer = StateRegularizedLSTM(8, 32, num_states=5)
        >>> x = torch.randn(10, 4, 8)
        >>> bool((layer(x)[0] == layer(x)[0]).all())
        True
    """


@register_layer
class StateRegularizedGRU(_StateRegularized, STTauGRU):
    """A GRU whose hidden state is the mixture α = softmax(S u / τ) of k learnable states.

    Arguments as :class:`~sttau.layers.st_tau.STTauGRU` without ``mode``; τ is fixed by default.
    """
