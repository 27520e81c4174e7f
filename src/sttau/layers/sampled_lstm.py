"""What the LSTMs with sampled weights or masks share: PyTorch's fused LSTM with given weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from sttau.engine import Noise, backend, stacked
from sttau.layers.base import WEIGHTS, samples_per_sequence
from sttau.layers.call import Call, LayerMode, Output
from sttau.layers.lstm_gru import LSTMLayer
from sttau.padding import clear_padding, last_valid_step


class SampledLSTM(LSTMLayer):
    """An LSTM whose weights or masks are sampled; subclasses implement ``_run_samples`` and ``stacked_parts``."""

    modes: ClassVar[tuple[LayerMode, ...]] = ("sampled", "deterministic")

    def _parameter_shapes(self, index: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights of a layer and direction, by their names in ``nn.LSTM``."""
        width = 4 * self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (width, self._input_features(index)),
            "weight_hh": (width, self.hidden_size),
        }
        return shapes | ({"bias_ih": (width,), "bias_hh": (width,)} if self.bias else {})

    @property
    def is_stackable(self) -> bool:
        """Whether several such layers can be run as one: a registered class, one layer, one direction, with biases."""
        return self.can_be_saved and self.num_layers == 1 and not self.bidirectional and self.bias

    def _run(self, inputs: Tensor, call: Call) -> Output:
        x = inputs if call.embedding is None else F.embedding(inputs, call.embedding)
        lengths = self._check_batch(x, self._input_dtype(x), x.shape, call.lengths)
        x, call = clear_padding(x, lengths), call._replace(lengths=lengths)  # NaN there would reach gradients
        if call.steps == "last" and not call.final and call.noise is not None and self._runs_stacked(x, call.mode):
            return Output(self._last_stacked(x, call.lengths, call.noise)[:, None])
        result = self._run_samples(x, call)
        if call.steps == "all":
            return result
        return result._replace(output=last_valid_step(result.output, call.lengths, self.num_directions)[:, None])

    @abstractmethod
    def _run_samples(self, x: Tensor, call: Call) -> Output:
        """Run all samples over (batch, time, input_size), checked and zero in the padding; the output has all steps."""

    def _input_dtype(self, x: Tensor) -> torch.dtype:
        """The dtype that input must have: that of the weights, or any under autocast."""
        return x.dtype if backend.is_mixed(x.device) else self.dtype

    def _runs_stacked(self, x: Tensor, mode: LayerMode) -> bool:
        """Whether the samples of a prediction can be run as one."""
        if torch.is_grad_enabled() or backend.is_mixed(x.device) or not self.is_stackable:
            return False
        return mode == "sampled" and stacked.is_fast(x)

    def _last_stacked(self, x: Tensor, lengths: Tensor | None, noise: Noise) -> Tensor:
        """h after the last valid step, (rows, d)."""
        batch = x.shape[0]
        samples_per_sequence(noise, batch)
        parts = self.stacked_parts(x, noise)
        if lengths is not None:
            lengths = lengths.to(x.device).repeat(len(parts[0].x) // batch)
        return stacked.run(parts, [lengths] * len(parts)).flatten(0, 1)

    def _fused(self, x: Tensor, call: Call, lengths: Tensor | None, weights: Mapping[str, Tensor]) -> Output:
        """Run ``nn.LSTM`` with these weights, on its own kernels.

        If h_n and c_n will not be read, one direction need not stop at a sequence's end, because later steps cannot
        change earlier ones.
        """
        hidden, memory, final = call.hidden, call.memory, call.final
        zeros = x.new_zeros(self.num_layers * self.num_directions, x.shape[0], self.hidden_size)
        start = (zeros if hidden is None else hidden, zeros if memory is None else memory)
        if x.is_cuda and not torch.is_autocast_enabled("cuda"):
            weights = self._contiguous(weights)
        kinds = WEIGHTS[: 4 if self.bias else 2]
        flat = [weights[f"{kind}_{suffix}"] for suffix in self._suffixes() for kind in kinds]
        options = (flat, self.bias, self.num_layers, self._layer_dropout(), self.training, self.bidirectional)
        if lengths is None or not (final or self.bidirectional):
            output, h_n, c_n = torch.lstm(x, start, *options, True)
            return Output(clear_padding(output, lengths), h_n, c_n)
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        order, back = cast(Tensor, packed.sorted_indices), cast(Tensor, packed.unsorted_indices)
        start = (start[0][:, order], start[1][:, order])
        data, h_n, c_n = torch.lstm(packed.data, packed.batch_sizes, start, *options)
        made = PackedSequence(data, packed.batch_sizes, order, back)
        output = pad_packed_sequence(made, batch_first=True, total_length=x.shape[1])[0]
        return Output(output, h_n[:, back], c_n[:, back])

    def _names(self) -> list[str]:
        """Names of the weights, in the order in which cuDNN holds them: all matrices, then all biases."""
        kinds = (("weight_ih", "weight_hh"), ("bias_ih", "bias_hh"))[: 1 + self.bias]
        return [f"{name}_{suffix}" for names in kinds for suffix in self._suffixes() for name in names]

    def _contiguous(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return the weights as views of one tensor; cuDNN would otherwise copy them at every call, with a warning.

        It needs room for biases even where there are none.
        """
        parts = [weights[name] for name in self._names()]
        if self.bias and len({part.untyped_storage().data_ptr() for part in parts}) == 1:
            return weights
        room = [] if self.bias else [parts[0].new_zeros(8 * self.hidden_size * len(self._suffixes()))]
        whole = torch.cat([part.flatten() for part in parts] + room)
        pieces = whole.split([part.numel() for part in parts + room])
        return {name: piece.view_as(part) for name, piece, part in zip(self._names(), pieces, parts, strict=False)}

    def _layer_dropout(self) -> float:
        """Rate of PyTorch's own dropout between layers, in training."""
        return self.dropout
