"""The CPU engine computes what the reference does: values, gradients and noise, for any threads and batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

import sttau
from sttau.engine import Cell, Mode, Noise, Weights, using
from sttau.engine.recurrence import cpu, reference
from sttau.engine.recurrence.problem import Gradients, Needs, Problem, Results
from tests.engine.agreement import Case as AgreedCase
from tests.engine.agreement import disagreement, small_cases

TOKENS = 6
ALL = Needs(x=True, first=True)


class Case(NamedTuple):
    """Everything a layer is run with, in the reference's terms."""

    cell: Cell
    mode: Mode
    read: str
    inputs: Tensor  # (time, batch, features), or (TOKENS, features)
    index: Tensor | None  # type: ignore[assignment]
    weights: Weights
    hidden: Tensor
    memory: Tensor
    lengths: Tensor | None
    noise: Noise
    reverse: bool
    rows: int

    def leaves(self) -> dict[str, Tensor]:
        named = dict(self.weights._asdict(), inputs=self.inputs, hidden=self.hidden, memory=self.memory)
        if self.cell == "gru":
            del named["memory"]
        return {name: tensor for name, tensor in named.items() if tensor is not None}


def some_case(
    cell: Cell = "lstm",
    mode: Mode = "soft",
    read: str = "all",
    *,
    states: int = 3,
    hidden: int = 7,
    time: int = 5,
    features: int = 3,
    batch: int = 4,
    samples: int = 1,
    shared: bool = True,
    peephole: bool = False,
    bias: bool = True,
    lengths: bool = False,
    reverse: bool = False,
    tokens: bool = False,
    dtype: torch.dtype = torch.float64,
    tau: float = 0.7,
) -> Case:
    width, rows = (4 if cell == "lstm" else 3) * hidden, batch * samples

    def numbers(*shape: int, scale: float = 1.0) -> Tensor:
        return (scale * torch.randn(*shape, dtype=torch.float64)).to(dtype).requires_grad_()

    return Case(
        cell=cell,
        mode=mode,
        read=read,
        inputs=numbers(TOKENS, features) if tokens else numbers(time, batch, features),
        index=torch.randint(TOKENS, (time, batch)) if tokens else None,
        weights=Weights(
            input=numbers(width, features, scale=0.5),
            recurrent=numbers(width, hidden, scale=hidden**-0.5),
            input_bias=numbers(width, scale=0.3) if bias else None,
            recurrent_bias=numbers(width, scale=0.3),
            states=numbers(states, hidden),
            temperature=torch.tensor(tau, dtype=dtype, requires_grad=True),
            peephole=numbers(3, hidden, scale=0.5) if peephole else None,
        ),
        hidden=numbers(1 if shared else rows, hidden),
        memory=numbers(1 if shared else rows, hidden),
        lengths=torch.randint(1, time + 1, (batch,)) if lengths else None,
        noise=Noise.of(torch.arange(10, 10 + batch), samples, seed=2**40 + 7),
        reverse=reverse,
        rows=rows,
    )


def as_problem(case: Case) -> tuple[Problem, Tensor, Tensor]:
    """The engine's view of a case; and U and start with their graphs, to lead gradients back to the weights."""
    w, noisy = case.weights, case.mode != "deterministic"
    assert w.recurrent_bias is not None
    recurrent = w.states @ w.recurrent.T + w.recurrent_bias
    start = case.hidden @ w.recurrent.T + w.recurrent_bias
    problem = Problem(
        x=case.inputs.detach(),
        index=case.index,
        input=w.input.detach(),
        input_bias=None if w.input_bias is None else w.input_bias.detach(),
        recurrent=recurrent.detach(),
        states=w.states.detach(),
        temperature=w.temperature.detach(),
        peephole=None if w.peephole is None else w.peephole.detach(),
        start=start.detach(),
        first=(case.memory if case.cell == "lstm" else case.hidden).detach(),
        lengths=case.lengths,
        seed=case.noise.seed if noisy else None,
        sequence=case.noise.sequence if noisy else None,
        sample=case.noise.sample if noisy else None,
        rows=case.rows,
        first_step=case.noise.first_step,
        layer=case.noise.layer,
        cell=case.cell,
        mode=case.mode,
        reverse=case.reverse,
        read=case.read,
    )
    return problem, recurrent, start


def by_reference(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """α, output and last as the contract has them, computed by the reference."""
    inputs = case.inputs if case.index is None else case.inputs[case.index]
    run = reference.run(
        case.cell,
        inputs.transpose(0, 1),
        case.weights,
        case.hidden.expand(case.rows, -1),
        case.memory.expand(case.rows, -1) if case.cell == "lstm" else None,
        noise=case.noise,
        mode=case.mode,
        readout="cell",
        lengths=case.lengths,
        reverse=case.reverse,
    )
    alpha, output = run.transitions.transpose(0, 1), run.output.transpose(0, 1)
    time, batch, _ = inputs.shape
    if case.read == "none":
        output = output[:0]
    elif case.read == "last":
        lengths = torch.full((batch,), time) if case.lengths is None else case.lengths
        last = torch.zeros_like(lengths) if case.reverse else lengths - 1
        output = output[last.repeat(case.rows // batch), torch.arange(case.rows)][None]
    return alpha, output, output.new_zeros(0, output.shape[2]) if run.memory is None else run.memory


def by_engine(case: Case, cotangents: tuple[Tensor, Tensor, Tensor]) -> tuple[Results, Gradients, dict[str, Tensor]]:
    """Results of the engine, its own gradients, and those of the case's leaves."""
    problem, recurrent, start = as_problem(case)
    results = cpu.forward(problem, keep=True)
    own = cpu.backward(problem, results, *cotangents, ALL)
    leaves = case.leaves()
    first = (case.memory if case.cell == "lstm" else case.hidden) * 1
    led_back = torch.autograd.grad(
        [recurrent, start, first],
        list(leaves.values()),
        [own.recurrent, own.start, own.first],
        allow_unused=True,
    )
    direct = {
        "inputs": own.x,
        "input": own.input,
        "input_bias": own.input_bias,
        "states": own.states,
        "temperature": own.temperature,
        "peephole": own.peephole,
    }
    gradients = {}
    for name, led in zip(leaves, led_back, strict=True):
        parts = [part for part in (led, direct.get(name)) if part is not None]
        gradients[name] = sum(parts[1:], start=parts[0])
    return results, own, gradients


def some_cotangents(tensors: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
    alpha, output, last = (torch.randn_like(tensor) for tensor in tensors)
    return alpha, output, last


def close(ours: Tensor, theirs: Tensor, tolerance: float) -> bool:
    if ours.shape != theirs.shape:
        return False
    return bool((ours - theirs).norm() <= tolerance * theirs.norm().clamp(min=1e-6))


def agrees(case: Case, tolerance: float) -> None:
    expected = by_reference(case)
    cotangents = some_cotangents(expected)
    results, _, gradients = by_engine(case, cotangents)
    for ours, theirs in zip((results.alpha, results.output, results.last), expected, strict=True):
        assert close(ours, theirs.detach(), tolerance)
    loss = sum((value * weight).sum() for value, weight in zip(expected, cotangents, strict=True))
    leaves = case.leaves()
    for name, theirs in zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True):  # type: ignore[arg-type]
        assert close(gradients[name], theirs, tolerance), name


@pytest.mark.parametrize("tokens", [False, True], ids=["features", "tokens"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("lengths", [False, True], ids=["full", "lengths"])
@pytest.mark.parametrize("mode", ["soft", "hard", "deterministic"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_values_and_gradients_are_the_references(
    cell: Cell, mode: Mode, lengths: bool, reverse: bool, tokens: bool
) -> None:
    for number, read in enumerate(("none", "all", "last")):
        settings: dict[str, Any] = {"lengths": lengths, "reverse": reverse, "tokens": tokens, "bias": number != 1}
        peephole = cell == "lstm" and number == 2
        case = some_case(cell, mode, read, samples=1 + number, shared=number != 1, peephole=peephole, **settings)
        agrees(case, 1e-10)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize(
    ("states", "hidden", "time", "features", "batch"),
    [(2, 1, 1, 1, 1), (5, 7, 2, 1, 3), (10, 100, 30, 40, 9), (33, 130, 30, 3, 2), (100, 16, 120, 9, 33)],
)
def test_any_size_works(cell: Cell, states: int, hidden: int, time: int, features: int, batch: int) -> None:
    sizes = {"states": states, "hidden": hidden, "time": time, "features": features, "batch": batch}
    agrees(some_case(cell, lengths=True, **sizes), 1e-10)  # type: ignore[arg-type]
    # In float32 both sides round; how much that grows through the steps depends on how contracting the network is.
    agrees(some_case(cell, lengths=True, dtype=torch.float32, tau=3.0, **sizes), 1e-4)  # type: ignore[arg-type]


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_float32_with_tokens_and_samples(cell: Cell) -> None:
    agrees(some_case(cell, "hard", tokens=True, samples=3, dtype=torch.float32), 1e-4)


def test_gradients_are_those_of_finite_differences() -> None:
    case = some_case("lstm", batch=2, time=3, peephole=True, samples=2)
    problem, _, _ = as_problem(case)
    results = cpu.forward(problem, keep=True)
    cotangents = some_cotangents(results[:3])
    gradients = cpu.backward(problem, results, *cotangents, ALL)

    def loss(**changed: Tensor) -> float:
        new = cpu.forward(problem._replace(**changed), keep=False)  # type: ignore[arg-type]
        return float(sum((value * weight).sum() for value, weight in zip(new, cotangents, strict=False)))

    for name in Gradients._fields:
        value: Tensor = getattr(problem, name)
        direction = torch.randn_like(value)
        up, down = loss(**{name: value + 1e-6 * direction}), loss(**{name: value - 1e-6 * direction})
        assert (up - down) / 2e-6 == pytest.approx(float((getattr(gradients, name) * direction).sum()), rel=1e-6), name


def test_outputs_that_are_not_needed_are_not_computed() -> None:
    problem, _, _ = as_problem(some_case("lstm", "hard", "none"))
    lean, kept = cpu.forward(problem, keep=False), cpu.forward(problem, keep=True)
    assert torch.equal(lean.alpha, kept.alpha)
    assert lean.soft.numel() == lean.memory.numel() == lean.output.numel() == lean.projected.numel() == 0
    assert kept.soft.shape == kept.alpha.shape
    gradients = cpu.backward(problem, kept, *some_cotangents(kept[:3]), Needs(x=False, first=True))
    assert gradients.x is None
    assert gradients.peephole is None


@pytest.mark.parametrize("states", [1, 3, 4, 17])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_noise_is_that_of_the_reference(states: int, dtype: torch.dtype) -> None:
    # With S = 0 the logits vanish, so at τ = 1 log α is the noise up to a constant.
    case = some_case(states=states, time=40, dtype=dtype, tau=1.0, samples=2)
    noise = Noise.of(torch.tensor([-1, 2**33 + 5, 7, 0]), 2, seed=-(2**50) + 3, first_sample=2)
    noise = Noise(noise.seed, noise.sequence, noise.sample, first_step=2**32 - 20, layer=9)
    problem, _, _ = as_problem(case._replace(noise=noise))
    alpha = cpu.forward(problem._replace(states=torch.zeros_like(problem.states)), keep=False).alpha
    gumbel = noise.gumbel(0, 40, states, dtype).transpose(0, 1)
    torch.testing.assert_close(alpha, gumbel.softmax(dim=-1), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("tokens", [False, True], ids=["features", "tokens"])
def test_results_do_not_depend_on_the_threads(monkeypatch: pytest.MonkeyPatch, tokens: bool) -> None:
    monkeypatch.setattr("sttau.engine.simd.threads._SMALL", 0)
    problem, _, _ = as_problem(some_case(batch=37, features=12, tokens=tokens, dtype=torch.float32, samples=2))
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        results = cpu.forward(problem, keep=True)
        found.append([*results[:5], *cpu.backward(problem, results, *results[:3], ALL)])
    for other in found[1:]:
        pairs = zip(found[0], other, strict=True)
        assert all(torch.equal(a, b) for a, b in pairs if a is not None and b is not None)


@pytest.mark.parametrize("features", [3, 12])
def test_a_row_does_not_depend_on_the_other_rows(features: int) -> None:
    case = some_case(batch=11, features=features, dtype=torch.float32, time=50)
    problem, _, _ = as_problem(case)
    whole = cpu.forward(problem, keep=False)
    part = problem._replace(
        x=problem.x[:, 4:6].contiguous(), rows=2, sequence=case.noise.sequence[4:6], sample=case.noise.sample[4:6]
    )
    alone = cpu.forward(part, keep=False)
    assert torch.equal(alone.alpha, whole.alpha[:, 4:6])
    assert torch.equal(alone.output, whole.output[:, 4:6])


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_saving_the_projected_input_changes_nothing(cell: Cell, reverse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    case = some_case(cell, features=12, time=220, lengths=True, samples=2, reverse=reverse, dtype=torch.float32)
    problem, _, _ = as_problem(case)
    whole = cpu.forward(problem, keep=True)
    cotangents = some_cotangents(whole[:3])
    expected = cpu.backward(problem, whole, *cotangents, ALL)
    batch, time, width = whole.projected.shape
    assert (batch, time) == (4, 220)
    for steps in (0, 150):
        monkeypatch.setattr(cpu, "_KEPT_BYTES", steps * batch * width * 4)
        results = cpu.forward(problem, keep=True)
        assert results.projected.shape == (batch, steps, width)
        found = cpu.backward(problem, results, *cotangents, ALL)
        for ours, theirs in zip((*results[:3], *found), (*whole[:3], *expected), strict=True):
            assert ours is theirs is None or torch.equal(ours, theirs)  # type: ignore[arg-type]


def test_tokens_summed_in_several_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_SPAN_BYTES", 20_000)
    agrees(some_case(tokens=True, time=40, lengths=True), 1e-10)
    agrees(some_case("gru", tokens=True, time=40, lengths=True, reverse=True), 1e-10)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_extreme_logits_and_long_sequences_stay_finite(cell: Cell) -> None:
    case = some_case(cell, hidden=2, batch=1, time=20_000, features=1, dtype=torch.float32, tau=1e-3)
    problem, _, _ = as_problem(case)
    problem = problem._replace(states=problem.states * 1e4)
    results = cpu.forward(problem, keep=True)
    gradients = cpu.backward(problem, results, *some_cotangents(results[:3]), ALL)
    assert all(tensor.isfinite().all() for tensor in (*results[:3], *gradients) if tensor is not None)


def test_nan_in_the_input_is_not_hidden_and_in_the_padding_has_no_effect() -> None:
    problem, _, _ = as_problem(some_case(dtype=torch.float32, features=12))
    lengths = torch.tensor([5, 2, 4, 5])
    clean = cpu.forward(problem._replace(lengths=lengths), keep=False)
    problem.x[2:, 1] = torch.nan
    assert torch.equal(cpu.forward(problem._replace(lengths=lengths), keep=False).alpha, clean.alpha)
    assert cpu.forward(problem, keep=False).alpha[2:, 1].isnan().all()


@pytest.mark.parametrize("agreed", small_cases(), ids=str)
def test_values_and_gradients_of_the_operator_are_those_of_the_reference(agreed: AgreedCase) -> None:
    assert max(disagreement(agreed, "cpu").values()) < 1e-4
    assert max(disagreement(agreed, "cpu", torch.float64).values()) < 1e-10


def test_bfloat16_is_only_storage() -> None:
    layer = sttau.STTauLSTM(3, 20, 4).bfloat16()
    x, noise = torch.randn(30, 2, 3).bfloat16(), Noise.of(torch.arange(2))
    ours, _ = layer(x, noise=noise)
    with using("reference"):
        true, _ = layer(x, noise=noise)
    assert ours.dtype == torch.bfloat16
    torch.testing.assert_close(ours, true, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("token", [-1, 5])
def test_token_ids_outside_the_vocabulary_are_refused_except_in_padding(cell: Cell, token: int) -> None:
    layer = {"lstm": sttau.STTauLSTM, "gru": sttau.STTauGRU}[cell](3, 8, 4, batch_first=True)
    tokens, table, noise = torch.tensor([[0, 2, 4], [1, 3, token]]), torch.randn(5, 3), Noise.of(torch.arange(2))
    with pytest.raises(IndexError, match=f"token ids must be in 0 … 4, got {min(token, 0)} … {max(token, 4)}"):
        layer.features(tokens, noise=noise, embedding=table)
    with pytest.raises(IndexError), torch.no_grad():
        torch.compile(layer.features, backend="eager")(tokens, noise=noise, embedding=table)
    lengths = torch.tensor([3, 2])
    found = layer.features(tokens, lengths, noise=noise, embedding=table)
    tokens[1, 2] = 0
    torch.testing.assert_close(found, layer.features(tokens, lengths, noise=noise, embedding=table))
