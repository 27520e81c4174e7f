"""What our recurrent layers share: the interface of ``nn.LSTM``, and draws that are named by a :class:`Noise`."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from sttau.checks import check_lengths
from sttau.engine import Noise, Steps, stacked
from sttau.padding import clear_padding

WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")  # of a layer and direction, as nn.LSTM names them
LayerMode = Literal["soft", "hard", "exact", "deterministic", "sampled"]


def beside(directions: list[Tensor]) -> Tensor:
    """Join what the directions give, along the last dimension; one alone stays as it is."""
    return directions[0] if len(directions) == 1 else torch.cat(directions, dim=-1)


class StochasticRNN(nn.Module):
    """A recurrent layer that may answer differently every time it is asked.

    Attributes:
        modes: the laws it can run under.
        mode: the one it runs under unless a call says otherwise; ``deterministic`` draws nothing.
    """

    modes: ClassVar[tuple[LayerMode, ...]]
    mode: LayerMode

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
    ) -> None:
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        check_rate("dropout", dropout)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional

    @property
    def num_directions(self) -> int:
        """1, or 2 for a bidirectional layer."""
        return 2 if self.bidirectional else 1

    @property
    def dtype(self) -> torch.dtype:
        """Of the weights, and so of input and output."""
        return cast(Tensor, self.weight_ih_l0).dtype

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The arguments that make a layer like this one, as plain values."""

    def extra_repr(self) -> str:
        """Show the sizes, and every option that is not the default."""
        defaults = inspect.signature(type(self)).parameters
        sizes, options = [], []
        for name, value in self.config().items():
            if defaults[name].default is inspect.Parameter.empty:
                sizes.append(str(value))
            elif value != defaults[name].default:
                options.append(f"{name}={value!r}")
        return ", ".join(sizes + options)

    @abstractmethod
    def features(
        self,
        inputs: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
        steps: Steps = "all",
        embedding: Tensor | None = None,
    ) -> Tensor:
        """Run over (batch, time, input_size) whatever ``batch_first`` says; the plain form that models use.

        Args:
            inputs: (batch, time, input_size); or, with ``embedding``, (batch, time) token ids.
            lengths: (batch,) valid steps.
            noise: names the draws; it may hold several samples a sequence.
            mode: overrides the layer's mode.
            steps: ``all``, or only the ``last`` each direction reads, which saves time and memory.
            embedding: (vocabulary, input_size), the vectors of tokens.

        Returns:
            (rows, time, directions · hidden_size), zero beyond a sequence's length; (rows, 1, …) for the last step.
        """

    @abstractmethod
    def _whole(
        self,
        x: Tensor,
        hidden: Tensor | None,
        memory: Tensor | None,
        lengths: Tensor | None,
        noise: Noise | None,
        mode: LayerMode | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Output, h_n and c_n over (batch, time, input_size), the output batch first too."""

    def _suffixes(self) -> list[str]:
        ends = ("", "_reverse")[: self.num_directions]
        return [f"l{layer}{end}" for layer in range(self.num_layers) for end in ends]

    def _chosen(self, mode: LayerMode | None) -> LayerMode:
        """The mode of a call."""
        mode = self.mode if mode is None else mode
        if mode not in self.modes:
            raise ValueError(f"mode must be one of {', '.join(map(repr, self.modes))}, got {mode!r}")
        return mode

    def _checked(
        self, vectors: Tensor, dtype: torch.dtype, shape: tuple[int, ...], lengths: Tensor | None
    ) -> Tensor | None:
        """Raise a clear error if the layer cannot read such a batch; return the lengths as int64."""
        batch, time = shape[:2]
        if vectors.dtype != dtype:
            raise TypeError(f"input is {vectors.dtype}, but the layer's weights are {dtype}; convert one of them")
        if vectors.shape[-1] != self.input_size:
            raise ValueError(f"input has {vectors.shape[-1]} features a step, but input_size is {self.input_size}")
        if batch == 0 or time == 0:
            raise ValueError(f"input is empty: {batch} sequences of {time} steps")
        if lengths is None:
            return None
        return check_lengths(lengths, batch, time, values=lengths.device.type == "cpu")

    def _call(
        self,
        inputs: Tensor | PackedSequence,
        hidden: Tensor | None,
        memory: Tensor | None,
        lengths: Tensor | None,
        noise: Noise | None,
        mode: LayerMode | None,
    ) -> tuple[Tensor | PackedSequence, Tensor, Tensor | None]:
        """Bring any input ``nn.LSTM`` takes into the form (batch, time, features), run, and bring the result back."""
        single = False
        if isinstance(inputs, PackedSequence):
            if lengths is not None:
                raise ValueError("lengths are part of a PackedSequence; do not pass them a second time")
            x, lengths = pad_packed_sequence(inputs, batch_first=True)
        else:
            if inputs.dim() not in (2, 3):
                raise ValueError(f"input must have 2 dimensions (one sequence) or 3 (a batch), got {inputs.dim()}")
            single = inputs.dim() == 2
            x = inputs[None] if single else inputs if self.batch_first else inputs.transpose(0, 1)
        batch = x.shape[0]
        count = self.num_layers * self.num_directions
        for name, given in (("h_0", hidden), ("c_0", memory)):
            want = (count, self.hidden_size) if single else (count, batch, self.hidden_size)
            if given is not None and tuple(given.shape) != want:
                raise ValueError(f"{name} must have shape {want}, got {tuple(given.shape)}")
        if single:
            hidden = None if hidden is None else hidden[:, None]
            memory = None if memory is None else memory[:, None]
        output, h_n, c_n = self._whole(x, hidden, memory, lengths, noise, mode)
        if isinstance(inputs, PackedSequence):
            if output.shape[0] != batch:
                raise ValueError("several samples a sequence need padded input with lengths, not a PackedSequence")
            order = inputs.sorted_indices
            ordered = output if order is None else output[order]
            ordered_lengths = lengths if order is None else cast(Tensor, lengths)[order.cpu()]
            data = pack_padded_sequence(ordered, cast(Tensor, ordered_lengths), batch_first=True).data
            return PackedSequence(data, inputs.batch_sizes, order, inputs.unsorted_indices), h_n, c_n
        if single and output.shape[0] == 1:
            return output[0], h_n[:, 0], None if c_n is None else c_n[:, 0]
        return output if self.batch_first else output.transpose(0, 1), h_n, c_n


class StochasticLSTM(StochasticRNN):
    """A stochastic layer that is called as ``nn.LSTM`` is."""

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: tuple[Tensor, Tensor] | None = None,
        *,
        lengths: Tensor | None = None,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
    ) -> tuple[Tensor | PackedSequence, tuple[Tensor, Tensor]]:
        """Run the layer as ``nn.LSTM`` does.

        Args:
            input: (time, batch, features), batch first if so made, (time, features), or a PackedSequence.
            hx: (h_0, c_0), each (layers · directions, batch, d).
            lengths: (batch,) valid steps of padded input; a PackedSequence brings its own.
            noise: names the draws; fresh ones, from PyTorch's generator, without it.
            mode: overrides the layer's mode for this call.
        """
        if hx is not None and not (isinstance(hx, tuple) and len(hx) == 2):
            raise TypeError(f"hx must be the pair (h_0, c_0), got {type(hx).__name__}")
        hidden, memory = (None, None) if hx is None else hx
        output, h_n, c_n = self._call(input, hidden, memory, lengths, noise, mode)
        assert c_n is not None
        return output, (h_n, c_n)


class PlainStochasticLSTM(StochasticLSTM):
    """A stochastic LSTM without states: all it adds is in ``_run``."""

    def _accepted(self, x: Tensor) -> torch.dtype:
        """The number type that input must have: that of the weights, or any under autocast."""
        return x.dtype if torch.is_autocast_enabled(x.device.type) else self.dtype

    def _fused(
        self,
        x: Tensor,
        hidden: Tensor | None,
        memory: Tensor | None,
        lengths: Tensor | None,
        weights: Mapping[str, Tensor],
        final: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Output, h_n and c_n of ``nn.LSTM`` with these weights, on its own code.

        ``final`` says whether h_n and c_n will be read: without them one direction need not stop at a sequence's end,
        because what comes after cannot change what was before.
        """
        zeros = x.new_zeros(self.num_layers * self.num_directions, x.shape[0], self.hidden_size)
        start = (zeros if hidden is None else hidden, zeros if memory is None else memory)
        if x.is_cuda and not torch.is_autocast_enabled("cuda"):
            weights = self._in_one_piece(weights)
        kinds = WEIGHTS[: 4 if self.bias else 2]
        flat = [weights[f"{kind}_{suffix}"] for suffix in self._suffixes() for kind in kinds]
        options = (flat, self.bias, self.num_layers, self._between_layers(), self.training, self.bidirectional)
        if lengths is None or not (final or self.bidirectional):
            output, h_n, c_n = torch.lstm(x, start, *options, True)
            return output if lengths is None else clear_padding(output, lengths), h_n, c_n
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        order, back = cast(Tensor, packed.sorted_indices), cast(Tensor, packed.unsorted_indices)
        start = (start[0][:, order], start[1][:, order])
        data, h_n, c_n = torch.lstm(packed.data, packed.batch_sizes, start, *options)
        output = pad_packed_sequence(packed._replace(data=data), batch_first=True, total_length=x.shape[1])[0]
        return output, h_n[:, back], c_n[:, back]

    def _names(self) -> list[str]:
        """Of the weights, in the order in which cuDNN holds them: all matrices, then all biases."""
        kinds = (("weight_ih", "weight_hh"), ("bias_ih", "bias_hh"))[: 1 + self.bias]
        return [f"{name}_{suffix}" for names in kinds for suffix in self._suffixes() for name in names]

    def _in_one_piece(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The weights as one piece of memory: scattered ones cuDNN would gather at every call, with a warning.

        It wants room for biases even where there are none.
        """
        parts = [weights[name] for name in self._names()]
        if self.bias and len({part.untyped_storage().data_ptr() for part in parts}) == 1:
            return weights
        room = [] if self.bias else [parts[0].new_zeros(8 * self.hidden_size * len(self._suffixes()))]
        whole = torch.cat([part.flatten() for part in parts] + room)
        pieces = whole.split([part.numel() for part in parts + room])
        return {name: piece.view_as(part) for name, piece, part in zip(self._names(), pieces, parts, strict=False)}

    def _between_layers(self) -> float:
        """The rate of PyTorch's own dropout between layers, in training."""
        return self.dropout

    def features(
        self,
        inputs: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
        steps: Steps = "all",
        embedding: Tensor | None = None,
    ) -> Tensor:
        """Run over (batch, time, input_size); see :meth:`StochasticRNN.features`."""
        x = inputs if embedding is None else F.embedding(inputs, embedding)
        if steps == "last" and noise is not None and self._may_be_stacked(x, mode):
            return self._at_ends(x, lengths, noise)[:, None]
        output = self._run(x, None, None, lengths, noise, mode, final=False)[0]
        return last_steps(output, lengths, self.num_directions) if steps == "last" else output

    @abstractmethod
    def parts(self, x: Tensor, noise: Noise) -> list[stacked.Part]:
        """What is drawn for (batch, time, input_size), as networks for ``engine.stacked``; of a single layer.

        Their rows are those of the noise, one after another.
        """

    def _may_be_stacked(self, x: Tensor, mode: LayerMode | None) -> bool:
        """Whether the samples of a prediction can be run at once."""
        simple = self.num_layers == 1 and not self.bidirectional and self.bias
        alone = torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type)
        return simple and not alone and self._chosen(mode) == "sampled" and stacked.is_fast(x)

    def _at_ends(self, x: Tensor, lengths: Tensor | None, noise: Noise) -> Tensor:
        """h after the last valid step, (rows, d)."""
        batch, lengths = x.shape[0], self._checked(x, self.dtype, x.shape, lengths)
        check_rows(noise, batch)
        parts = self.parts(x, noise)
        if lengths is not None:
            lengths = lengths.to(x.device).repeat(len(parts[0].x) // batch)
        return stacked.run(parts, [lengths] * len(parts)).flatten(0, 1)

    def _whole(
        self,
        x: Tensor,
        hidden: Tensor | None,
        memory: Tensor | None,
        lengths: Tensor | None,
        noise: Noise | None,
        mode: LayerMode | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        return self._run(x, hidden, memory, lengths, noise, mode, final=True)

    @abstractmethod
    def _run(
        self,
        x: Tensor,
        hidden: Tensor | None,
        memory: Tensor | None,
        lengths: Tensor | None,
        noise: Noise | None,
        mode: LayerMode | None,
        final: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Output, h_n and c_n of all rows; ``final`` says whether the last two will be read."""


def check_rows(noise: Noise, batch: int) -> int:
    """How many samples a noise names for each sequence of a batch."""
    rows = len(noise.sequence)
    if rows % batch:
        raise ValueError(f"noise names {rows} rows, which is not a multiple of the {batch} sequences given")
    return rows // batch


def check_rate(name: str, rate: float) -> None:
    """Raise unless a rate of dropout leaves something."""
    if not 0 <= rate < 1:
        raise ValueError(f"{name} must be in [0, 1), got {rate}")


def last_steps(output: Tensor, lengths: Tensor | None, directions: int) -> Tensor:
    """What each direction read last of (rows, time, directions · d): (rows, 1, directions · d).

    Example:
        >>> last_steps(torch.arange(8.0).view(2, 4, 1), torch.tensor([3, 1]), 1).flatten().tolist()
        [2.0, 4.0]
    """
    size = output.shape[-1] // directions
    if lengths is None:
        forward = output[:, -1:, :size]
    else:
        last = lengths.to(output.device).repeat(len(output) // len(lengths)) - 1
        forward = output[torch.arange(len(output), device=output.device), last, :size][:, None]
    return beside([forward, output[:, :1, size:]][:directions])
