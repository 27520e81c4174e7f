"""The finite-state recurrence, step by step in plain PyTorch: the specification every other engine is tested against.

One step (paper §2.2; the notation is that of docs/mathematics.md):

    u_t, c_t = cell(x_t, h_{t-1}, c_{t-1})        an LSTM or GRU cell
    l_t      = S u_t                              logits over the k states ("log θ" in the paper)
    α_t      = softmax((l_t + γ_t) / τ)           γ_t ~ Gumbel(0, 1)
    h_t      = Sᵀ α_t                             soft; hard: the state at argmax(l_t + γ_t)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.engine.noise import Noise
from sttau.padding import clear_padding, valid_steps

Cell = Literal["lstm", "gru"]
Mode = Literal["soft", "hard", "deterministic"]
Readout = Literal["state", "cell"]
Steps = Literal["all", "last"]

_NOISE_VALUES = 1 << 22  # draws that are made at once, to bound memory


class Weights(NamedTuple):
    """The weights of one layer in one direction. G is the number of gates: 4 (i, f, g, o) or 3 (r, z, n)."""

    input: Tensor  # (G·d, features)
    recurrent: Tensor  # (G·d, d)
    input_bias: Tensor | None  # (G·d,)
    recurrent_bias: Tensor | None  # (G·d,)
    states: Tensor  # (k, d), one learnable state per row
    temperature: Tensor  # τ > 0, a scalar
    peephole: Tensor | None = None  # (3, d): diagonal connections from the memory to i, f and o

    def to(self, dtype: torch.dtype) -> Weights:
        """Convert all weights to a dtype."""
        return Weights(*(None if weight is None else weight.to(dtype) for weight in self))  # type: ignore[arg-type]


class Run(NamedTuple):
    """What a recurrence returns. Rows are ordered by sample first, then by sequence."""

    output: Tensor  # (rows, time, d), or (rows, 1, d) for the step read last; zero beyond a row's length
    hidden: Tensor  # (rows, d): h after the step read last
    memory: Tensor | None  # (rows, d): c after the step read last, for an LSTM
    transitions: Tensor  # (rows, time, k): α; zero beyond a row's length


def run(
    cell: Cell,
    inputs: Tensor,
    weights: Weights,
    hidden: Tensor | None = None,
    memory: Tensor | None = None,
    *,
    noise: Noise | None = None,
    mode: Mode = "soft",
    readout: Readout = "state",
    lengths: Tensor | None = None,
    reverse: bool = False,
    steps: Steps = "all",
    embedding: Tensor | None = None,
) -> Run:
    """Run one layer in one direction over a batch.

    Args:
        cell: Cell that computes u_t.
        inputs: (batch, time, features); or, with ``embedding``, (batch, time) token ids.
        weights: Weights of the layer.
        hidden: (rows, d), h_0, or (1, d) for all rows; zeros by default.
        memory: (rows, d), c_0 of an LSTM, or (1, d) for all rows; zeros by default.
        noise: Identity of the draws, one entry per row; not needed when ``mode`` is deterministic. The number of rows
            is a multiple of ``batch``: row r reads sequence r mod batch, so that Monte Carlo samples share the
            projected input.
        mode: ``soft``, ``hard`` (hard forward, soft gradient) or ``deterministic`` (no noise).
        readout: ``state`` returns h_t as output, ``cell`` returns u_t.
        lengths: (batch,) number of valid steps; None when all steps are valid.
        reverse: Whether to read from a sequence's last valid step to its first.
        steps: ``all`` returns the output of every step, ``last`` that of the step read last.
        embedding: (vocabulary, features), the vectors of token ids.
    """
    if embedding is not None:
        inputs = F.embedding(inputs, embedding)
    dtype = inputs.dtype
    work = torch.promote_types(dtype, torch.float32)  # bfloat16 is for storage; the state is float32
    inputs = inputs.to(work)
    weights = weights.to(work)

    batch, time, _ = inputs.shape
    rows = count_rows(batch, hidden, memory, noise)
    samples = rows // batch
    states, d = weights.states.shape
    hidden = (inputs.new_zeros(1, d) if hidden is None else hidden.to(work)).expand(rows, d)
    memory = (inputs.new_zeros(1, d) if memory is None else memory.to(work)).expand(rows, d)
    valid = None
    if lengths is not None:
        valid = valid_steps(inputs, lengths).repeat(samples, 1)
        inputs = clear_padding(inputs, lengths)
    projected = F.linear(inputs, weights.input, weights.input_bias)

    order = range(time - 1, -1, -1) if reverse else range(time)
    outputs: list[Tensor] = []
    transitions: list[Tensor] = []
    for t, gumbel in zip(order, _draws(noise, mode, order, states, work), strict=True):
        x = projected[:, t].repeat(samples, 1)
        if cell == "lstm":
            u, new_memory = lstm_cell(x, hidden, memory, weights)
        else:
            u, new_memory = gru_cell(x, hidden, weights), memory
        alpha = transition(u @ weights.states.T, weights.temperature, gumbel, mode)
        new_hidden = alpha @ weights.states
        output = new_hidden if readout == "state" else u
        if valid is not None:  # a finished row keeps its state and returns zeros
            on = valid[:, t, None]
            output, alpha = output * on, alpha * on
            new_hidden = torch.where(on, new_hidden, hidden)
            new_memory = torch.where(on, new_memory, memory)
        hidden, memory = new_hidden, new_memory
        outputs.append(output)
        transitions.append(alpha)
    if reverse:
        outputs.reverse()
        transitions.reverse()
    whole = torch.stack(outputs, dim=1)
    if steps == "last":
        end = torch.full((batch,), time, device=inputs.device) if lengths is None else lengths.to(inputs.device)
        place = torch.zeros_like(end) if reverse else end - 1
        whole = whole[torch.arange(rows, device=inputs.device), place.repeat(samples)][:, None]
    return Run(
        output=whole.to(dtype),
        hidden=hidden.to(dtype),
        memory=memory.to(dtype) if cell == "lstm" else None,
        transitions=torch.stack(transitions, dim=1).to(dtype),
    )


def count_rows(batch: int, hidden: Tensor | None, memory: Tensor | None, noise: Noise | None) -> int:
    """Number of rows: one per entry of ``noise``, or else per given h_0, but at least one per sequence."""
    if noise is not None:  # sizes are read from shapes: len() would fix a size that torch.export leaves free
        return noise.sequence.shape[0]
    rows = [given.shape[0] for given in (hidden, memory) if given is not None]
    return max(batch, *rows) if rows else batch


def _draws(noise: Noise | None, mode: Mode, order: range, states: int, dtype: torch.dtype) -> Iterator[Tensor | None]:
    """Yield γ_t, of shape (rows, k), for every step in reading order, in blocks of bounded size."""
    if mode == "deterministic":
        yield from repeat(None, len(order))
        return
    if noise is None:
        raise ValueError(f"mode={mode!r} needs noise; pass noise=Noise.of(...)")
    block = max(1, _NOISE_VALUES // (len(noise.sequence) * states))
    for start in range(0, len(order), block):
        part = order[start : start + block]
        first = min(part[0], part[-1])
        gumbel = noise.gumbel(first, len(part), states, dtype)
        for t in part:
            yield gumbel[:, t - first]


def lstm_cell(x: Tensor, hidden: Tensor, memory: Tensor, weights: Weights) -> tuple[Tensor, Tensor]:
    """One LSTM step on the projected input ``x``, with peepholes (Gers & Schmidhuber, 2000) where given."""
    i, f, g, o = (x + F.linear(hidden, weights.recurrent, weights.recurrent_bias)).chunk(4, dim=-1)
    if weights.peephole is not None:
        i, f = i + weights.peephole[0] * memory, f + weights.peephole[1] * memory
    memory = f.sigmoid() * memory + i.sigmoid() * g.tanh()
    if weights.peephole is not None:
        o = o + weights.peephole[2] * memory
    return o.sigmoid() * memory.tanh(), memory


def gru_cell(x: Tensor, hidden: Tensor, weights: Weights) -> Tensor:
    """One GRU step on the projected input ``x``, in the reset-after form of ``torch.nn.GRU``."""
    return gru_update(x, F.linear(hidden, weights.recurrent, weights.recurrent_bias), hidden)


def gru_update(x: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
    """Combine the projected input and the projected state into u; the three arguments broadcast."""
    x_r, x_z, x_n = x.chunk(3, dim=-1)
    h_r, h_z, h_n = recurrent.chunk(3, dim=-1)
    z = (x_z + h_z).sigmoid()
    n = (x_n + (x_r + h_r).sigmoid() * h_n).tanh()
    return (1 - z) * n + z * hidden


def transition(logits: Tensor, temperature: Tensor, gumbel: Tensor | None, mode: Mode) -> Tensor:
    """Return α over the states; a point of the simplex for every row.

    Example:
        >>> logits = torch.tensor([[2.0, 0.0]])
        >>> transition(logits, torch.tensor(2.0), None, "deterministic")
        tensor([[0.7311, 0.2689]])
        >>> transition(logits, torch.tensor(2.0), torch.tensor([[0.0, 3.0]]), "hard")
        tensor([[0., 1.]])
    """
    perturbed = logits if gumbel is None else logits + gumbel
    soft = (perturbed / temperature).softmax(dim=-1)
    if mode != "hard":
        return soft
    hard = F.one_hot(perturbed.argmax(dim=-1), logits.shape[-1]).to(soft.dtype)
    return hard + (soft - soft.detach())  # the value is exactly hard, the gradient is that of soft
