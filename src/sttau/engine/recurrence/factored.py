"""The factored recurrence: what a fast engine must compute, and its place in PyTorch's autograd.

h_{t-1} is a mixture of k states, so the recurrent product never needs the d × d matrix:

    W_h h_{t-1} + b_h = Uᵀ α_{t-1},    U = S W_hᵀ + b_h    (k × G·d; Σ α = 1 lets the bias live in every row)

A :class:`Problem` is one layer in one direction in this form. An engine is two functions, ``forward(problem, keep)``
and ``backward(problem, results, …)``, and ``projected_shape(problem, keep)``, the shape of ``Results.projected``;
``engine/cpu.py`` and ``engine/triton.py`` have them. They are wrapped here twice. As PyTorch operators with shapes
known beforehand, so that ``torch.compile`` and ``torch.export`` can hold them; U is then plain PyTorch before the
operator. And as a plain autograd function, which has U inside: what runs otherwise, because a short sequence takes
less time than the way through the dispatcher and autograd's nodes for U. The last hidden state and the readout
h_t = Sᵀ α_t are plain PyTorch around either.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from sttau.engine.constants import kept
from sttau.engine.noise import Noise
from sttau.engine.reference import Cell, Mode, Readout, Run, Steps, Weights, count_rows
from sttau.padding import clear_padding


class Problem(NamedTuple):
    """One layer in one direction. Time stands first; row r reads sequence r mod B; G is 4 (LSTM) or 3 (GRU)."""

    x: Tensor  # (T, B, F) features; with ``index``, (V, F): one vector for every token
    index: Tensor | None  # type: ignore[assignment]  # (T, B) int64: which vector a step reads
    input: Tensor  # (G·d, F)
    input_bias: Tensor | None  # (G·d,)
    recurrent: Tensor  # U, (k, G·d)
    states: Tensor  # S, (k, d)
    temperature: Tensor  # τ, a scalar
    peephole: Tensor | None  # (3, d)
    start: Tensor  # (1 or rows, G·d): W_h h_0 + b_h, in place of Uᵀ α in a row's first step
    first: Tensor  # (1 or rows, d): c_0 of an LSTM, h_0 of a GRU
    lengths: Tensor | None  # (B,) int64
    seed: Tensor | None  # scalar int64; none of the three in deterministic mode
    sequence: Tensor | None  # (rows,) int64
    sample: Tensor | None  # (rows,) int64
    rows: int
    first_step: int
    layer: int
    cell: str
    mode: str
    reverse: bool
    read: str  # which u_t to return: "none", "last" or "all"


class Results(NamedTuple):
    """What ``forward`` returns; the last three are for ``backward`` alone."""

    alpha: Tensor  # (T, rows, k): the α that makes h_t; zero beyond a row's length
    output: Tensor  # u: (T, rows, d), zero beyond the length; (1, rows, d) of the step read last; or (0, rows, d)
    last: Tensor  # LSTM: (rows, d), c after the step read last; GRU: (0, d)
    soft: Tensor  # (T, rows, k): soft α where ``alpha`` is hard; else (0, rows, k)
    memory: Tensor  # LSTM: (T, rows, d), c_t; else (0, rows, d)
    projected: Tensor  # of the input, what the engine would not compute twice, laid out as it likes; may be empty


class Needs(NamedTuple):
    """Which of the costlier gradients are wanted."""

    x: bool
    first: bool


class Gradients(NamedTuple):
    """What ``backward`` returns: the gradients of the fields of a problem, in their shapes; None where not needed.

    If ``backward`` is given W_h, it goes on through U = S W_hᵀ + b_h, as :func:`through_weight` does.
    """

    x: Tensor | None
    input: Tensor
    input_bias: Tensor | None
    recurrent: Tensor
    states: Tensor  # of S in the logits S u and, for a GRU, in h_{t-1} = Sᵀ α_{t-1}; not in U
    temperature: Tensor
    peephole: Tensor | None
    start: Tensor
    first: Tensor | None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """``F.linear`` that always takes the one-product path: (…, F) gives (…, G·d)."""
    flat = x.reshape(-1, x.shape[-1])
    product = flat @ weight.T if bias is None else torch.addmm(bias, flat, weight.T)
    return product.reshape(*x.shape[:-1], len(weight))


@kept
def constant_zeros(rows: int, columns: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros that nobody writes to."""
    return torch.zeros(rows, columns, dtype=dtype, device=device)


def _zeros(rows: int, columns: int, like: Tensor) -> Tensor:
    return constant_zeros(rows, columns, like.dtype, like.device)


def through_weight(gradients: Gradients, states: Tensor, weight: Tensor) -> Gradients:
    """Go on from U, and from a start that is b_h: ``recurrent`` is then of W_h, ``start`` of b_h, ``states`` whole."""
    by_state = gradients.recurrent
    return gradients._replace(
        recurrent=by_state.T @ states,
        states=torch.addmm(gradients.states, by_state, weight),
        start=gradients.start + by_state.sum(0),
    )


def as_rows(lengths: Tensor, rows: int) -> Tensor:
    """One entry a sequence to one entry a row."""
    return lengths.repeat(rows // len(lengths))


def run(
    engine: str,
    cell: Cell,
    inputs: Tensor,
    weights: Weights,
    hidden: Tensor | None,
    memory: Tensor | None,
    *,
    noise: Noise | None,
    mode: Mode,
    readout: Readout,
    lengths: Tensor | None,
    reverse: bool,
    steps: Steps,
    embedding: Tensor | None,
    final: bool,
) -> Run:
    """The recurrence of :func:`sttau.engine.reference.run` on the engine named, with the same arguments.

    Unless ``final``, the last hidden state is not computed and an empty tensor stands for it.
    """
    if mode != "deterministic" and noise is None:
        raise ValueError(f"mode={mode!r} needs noise; pass noise=Noise.of(...)")
    vectors = inputs if embedding is None else embedding
    dtype = vectors.dtype
    work = torch.promote_types(dtype, torch.float32)  # bfloat16 is storage; the state is kept in float32
    rows = count_rows(len(inputs), hidden, memory, noise)
    if lengths is not None:
        lengths = lengths.to(inputs.device)
        inputs = clear_padding(inputs, lengths)  # whatever stands there, NaN included, must not reach a product
    x, index = inputs.transpose(0, 1), None
    if embedding is not None:
        x, index = _tokens(x, embedding, engine)

    if dtype != work and engine == "cpu":
        x, weights = x.to(work), weights._replace(input=weights.input.to(work))
    if dtype != work:
        weights = Weights(weights.input, *(None if given is None else given.to(work) for given in weights[1:]))  # type: ignore[arg-type]
        hidden = None if hidden is None else hidden.to(work)
        memory = None if memory is None else memory.to(work)
    states = weights.states.contiguous()
    first = hidden if cell == "gru" else memory
    draws = None if mode == "deterministic" else noise
    alpha, output, last = _call(
        weights.recurrent,
        weights.recurrent_bias,
        hidden,
        Problem(
            x=x.contiguous(),
            index=index if index is None else index.contiguous(),
            input=weights.input.contiguous(),
            input_bias=weights.input_bias if weights.input_bias is None else weights.input_bias.to(x.dtype),
            recurrent=states,  # U, put there by those called
            states=states,
            temperature=weights.temperature,
            peephole=weights.peephole if weights.peephole is None else weights.peephole.contiguous(),
            start=states,
            first=_zeros(1, states.shape[1], states) if first is None else first.contiguous(),
            lengths=lengths,
            seed=None if draws is None else draws.seed,
            sequence=None if draws is None else draws.sequence,
            sample=None if draws is None else draws.sample,
            rows=rows,
            first_step=0 if draws is None else draws.first_step,
            layer=0 if draws is None else draws.layer,
            cell=cell,
            mode=mode,
            reverse=reverse,
            read="none" if readout == "state" else steps,
        ),
        engine,
    )

    def hidden_at_end() -> Tensor:
        if reverse:
            ended = alpha[0]
        elif lengths is None:
            ended = alpha[-1]
        else:
            place = (as_rows(lengths, rows) - 1)[None, :, None].expand(1, -1, alpha.shape[2])
            ended = alpha.gather(0, place)[0]
        return (ended @ states).to(dtype)

    if readout == "state":
        output = (alpha @ states).transpose(0, 1).to(dtype) if steps == "all" else hidden_at_end()[:, None]
    else:
        output = output.transpose(0, 1).to(dtype)
    return Run(
        output=output,
        hidden=hidden_at_end() if final else _zeros(0, states.shape[1], states),
        memory=last.to(dtype) if cell == "lstm" else None,
        transitions=alpha.transpose(0, 1).to(dtype),
    )


def _tokens(index: Tensor, embedding: Tensor, engine: str) -> tuple[Tensor, Tensor | None]:
    """Vectors to project, and which of them each step reads; (T, B) ids and the (V, F) table.

    Every vector is projected once, however often its token occurs. On a CPU only those that occur are; on a GPU, where
    finding them would make the host wait, it is all of them (no gradients, and more tokens than vectors) or none.
    """
    if engine == "cpu":
        occurs = torch.zeros(len(embedding), dtype=torch.bool)
        occurs[index.reshape(-1)] = True
        place = occurs.cumsum(0) - 1
        return embedding[occurs.nonzero()[:, 0]], place[index]
    if index.numel() > len(embedding) and not torch.is_grad_enabled():
        return embedding, index
    return F.embedding(index, embedding), None


# -- in PyTorch's autograd, plainly and as an operator -----------------------------------------------------------------


def _engine(name: str) -> Any:
    return import_module(f"sttau.engine.{name}")


def _call(
    weight: Tensor, bias: Tensor | None, hidden: Tensor | None, problem: Problem, engine: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a problem that lacks U and the start, which W_h, b_h and h_0 make: α, u and the last memory."""
    recording, compiling = torch.is_grad_enabled(), torch.compiler.is_compiling()
    if recording and hidden is None and not compiling:
        return _apply(weight, bias, *problem, engine)
    problem = _with_weight(problem, weight, bias, hidden)
    if compiling:
        return cast(tuple[Tensor, Tensor, Tensor], torch.ops.sttau.recurrence(*problem, recording, engine)[:3])
    if recording:
        return _apply(None, None, *problem, engine)
    results: Results = _engine(engine).forward(problem, False)
    return results[:3]


def _with_weight(problem: Problem, weight: Tensor, bias: Tensor | None, hidden: Tensor | None) -> Problem:
    if hidden is not None:
        start = F.linear(hidden, weight, bias).contiguous()
    else:
        start = _zeros(1, len(weight), weight) if bias is None else bias[None]
    return problem._replace(recurrent=F.linear(problem.states, weight, bias), start=start)


class _Plain(torch.autograd.Function):
    """The recurrence; with W_h and b_h given, U and the start are made here of them."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor | None, bias: Tensor | None, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
        *fields, engine = inputs
        problem = Problem(*fields)
        if weight is not None:
            problem = _with_weight(problem, weight, bias, None)
        results: Results = _engine(engine).forward(problem, True)
        ctx.settings, ctx.engine = problem[_TENSORS:], engine
        ctx.has_bias = bias is not None
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(weight, *problem[:_TENSORS], results.alpha, *results[3:])
        return results[:3]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        weight, *tensors = ctx.saved_tensors
        alpha, *kept = tensors[_TENSORS:]
        found: Gradients = _engine(ctx.engine).backward(
            Problem(*tensors[:_TENSORS], *ctx.settings),
            Results(alpha, alpha, alpha, *kept),  # what was returned is not looked at again
            *(None if grad is None else grad.contiguous() for grad in grads),
            Needs(ctx.needs_input_grad[2], ctx.needs_input_grad[11]),
            weight,
        )
        x, input, input_bias, recurrent, states, temperature, peephole, start, first = found
        whole = weight is not None
        return (
            recurrent if whole else None,
            start[0] if ctx.has_bias else None,
            x,
            None,
            input,
            input_bias,
            None if whole else recurrent,
            states,
            temperature,
            peephole,
            None if whole else start,
            first,
            *(None,) * (len(Problem._fields) - 10 + 1),
        )


_TENSORS = 14  # fields of a problem that are tensors: the first
_apply = cast(Callable[..., tuple[Tensor, Tensor, Tensor]], _Plain.apply)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *problem, _, engine = inputs
    ctx.given = [field is not None for field in problem[:_TENSORS]]
    ctx.settings = (*problem[_TENSORS:], engine)
    alpha, _, _, *kept = output
    ctx.mark_non_differentiable(*kept)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*(field for field in problem[:_TENSORS] if field is not None), alpha, *kept)


def _differentiate(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    needs = Needs(ctx.needs_input_grad[0], ctx.needs_input_grad[9])
    given = [*ctx.given, True, True, True, True, *(grad is not None for grad in grads[:3])]
    tensors = [*ctx.saved_tensors, *(grad.contiguous() for grad in grads[:3] if grad is not None)]
    found = iter(torch.ops.sttau.recurrence_backward(tensors, given, *ctx.settings, *needs))
    wanted = [needs.x, False, *ctx.given[2:9], needs.first]
    return (*(next(found) if want else None for want in wanted), *(None,) * (len(Problem._fields) - 10 + 2))


@torch.library.custom_op("sttau::recurrence", mutates_args=())
def _recurrence(
    x: Tensor,
    index: Tensor | None,
    input: Tensor,
    input_bias: Tensor | None,
    recurrent: Tensor,
    states: Tensor,
    temperature: Tensor,
    peephole: Tensor | None,
    start: Tensor,
    first: Tensor,
    lengths: Tensor | None,
    seed: Tensor | None,
    sequence: Tensor | None,
    sample: Tensor | None,
    rows: int,
    first_step: int,
    layer: int,
    cell: str,
    mode: str,
    reverse: bool,
    read: str,
    keep: bool,
    engine: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    problem = Problem(
        x, index, input, input_bias, recurrent, states, temperature, peephole, start, first, lengths,
        seed, sequence, sample, rows, first_step, layer, cell, mode, reverse, read,
    )  # fmt: skip
    return cast(tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], tuple(_engine(engine).forward(problem, keep)))


@_recurrence.register_fake
def _(  # type: ignore[no-untyped-def]
    x, index, input, input_bias, recurrent, states, temperature, peephole, start, first, lengths, seed, sequence,
    sample, rows, first_step, layer, cell, mode, reverse, read, keep, engine,
):  # fmt: skip
    time = (x if index is None else index).shape[0]
    k, d = states.shape
    new = states.new_empty
    problem = Problem(
        x, index, input, input_bias, recurrent, states, temperature, peephole, start, first, lengths,
        seed, sequence, sample, rows, first_step, layer, cell, mode, reverse, read,
    )  # fmt: skip
    return (
        new(time, rows, k),
        x.new_empty({"none": 0, "last": 1, "all": time}[read], rows, d),
        new(rows if cell == "lstm" else 0, d),
        new(time if keep and mode == "hard" else 0, rows, k),
        new(time if keep and cell == "lstm" else 0, rows, d),
        new(_engine(engine).projected_shape(problem, keep)),
    )


@torch.library.custom_op("sttau::recurrence_backward", mutates_args=())
def _recurrence_backward(
    tensors: list[Tensor],
    given: list[bool],
    rows: int,
    first_step: int,
    layer: int,
    cell: str,
    mode: str,
    reverse: bool,
    read: str,
    engine: str,
    needs_x: bool,
    needs_first: bool,
) -> list[Tensor]:
    supply = iter(tensors)
    fields: list[Any] = [next(supply) if is_given else None for is_given in given]
    alpha, soft, memory, projected, *grads = fields[_TENSORS:]
    found: Gradients = _engine(engine).backward(
        Problem._make([*fields[:_TENSORS], rows, first_step, layer, cell, mode, reverse, read]),
        Results(alpha, alpha, alpha, soft, memory, projected),
        *grads,
        Needs(needs_x, needs_first),
    )
    # An operator's results must not share memory.
    return [gradient.clone() for gradient in found if gradient is not None]


@_recurrence_backward.register_fake
def _(  # type: ignore[no-untyped-def]
    tensors, given, rows, first_step, layer, cell, mode, reverse, read, engine, needs_x, needs_first
):
    supply = iter(tensors)
    x, _, *rest, first = [next(supply) if is_given else None for is_given in given][:10]
    wanted = ([x] if needs_x else []) + rest + ([first] if needs_first else [])
    return [torch.empty_like(field) for field in wanted if field is not None]


torch.library.register_autograd("sttau::recurrence", _differentiate, setup_context=_remember)
