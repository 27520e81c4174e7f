"""The interface of every recurrent layer a model is built on."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from sttau.checks import as_integer, check_lengths, check_rate
from sttau.engine import Noise, Readout, Steps, Weights, stacked
from sttau.layers.call import SAMPLED_MODES, Call, LayerMode, LayerState, Output

#: Constructor of every layer that can be saved, by its name in files; see :func:`register_layer`.
LAYERS: dict[str, Callable[..., Any]] = {}

WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")  # of a layer and direction, as nn.LSTM names them


Layer = TypeVar("Layer", bound="type[RecurrentLayer]")


def register_layer(layer: Layer) -> Layer:
    """Class decorator: models on this layer can be saved, and loaded by its name."""
    LAYERS[layer.__name__] = layer
    return layer


def concatenate(directions: Sequence[Tensor]) -> Tensor:
    """Concatenate the outputs of the directions along the last dimension; one alone is returned as it is."""
    return directions[0] if len(directions) == 1 else torch.cat(list(directions), dim=-1)


class RecurrentLayer(nn.Module):
    """Base class of recurrent layers with the interface of ``nn.LSTM`` or ``nn.GRU``.

    A layer says by its attributes what it can do, so that models, training and inference need not know its class.

    Attributes:
        modes: Modes the layer can run in.
        mode: Mode of a call that does not name one; ``deterministic`` draws nothing.
        num_states: Number of learnable states k; None for a layer without states.
        shares_draws: Whether one draw serves all sequences of a call (a draw of weights).
        is_lstm: Whether the layer is an LSTM, with a memory cell; a GRU otherwise.
    """

    modes: ClassVar[tuple[LayerMode, ...]] = ("deterministic",)
    mode: LayerMode = "deterministic"
    num_states: int | None = None
    shares_draws: ClassVar[bool] = False
    is_lstm: bool = True

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
        input_size, hidden_size = as_integer("input_size", input_size, 1), as_integer("hidden_size", hidden_size, 1)
        num_layers = as_integer("num_layers", num_layers, 1)
        check_rate("dropout", dropout)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional

    # -- description -------------------------------------------------------------------------------------------------

    @property
    def num_directions(self) -> int:
        """1, or 2 for a bidirectional layer."""
        return 2 if self.bidirectional else 1

    @property
    def output_size(self) -> int:
        """Features per step of the output: directions · hidden_size."""
        return self.num_directions * self.hidden_size

    @property
    def _first_weight(self) -> Tensor:
        return cast(Tensor, self.weight_ih_l0)

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the weights, and so of input and output."""
        return self._first_weight.dtype

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self._first_weight.device

    @property
    def kind(self) -> str:
        """Name of the layer in saved files; see ``sttau.layers.LAYERS``."""
        return type(self).__name__

    @property
    def can_be_saved(self) -> bool:
        """Whether a file can name the layer: its class itself is registered, not one it is derived from."""
        return LAYERS.get(self.kind) is type(self)

    @property
    def temperature(self) -> Tensor:
        """τ of each layer and direction; empty for a layer without states."""
        return self._first_weight.new_empty(0)

    def config(self) -> dict[str, Any]:
        """Return the arguments that construct a layer like this one, as plain values."""
        return {
            "input_size": self.input_size,
            "hidden_size": self.hidden_size,
            "num_layers": self.num_layers,
            "bias": self.bias,
            "batch_first": self.batch_first,
            "dropout": self.dropout,
            "bidirectional": self.bidirectional,
        }

    def extra_repr(self) -> str:
        """Show input_size and hidden_size, as ``nn.LSTM`` does, and every option that differs from its default."""
        defaults = inspect.signature(type(self).__init__).parameters
        values = self.config()
        sizes = [str(values.pop(name)) for name in ("input_size", "hidden_size")]
        return ", ".join(
            sizes + [f"{name}={value!r}" for name, value in values.items() if value != defaults[name].default]
        )

    # -- what code written for nn.LSTM calls ---------------------------------------------------------------------------

    def __new__(cls, *args: Any, **kwargs: Any) -> RecurrentLayer:
        """Refuse the one argument of ``nn.LSTM`` that the layers do not have."""
        if "proj_size" in kwargs:
            raise ValueError(f"{cls.__name__} has no proj_size; leave it out and choose a smaller hidden_size instead")
        return super().__new__(cls)

    def weight(self, name: str) -> Tensor:
        """Return a parameter by name; inside ``torch.func.functional_call``, what stands in its place."""
        return cast(Tensor, getattr(self, name))

    def flatten_parameters(self) -> None:
        """Do nothing: where cuDNN needs weights in one piece of memory, they are laid out for each call."""

    @property
    def all_weights(self) -> list[list[nn.Parameter]]:
        """The parameters of each layer and direction, in the order of ``h_n``; those of ``nn.LSTM`` first."""
        named = dict(self.named_parameters())
        every = []
        for suffix in self._suffixes():
            first = [f"{kind}_{suffix}" for kind in WEIGHTS]
            others = [name for name in named if name.removesuffix("_rho").endswith(f"_{suffix}") and name not in first]
            every.append([named[name] for name in (*first, *others) if name in named])
        return every

    # -- modes -------------------------------------------------------------------------------------------------------

    def resolve_mode(self, mode: LayerMode | None) -> LayerMode:
        """Return the mode of a call, after checking that the layer has it; None is the layer's own mode."""
        mode = self.mode if mode is None else mode
        if mode not in self.modes:
            raise ValueError(
                f"mode must be one of {', '.join(map(repr, self.modes))} for {self.kind}, or None for its own; "
                f"got {mode!r}"
            )
        if mode == "exact":
            self.check_exact()
        return mode

    def check_exact(self) -> None:
        """Raise, with the reason, where exact inference is not possible."""
        raise ValueError(f"exact inference needs a layer with states, such as STTauGRU; {self.kind} has none")

    @property
    def can_sample(self) -> bool:
        """Whether the layer has a mode that draws."""
        return any(mode in SAMPLED_MODES for mode in self.modes)

    def floats_per_step(self, mode: LayerMode, *, per_step: bool) -> int:
        """Return about how many floats one step of one sample takes in inference, to bound memory.

        Args:
            mode: Mode of the call.
            per_step: Whether the output of every step is kept.
        """
        # Where weights or masks are drawn, each sample has its own gates, memory and input.
        return self.num_layers * (10 if mode == "sampled" else 5) * self.hidden_size

    def cell_weights(self, noise: Noise) -> Weights:
        """Return the weights of the first layer as the cells of ``engine`` read them, drawn where they are sampled."""
        return as_cell_weights(dict(self.named_parameters()), self.hidden_size)

    def cell_masks(self, noise: Noise) -> tuple[Tensor, Tensor]:
        """Return what inputs and hidden state of the first layer are multiplied by at every step: 1, or masks."""
        return torch.ones(()), torch.ones(())

    # -- training ----------------------------------------------------------------------------------------------------

    def kl_divergence(self) -> Tensor | None:
        """Return KL(q(w) ‖ p(w)) of a layer with a distribution over its weights; None for any other."""
        return None

    @property
    def is_stackable(self) -> bool:
        """Whether several such layers can be run as one by ``engine.stacked``."""
        return False

    def stacked_parts(self, x: Tensor, noise: Noise | None) -> list[stacked.Part]:
        """Return the networks that ``engine.stacked`` runs for (batch, time, input_size), one per draw of weights."""
        raise NotImplementedError(f"{self.kind} cannot be stacked")

    # -- running -----------------------------------------------------------------------------------------------------

    def features(
        self,
        inputs: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
        steps: Steps = "all",
        embedding: Tensor | None = None,
        readout: Readout | None = None,
    ) -> Tensor:
        """Run over (batch, time, input_size), whatever ``batch_first`` says; the form that models use.

        Args:
            inputs: (batch, time, input_size); or, with ``embedding``, (batch, time) token ids.
            lengths: (batch,) valid steps.
            noise: Noise of the draws; it may hold several samples per sequence.
            mode: Mode of this call; the layer's own by default.
            steps: ``all``, or only the ``last`` step that each direction reads, which saves time and memory.
            embedding: (vocabulary, input_size), the vectors of tokens.
            readout: ``state`` or ``cell`` for a finite-state layer, its own by default; other layers have one output.

        Returns:
            (rows, time, directions · hidden_size), zero beyond a sequence's length; (rows, 1, …) for the last step.
        """
        call = Call(self.resolve_mode(mode), lengths, noise, steps=steps, embedding=embedding, readout=readout)
        return self._run(inputs, call).output

    def advance(
        self,
        inputs: Tensor,
        state: LayerState | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
        readout: Readout | None = None,
    ) -> tuple[Tensor, LayerState]:
        """Run over the next steps of sequences that are read in pieces: the same values as if read at once.

        Args:
            inputs: (rows, time, input_size), the next steps.
            state: State after the steps before; None at the beginning.
            noise: Noise of the draws, one row each; its ``first_step`` is the number of steps read before. Where a draw
                serves all sequences (``shares_draws``), all rows must be of one sample.
            mode: Mode of this call; the layer's own by default.
            readout: ``state`` or ``cell`` for a finite-state layer, its own by default.

        Returns:
            (rows, time, hidden_size), and the state after these steps.

        Example:
            >>> from sttau import STTauGRU
            >>> layer, x = STTauGRU(2, 8, num_states=3), torch.randn(4, 6, 2)
            >>> whole = layer.features(x, mode="deterministic")
            >>> first, state = layer.advance(x[:, :2], mode="deterministic")
            >>> then, _ = layer.advance(x[:, 2:], state, mode="deterministic")
            >>> torch.allclose(torch.cat([first, then], dim=1), whole)
            True
        """
        if self.bidirectional:
            raise ValueError("a bidirectional layer cannot read in pieces: the other direction has seen the future")
        resolved = self.resolve_mode(mode)
        if resolved == "exact":
            raise ValueError("exact inference carries a distribution over states; use first_distribution and chain")
        hidden, memory = (None, None) if state is None else state
        call = Call(resolved, None, noise, hidden, memory, readout=readout, final=True)
        output, h_n, c_n = self._run(inputs, call)
        assert h_n is not None
        return output, LayerState(h_n, c_n)

    @abstractmethod
    def _run(self, inputs: Tensor, call: Call) -> Output:
        """Run over (batch, time, input_size), or over token ids where the call has an embedding."""

    def _suffixes(self) -> list[str]:
        ends = ("", "_reverse")[: self.num_directions]
        return [f"l{layer}{end}" for layer in range(self.num_layers) for end in ends]

    def _input_features(self, index: int) -> int:
        """Features that a layer and direction reads, by its place in ``h_n``."""
        return self.input_size if index < self.num_directions else self.output_size

    def _check_batch(
        self, vectors: Tensor, dtype: torch.dtype, shape: Sequence[int], lengths: Tensor | None
    ) -> Tensor | None:
        """Raise a clear error if the layer cannot read such a batch; return the lengths as int64."""
        batch, time = shape[:2]
        if vectors.dtype != dtype:
            raise TypeError(f"input is {vectors.dtype}, but the layer's weights are {dtype}; convert one of them")
        if vectors.shape[-1] != self.input_size:
            raise ValueError(f"input has {vectors.shape[-1]} features per step, but input_size is {self.input_size}")
        if batch == 0 or time == 0:
            raise ValueError(f"input is empty: {batch} sequences of {time} steps")
        if lengths is None:
            return None
        known = lengths.device.type == "cpu" and not torch.compiler.is_compiling()
        return check_lengths(lengths, batch, time, values=known)

    def _call(
        self,
        inputs: Tensor | PackedSequence,
        hidden: Tensor | None,
        memory: Tensor | None,
        lengths: Tensor | None,
        noise: Noise | None,
        mode: LayerMode | None,
    ) -> tuple[Tensor | PackedSequence, Tensor, Tensor | None]:
        """Convert any input ``nn.LSTM`` takes to (batch, time, features), run, and convert the result back."""
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
        call = Call(self.resolve_mode(mode), lengths, noise, hidden, memory, final=True)
        output, h_n, c_n = self._run(x, call)
        assert h_n is not None
        if isinstance(inputs, PackedSequence):
            if output.shape[0] != batch:
                raise ValueError("several samples per sequence need padded input with lengths, not a PackedSequence")
            order = inputs.sorted_indices
            ordered = output if order is None else output[order]
            ordered_lengths = lengths if order is None else cast(Tensor, lengths)[order.cpu()]
            data = pack_padded_sequence(ordered, cast(Tensor, ordered_lengths), batch_first=True).data
            return PackedSequence(data, inputs.batch_sizes, order, inputs.unsorted_indices), h_n, c_n
        if single and output.shape[0] == 1:
            return output[0], h_n[:, 0], None if c_n is None else c_n[:, 0]
        return output if self.batch_first else output.transpose(0, 1), h_n, c_n


def as_cell_weights(named: Mapping[str, Tensor], hidden_size: int) -> Weights:
    """Return the weights of layer 0, by their names in ``nn.LSTM``, as the cells of ``engine`` read them."""
    temperature = named.get("log_temperature_l0")
    return Weights(
        input=named["weight_ih_l0"],
        recurrent=named["weight_hh_l0"],
        input_bias=named.get("bias_ih_l0"),
        recurrent_bias=named.get("bias_hh_l0"),
        states=named.get("states_l0", torch.empty(0, hidden_size)),
        temperature=torch.ones(()) if temperature is None else temperature.exp(),
        peephole=named.get("weight_peephole_l0"),
    )


def samples_per_sequence(noise: Noise, batch: int) -> int:
    """Return how many samples a noise holds for each sequence of a batch."""
    rows = noise.sequence.shape[0]
    if rows % batch:
        raise ValueError(f"noise has {rows} rows, which is not a multiple of the {batch} sequences given")
    return rows // batch
