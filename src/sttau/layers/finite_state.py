"""What the finite-state layers share: a hidden state that is sampled from k learnable states (paper §2.2)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, cast, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sttau import engine
from sttau.checks import as_integer, check_lengths
from sttau.engine import Cell, Mode, Noise, Readout, Run, Steps, Weights, backend, path_sum
from sttau.layers.base import RecurrentLayer, concatenate, samples_per_sequence
from sttau.layers.call import Call, LayerMode, Output
from sttau.padding import clear_padding

Initial = Literal["zeros", "first"]

_LARGEST_TEMPERATURE = 1e20  # beyond it, or below its inverse, logits / τ or its gradient overflow in float32
_STATE_LENGTH = 2.0  # of a state at the start of training; see reset_parameters


class FiniteStateRNN(RecurrentLayer):
    """Base class of the finite-state layers. Use :class:`STTauLSTM` or :class:`STTauGRU`.

    Parameters are named as in ``nn.LSTM`` (``weight_ih_l0``, …, ``weight_ih_l0_reverse``), with ``states_l0`` and
    ``log_temperature_l0`` in addition, so weights of a plain layer load into an ST-τ layer with ``strict=False``.
    """

    modes: ClassVar[tuple[LayerMode, ...]] = ("soft", "hard", "exact", "deterministic")
    num_states: int
    cell: ClassVar[Cell]
    _gates: ClassVar[int]

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
        learn_temperature: bool = True,
        mode: LayerMode = "soft",
        readout: Readout = "state",
        initial: Initial = "zeros",
        peephole: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        if as_integer("num_states", num_states) < 2:
            raise ValueError(f"num_states must be at least 2 (one state cannot carry information), got {num_states}")
        if not (temperature > 0 and math.isfinite(temperature)):
            raise ValueError(f"temperature must be positive and finite, got {temperature}")
        if not 1 / _LARGEST_TEMPERATURE <= temperature <= _LARGEST_TEMPERATURE:
            limits = f"{1 / _LARGEST_TEMPERATURE:g} … {_LARGEST_TEMPERATURE:g}"
            raise ValueError(f"temperature must be in {limits}, where float32 does not overflow, got {temperature}")
        for name, value, choices in (
            ("mode", mode, self.modes),
            ("readout", readout, get_args(Readout)),
            ("initial", initial, get_args(Initial)),
        ):
            if value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}")
        if peephole and self.cell != "lstm":
            raise ValueError("peephole connections read an LSTM's memory; a GRU has none. Use STTauLSTM.")
        self.num_states = int(num_states)
        self.initial_temperature = float(temperature)
        self.learn_temperature = learn_temperature
        self.mode: LayerMode = mode
        self.readout: Readout = readout
        self.initial: Initial = initial
        self.peephole = peephole
        if mode == "exact":
            self.check_exact()

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        for index, suffix in enumerate(self._suffixes()):
            width = self._gates * hidden_size
            self.register_parameter(f"weight_ih_{suffix}", empty(width, self._input_features(index)))
            self.register_parameter(f"weight_hh_{suffix}", empty(width, hidden_size))
            if bias:
                self.register_parameter(f"bias_ih_{suffix}", empty(width))
                self.register_parameter(f"bias_hh_{suffix}", empty(width))
            if peephole:
                self.register_parameter(f"weight_peephole_{suffix}", empty(3, hidden_size))
            self.register_parameter(f"states_{suffix}", empty(num_states, hidden_size))
            if learn_temperature:
                self.register_parameter(f"log_temperature_{suffix}", empty())
            else:
                self.register_buffer(f"log_temperature_{suffix}", torch.empty((), device=device, dtype=dtype))
        self.reset_parameters()

    # -- description ---------------------------------------------------------------------------------------------

    @property
    def temperature(self) -> Tensor:
        """τ, positive: a scalar, or a vector in the order of ``h_n`` for several layers or directions."""
        values = [weights.temperature for weights in self._all_weights()]
        return values[0] if len(values) == 1 else torch.stack(values)

    @property
    def states(self) -> Tensor:
        """S, of shape (num_states, hidden_size); several layers or directions are stacked in front."""
        values = [weights.states for weights in self._all_weights()]
        return values[0] if len(values) == 1 else torch.stack(values)

    def reset_parameters(self) -> None:
        """Initialize all weights.

        Weights are uniform in ±1/√d as in ``nn.LSTM``; biases are zero, but 1 for an LSTM's forget gate (Jozefowicz et
        al., 2015), so that memory survives before it is trained. States start orthogonal, with rows of length 2: a cell
        that half keeps its state s_i (u ≈ s_i / 2) then gives it the logit 2 and the others 0, so that staying is
        likely but Gumbel noise (standard deviation 1.28) still moves it. Much shorter rows forget at every step, much
        longer ones freeze, and both learn slowly. τ starts at its given value.
        """
        d = self.hidden_size
        bound = 1 / math.sqrt(d)
        for name, parameter in self.named_parameters():
            if parameter.is_meta:
                continue  # there is nothing to set, and some operations would load PyTorch's compiler
            if name.startswith("states"):
                exactly = torch.empty_like(parameter, dtype=torch.promote_types(parameter.dtype, torch.float32))
                nn.init.orthogonal_(exactly)
                with torch.no_grad():
                    parameter.copy_(_STATE_LENGTH * F.normalize(exactly, dim=-1))  # with k > d rows are shorter than 1
            elif name.startswith("weight"):
                nn.init.uniform_(parameter, -bound, bound)
            elif name.startswith("bias"):
                nn.init.zeros_(parameter)
                if self.cell == "lstm" and name.startswith("bias_ih"):
                    nn.init.ones_(parameter[d : 2 * d])
        with torch.no_grad():
            for suffix in self._suffixes():
                cast(Tensor, getattr(self, f"log_temperature_{suffix}")).fill_(math.log(self.initial_temperature))

    def config(self) -> dict[str, Any]:
        """Return the arguments that construct a layer like this one, as plain values."""
        sizes = super().config()
        return {
            "input_size": sizes.pop("input_size"),
            "hidden_size": sizes.pop("hidden_size"),
            "num_states": self.num_states,
            **sizes,
            "temperature": self.initial_temperature,
            "learn_temperature": self.learn_temperature,
            "mode": self.mode,
            "readout": self.readout,
            "initial": self.initial,
            "peephole": self.peephole,
        }

    # -- running --------------------------------------------------------------------------------------------------

    def transitions(
        self,
        inputs: Tensor,
        lengths: Tensor | None = None,
        *,
        noise: Noise | None = None,
        mode: LayerMode | None = None,
    ) -> Tensor:
        """Return α of the last layer's forward direction for (batch, time, input_size): (rows, time, num_states)."""
        call = Call(self.resolve_mode(mode), lengths, noise)
        return self._run_layers(inputs, call)[1][-self.num_directions].transitions

    def _run(self, inputs: Tensor, call: Call) -> Output:
        output, runs = self._run_layers(inputs, call)
        if not call.final:
            return Output(output)
        memories = [run.memory for run in runs if run.memory is not None]
        return Output(output, torch.stack([run.hidden for run in runs]), torch.stack(memories) if memories else None)

    def _run_layers(self, inputs: Tensor, call: Call) -> tuple[Tensor, list[Run]]:
        """Run all layers and directions over (batch, time, features): the output, and the result of each of them.

        With an embedding, the vector of a token is projected once, however often the token occurs.
        """
        mode, noise, hidden, memory, embedding = call.mode, call.noise, call.hidden, call.memory, call.embedding
        batch = inputs.shape[0]
        vectors = inputs if embedding is None else embedding
        dtype = self.dtype
        if backend.is_mixed(vectors.device) and mode != "exact":
            dtype = torch.get_autocast_dtype(vectors.device.type)
            vectors = vectors.to(dtype)
        lengths = self._check_batch(vectors, dtype, inputs.shape, call.lengths)
        if mode == "exact":
            with backend.full_precision(inputs.device):
                pi = self._distributions(inputs, embedding, lengths, None if hidden is None else hidden[0])
            pi = pi.to(vectors.dtype)
            last = pi[:, -1:] @ self.states
            pi = clear_padding(pi, lengths)
            output = last if call.steps == "last" else pi @ self.states
            return output, [Run(output, last[:, 0], None, pi)]
        if noise is None and mode != "deterministic":
            noise = Noise.fresh(batch, inputs.device)
        rows = batch if noise is None else batch * samples_per_sequence(noise, batch)

        every: list[Run] = []
        runs: list[Run] = []
        below: list[Tensor] = []  # states of the layer below, where its α is the input instead of its output
        for layer in range(self.num_layers):
            if layer > 0:
                inputs, below = self._input_from_below(layer, runs)
                embedding, runs = None, []
                if lengths is not None and lengths.shape[0] < rows:
                    lengths = lengths.repeat(rows // batch)
            elif embedding is None:
                inputs = vectors
            else:
                embedding = vectors
            for direction in range(self.num_directions):
                index = layer * self.num_directions + direction
                weights = self._weights(index)
                if below:
                    parts = zip(weights.input.split(self.hidden_size, dim=1), below, strict=True)
                    weights = weights._replace(input=torch.cat([part @ states.T for part, states in parts], dim=1))
                if weights.input.dtype != dtype:
                    weights = weights._replace(input=weights.input.to(dtype))
                start = weights.states[:1] if self.initial == "first" else None
                runs.append(
                    engine.run(
                        self.cell,
                        inputs,
                        weights,
                        start if hidden is None else hidden[index].repeat(rows // hidden.shape[1], 1),
                        None if memory is None else memory[index].repeat(rows // memory.shape[1], 1),
                        noise=None if noise is None else noise.for_layer(index),
                        mode=cast(Mode, mode),
                        readout=(call.readout or self.readout) if self._is_top(layer) else self.readout,
                        lengths=lengths,
                        reverse=direction == 1,
                        steps=self._steps(layer, call),
                        embedding=embedding,
                        final=call.final,
                    )
                )
            every += runs
        return concatenate([run.output for run in runs]), every

    def _steps(self, layer: int, call: Call) -> Steps:
        """Which steps of a layer's output are needed: none but the last, where the next layer reads α."""
        if self._reads_transitions(layer + 1):
            return "last"
        return call.steps if self._is_top(layer) else "all"

    def _is_top(self, layer: int) -> bool:
        return layer == self.num_layers - 1

    def _reads_transitions(self, layer: int) -> bool:
        """Whether a layer reads α of the layer below instead of its output Sᵀα: k floats per step instead of d."""
        drops = self.training and self.dropout > 0
        return (
            0 < layer < self.num_layers and self.readout == "state" and not drops and self.num_states < self.hidden_size
        )

    def _input_from_below(self, layer: int, runs: list[Run]) -> tuple[Tensor, list[Tensor]]:
        """Return the input of an upper layer: the output below; or α, with the states that map it to that output."""
        if self._reads_transitions(layer):
            below = range((layer - 1) * self.num_directions, layer * self.num_directions)
            states = [self._weights(index).states for index in below]
            return concatenate([run.transitions for run in runs]), states
        return F.dropout(concatenate([run.output for run in runs]), self.dropout, self.training), []

    def floats_per_step(self, mode: LayerMode, *, per_step: bool) -> int:
        """Return about how many floats one step of one sample takes in inference."""
        if mode == "exact":
            return 4 * self.num_states**2
        if self.num_layers == 1 and not per_step and self.device.type == "cuda":
            return self.num_directions * self.num_states + self.hidden_size  # the kernels keep α alone
        return super().floats_per_step(mode, per_step=per_step)

    # -- exact inference ---------------------------------------------------------------------------------------------

    def check_exact(self) -> None:
        """Raise, with the reason, if the path sum is not the distribution of this layer (docs/mathematics.md, §4)."""
        reason = None
        if self.cell != "gru":
            reason = "an LSTM's memory c_t depends on the whole path, so its states are not a Markov chain"
        elif self.readout != "state":
            reason = 'readout="cell" reads u_t, which is not one of the states'
        elif self.num_layers > 1:
            reason = "the input of an upper layer is the random path of the layer below"
        elif self.bidirectional:
            reason = "it is written for one direction of reading"
        if reason is not None:
            raise ValueError(
                f"exact inference is not available for this {type(self).__name__}: {reason}. "
                'Use Monte Carlo: mode="soft" or mode="hard".'
            )

    def transition_matrices(self, inputs: Tensor, used: Tensor | None = None) -> Tensor:
        """Return A for each input vector: (..., input_size) gives (..., k, k).

        Row i is the distribution of the next state from s_i.

        This is the categorical distribution of hard sampling. It is not the mean of the soft α, which depends on τ.

        Args:
            inputs: Input vectors.
            used: How many of the vectors (n, input_size) are used, (1,); on a GPU, no others are computed. All if None.
        """
        self.check_exact()
        weights = self._working_weights()
        return path_sum.transition_matrices(inputs.to(weights.states.dtype), weights, used=used)

    def first_distribution(self, inputs: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Return π_1, the distribution of the state after a first input: (batch, input_size) gives (batch, k)."""
        self.check_exact()
        weights = self._working_weights()
        start = self._start(weights) if hidden is None else hidden[:, None].to(weights.states.dtype)
        return path_sum.transition_rows(inputs.to(weights.states.dtype), start, weights)[..., 0, :]

    def first_and_matrices(
        self, first: Tensor, inputs: Tensor, used: Tensor | None = None, *, hidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return :meth:`first_distribution` of ``first`` and :meth:`transition_matrices` of ``inputs``, faster."""
        if hidden is not None:
            return self.first_distribution(first, hidden), self.transition_matrices(inputs, used)
        self.check_exact()
        weights = self._working_weights()
        dtype = weights.states.dtype
        return path_sum.first_and_matrices(first.to(dtype), self._start(weights), inputs.to(dtype), weights, used=used)

    def _start(self, weights: Weights) -> Tensor:
        """The hidden state before the first input, (1, d)."""
        return weights.states[:1] if self.initial == "first" else torch.zeros_like(weights.states[:1])

    def state_distribution(
        self, inputs: Tensor, lengths: Tensor | None = None, *, hidden: Tensor | None = None
    ) -> Tensor:
        """Return π_t, the distribution of the state after each step of (batch, time, input_size): (batch, time, k)."""
        first, matrices = self.chain(inputs, lengths, hidden=hidden)
        return path_sum.state_distribution(first, matrices, lengths)

    def _distributions(
        self, inputs: Tensor, embedding: Tensor | None, lengths: Tensor | None, hidden: Tensor | None
    ) -> Tensor:
        """π_t of vectors, or of tokens: the matrix of a token is computed once."""
        if embedding is None:
            return self.state_distribution(inputs, lengths, hidden=hidden)
        tokens = clear_padding(inputs, lengths)
        entries, places, used = path_sum.distinct(tokens[:, 1:], len(embedding))
        begin, vectors = F.embedding(tokens[:, 0], embedding), F.embedding(entries, embedding)
        first, table = self.first_and_matrices(begin, vectors, used, hidden=hidden)
        return path_sum.state_distribution(first, table, lengths, places=places)

    def chain(
        self, inputs: Tensor, lengths: Tensor | None = None, *, hidden: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return π_1, of shape (batch, k), and A_2 … A_T, of shape (batch, time - 1, k, k)."""
        if lengths is not None:
            known = lengths.device.type == "cpu" and not torch.compiler.is_compiling()
            check_lengths(lengths, *inputs.shape[:2], values=known)
        inputs = clear_padding(inputs, lengths)
        return self.first_and_matrices(inputs[:, 0], inputs[:, 1:], hidden=hidden)

    # -- weights -----------------------------------------------------------------------------------------------------

    def cell_weights(self, noise: Noise) -> Weights:
        """Return the weights of the first layer, τ and states included."""
        return self._weights(0)

    def _weights(self, index: int) -> Weights:
        suffix = self._suffixes()[index]

        def get(name: str) -> Any:
            return getattr(self, f"{name}_{suffix}", None)

        return Weights(
            input=get("weight_ih"),
            recurrent=get("weight_hh"),
            input_bias=get("bias_ih"),
            recurrent_bias=get("bias_hh"),
            states=get("states"),
            temperature=get("log_temperature").exp(),
            peephole=get("weight_peephole"),
        )

    def _all_weights(self) -> list[Weights]:
        return [self._weights(index) for index in range(self.num_layers * self.num_directions)]

    def _working_weights(self) -> Weights:
        """The only layer's weights, in at least float32."""
        return self._weights(0).to(torch.promote_types(self.dtype, torch.float32))
