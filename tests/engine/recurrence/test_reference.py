"""The recurrence is the paper's: hand-written cells, closed forms and finite differences say so."""

from __future__ import annotations

from typing import Any, Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sttau.engine import Cell, Mode, Noise, Run, Weights
from sttau.engine.recurrence import reference
from sttau.engine.recurrence.reference import run, transition

FEATURES, HIDDEN, STATES = 2, 3, 4
CELL = pytest.mark.parametrize("cell", ["lstm", "gru"])
MODE = pytest.mark.parametrize("mode", ["soft", "hard", "deterministic"])
REVERSE = pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
Form = Literal["plain", "lengths"]
FORM = pytest.mark.parametrize("form", ["plain", "lengths"])


class WrittenDown(Noise):
    """Noise whose draws (rows, time, states) are given."""

    def __init__(self, draws: Tensor) -> None:
        row = torch.arange(len(draws))
        super().__init__(seed=torch.tensor(0), sequence=row, sample=torch.zeros_like(row))
        object.__setattr__(self, "draws", draws)

    def gumbel(self, start: int, steps: int, states: int, dtype: torch.dtype = torch.float32) -> Tensor:
        draws: Tensor = self.draws  # type: ignore[attr-defined]
        assert draws.shape[2] == states
        return draws[:, start : start + steps].to(dtype)


def some_weights(
    cell: Cell, *, states: int = STATES, peephole: bool = False, bias: bool = True, tau: float = 0.7
) -> Weights:
    width = (4 if cell == "lstm" else 3) * HIDDEN
    return Weights(
        input=torch.randn(width, FEATURES, dtype=torch.float64),
        recurrent=torch.randn(width, HIDDEN, dtype=torch.float64),
        input_bias=torch.randn(width, dtype=torch.float64) if bias else None,
        recurrent_bias=torch.randn(width, dtype=torch.float64) if bias else None,
        states=torch.randn(states, HIDDEN, dtype=torch.float64),
        temperature=torch.tensor(tau, dtype=torch.float64),
        peephole=torch.randn(3, HIDDEN, dtype=torch.float64) if peephole else None,
    )


def some_inputs(batch: int = 3, time: int = 5) -> Tensor:
    return torch.randn(batch, time, FEATURES, dtype=torch.float64)


def some_start(cell: Cell, rows: int = 3) -> tuple[Tensor, Tensor | None]:
    hidden, memory = torch.randn(2, rows, HIDDEN, dtype=torch.float64)
    return hidden, memory if cell == "lstm" else None


def some_noise(batch: int = 3, samples: int = 1) -> Noise:
    return Noise.of(torch.arange(10, 10 + batch), samples, seed=4)


def written_cell(cell: Cell, x: Tensor, h: Tensor, c: Tensor | None, weights: Weights) -> tuple[Tensor, Tensor | None]:
    """u and c by PyTorch's own cells, or, with peepholes, by the equations of Gers & Schmidhuber."""
    w = weights
    if w.peephole is not None:
        assert c is not None
        gates = x @ w.input.T + h @ w.recurrent.T
        if w.input_bias is not None and w.recurrent_bias is not None:
            gates = gates + w.input_bias + w.recurrent_bias
        d = HIDDEN
        p_i, p_f, p_o = w.peephole
        i, f = torch.sigmoid(gates[:, :d] + p_i * c), torch.sigmoid(gates[:, d : 2 * d] + p_f * c)
        new = f * c + i * torch.tanh(gates[:, 2 * d : 3 * d])
        return torch.sigmoid(gates[:, 3 * d :] + p_o * new) * torch.tanh(new), new
    if cell == "lstm":
        assert c is not None
        return torch.lstm_cell(x, (h, c), w.input, w.recurrent, w.input_bias, w.recurrent_bias)
    return torch.gru_cell(x, h, w.input, w.recurrent, w.input_bias, w.recurrent_bias), None


class StraightThrough(torch.autograd.Function):
    """One-hot of the largest entry of l + γ; its gradient by the formula of the soft α, written out."""

    @staticmethod
    def forward(ctx: Any, perturbed: Tensor, tau: Tensor) -> Tensor:
        scaled = perturbed / tau
        soft = torch.exp(scaled - scaled.logsumexp(-1, keepdim=True))
        ctx.save_for_backward(soft, perturbed, tau)
        return (perturbed == perturbed.amax(-1, keepdim=True)).to(soft.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        soft, perturbed, tau = ctx.saved_tensors
        back = soft * (grads[0] - (soft * grads[0]).sum(-1, keepdim=True))
        return back / tau, -(back * perturbed).sum() / tau**2


def written_run(cell: Cell, x: Tensor, weights: Weights, h: Tensor, c: Tensor | None, noise: Noise, mode: Mode) -> Run:
    """The recurrence for whole sequences, one sample, written out a second time."""
    S, tau = weights.states, weights.temperature
    gumbel = noise.gumbel(0, x.shape[1], len(S), x.dtype)
    outputs, alphas = [], []
    for t in range(x.shape[1]):
        u, c = written_cell(cell, x[:, t], h, c, weights)
        logits = torch.einsum("kd,nd->nk", S, u)
        if mode == "hard":
            alpha: Tensor = StraightThrough.apply(logits + gumbel[:, t], tau)  # type: ignore[no-untyped-call]
        else:
            scores = torch.exp((logits + (gumbel[:, t] if mode == "soft" else 0)) / tau)
            alpha = scores / scores.sum(-1, keepdim=True)
        h = torch.einsum("nk,kd->nd", alpha, S)
        outputs.append(h)
        alphas.append(alpha)
    return Run(torch.stack(outputs, 1), h, c, torch.stack(alphas, 1))


def assert_runs_equal(one: Run, other: Run, tolerance: float = 1e-12) -> None:
    for a, b in zip(one, other, strict=True):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def converted(tensors: Any, dtype: torch.dtype) -> Any:
    """A tuple, named or not, with its tensors in another dtype."""
    changed = [None if tensor is None else tensor.detach().to(dtype) for tensor in tensors]
    return type(tensors)(*changed) if hasattr(tensors, "_fields") else changed


def gradients(result: Run, wanted: list[Tensor]) -> list[Tensor]:
    """Gradients of a loss that weights every value of a result differently."""
    parts = [part for part in result if part is not None]
    loss = sum(
        ((part * torch.linspace(-1, 2, part.numel(), dtype=part.dtype).view_as(part)).sum() for part in parts),
        start=torch.zeros((), dtype=parts[0].dtype),
    )
    return list(torch.autograd.grad(loss, wanted))


def learnable(weights: Weights, *others: Tensor | None) -> list[Tensor]:
    """Every tensor among the weights and the others, with gradients enabled."""
    return [tensor.requires_grad_() for tensor in (*weights, *others) if tensor is not None]


# -- α -------------------------------------------------------------------------------------------------------


def test_deterministic_alpha_is_the_softmax_of_the_logits_over_tau() -> None:
    logits = torch.tensor([[2.0, 0.0], [0.0, 0.0]], dtype=torch.float64).log1p()  # log 3, log 1
    alpha = transition(logits, torch.tensor(0.5, dtype=torch.float64), None, "deterministic")
    torch.testing.assert_close(alpha, torch.tensor([[0.9, 0.1], [0.5, 0.5]], dtype=torch.float64))


def test_soft_alpha_adds_the_noise_before_dividing_by_tau() -> None:
    logits = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    gumbel = torch.tensor([[3.0, 0.0]], dtype=torch.float64)
    alpha = transition(logits, torch.tensor(2.0, dtype=torch.float64), gumbel, "soft")
    torch.testing.assert_close(alpha[0, 0], torch.sigmoid(torch.tensor(1.0, dtype=torch.float64)))


@MODE
@given(
    logits=st.lists(st.floats(-1e4, 1e4), min_size=2, max_size=8),
    tau=st.floats(1e-3, 1e3),
    seed=st.integers(0, 100),
)
def test_alpha_lies_on_the_simplex(mode: Mode, logits: list[float], tau: float, seed: int) -> None:
    gumbel = Noise.of(torch.tensor([0]), seed=seed).gumbel(0, 1, len(logits), torch.float64)[:, 0]
    wide = torch.tensor([logits], dtype=torch.float64)
    alpha = transition(wide, torch.tensor(tau, dtype=torch.float64), None if mode == "deterministic" else gumbel, mode)
    assert (alpha >= 0).all()
    assert alpha.sum().item() == pytest.approx(1, abs=1e-14)


def test_straight_through_is_exactly_the_one_hot_of_the_perturbed_argmax() -> None:
    logits = torch.randn(1000, STATES, requires_grad=True)
    gumbel = Noise.of(torch.arange(1000)).gumbel(0, 1, STATES)[:, 0]
    alpha = transition(logits, torch.tensor(0.3), gumbel, "hard")
    largest = (logits + gumbel).max(dim=-1, keepdim=True).values
    assert torch.equal(alpha, (logits + gumbel == largest).float())  # no rounding is left in the value


def test_straight_through_has_the_gradient_of_soft() -> None:
    logits = torch.randn(5, STATES, dtype=torch.float64, requires_grad=True)
    tau = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    gumbel = Noise.of(torch.arange(5)).gumbel(0, 1, STATES, torch.float64)[:, 0]
    weight = torch.randn(5, STATES, dtype=torch.float64)
    hard, soft = (
        torch.autograd.grad((transition(logits, tau, gumbel, mode) * weight).sum(), [logits, tau])
        for mode in ("hard", "soft")
    )
    assert torch.equal(hard[0], soft[0])
    assert torch.equal(hard[1], soft[1])


# -- one step and many ---------------------------------------------------------------------------------------


def test_two_steps_of_a_gru_computed_by_hand() -> None:
    """With all gate weights zero r = z = 1/2 and n = 0, so u = h/2: the recurrence has a closed form."""
    S = torch.tensor([[2.0], [-2.0]], dtype=torch.float64)
    weights = Weights(torch.zeros(3, 1), torch.zeros(3, 1), None, None, S, torch.tensor(1.0))
    start = torch.ones(1, 1, dtype=torch.float64)
    result = run("gru", torch.zeros(1, 2, 1, dtype=torch.float64), weights, start, None, mode="deterministic")
    # u = 1/2, logits ±1, α = (σ(2), σ(-2)), h = 2·tanh(1); then u = tanh(1), logits ±2·tanh(1), …
    first = torch.tensor(1.0, dtype=torch.float64).tanh()
    second = (2 * first).tanh()
    torch.testing.assert_close(result.output[0, :, 0], torch.stack([2 * first, 2 * second]))
    torch.testing.assert_close(result.transitions[0, :, 0], torch.stack([(1 + first) / 2, (1 + second) / 2]))


def test_two_steps_of_an_lstm_computed_by_hand() -> None:
    """With all gate weights zero every gate is 1/2 and g = 0, so c halves and u = tanh(c)/2."""
    S = torch.tensor([[3.0], [-3.0]], dtype=torch.float64)
    weights = Weights(torch.zeros(4, 1), torch.zeros(4, 1), None, None, S, torch.tensor(2.0))
    start = torch.zeros(1, 1, dtype=torch.float64)
    x = torch.zeros(1, 2, 1, dtype=torch.float64)
    result = run("lstm", x, weights, start, start + 4, mode="deterministic")
    c = torch.tensor([2.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(result.output[0, :, 0], 3 * (3 * c.tanh() / 2 / 2).tanh())
    assert result.memory is not None
    assert result.memory.item() == 1.0


@CELL
@MODE
@pytest.mark.parametrize("bias", [True, False])
def test_the_recurrence_equals_a_second_implementation_on_pytorchs_cells(cell: Cell, mode: Mode, bias: bool) -> None:
    weights, x, (h, c) = some_weights(cell, bias=bias), some_inputs(), some_start(cell)
    noise = some_noise()
    assert_runs_equal(
        run(cell, x, weights, h, c, noise=noise, mode=mode), written_run(cell, x, weights, h, c, noise, mode)
    )


@MODE
def test_peepholes_equal_a_hand_written_peephole_lstm(mode: Mode) -> None:
    weights, x, (h, c) = some_weights("lstm", peephole=True), some_inputs(), some_start("lstm")
    noise = some_noise()
    result = run("lstm", x, weights, h, c, noise=noise, mode=mode)
    assert_runs_equal(result, written_run("lstm", x, weights, h, c, noise, mode))
    plain = run("lstm", x, weights._replace(peephole=None), h, c, noise=noise, mode=mode)
    assert result.memory is not None
    assert plain.memory is not None
    assert (result.memory != plain.memory).all()


@CELL
@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_noise_that_forces_a_path_gives_the_plain_cell_started_from_the_states_of_that_path(
    cell: Cell, mode: Mode
) -> None:
    weights, x, (h, c) = some_weights(cell), some_inputs(), some_start(cell)
    path = torch.randint(STATES, (3, 5))
    forced = WrittenDown(1e6 * torch.nn.functional.one_hot(path, STATES).double())
    result = run(cell, x, weights, h, c, noise=forced, mode=mode, readout="cell")
    assert torch.equal(result.transitions.argmax(-1), path)
    for t in range(5):
        u, c = written_cell(cell, x[:, t], h, c, weights)
        torch.testing.assert_close(result.output[:, t], u, rtol=1e-13, atol=1e-13)
        h = weights.states[path[:, t]]
    assert torch.equal(result.hidden, h)


@CELL
def test_straight_through_outputs_are_exactly_rows_of_the_states(cell: Cell) -> None:
    weights, x, (h, c) = some_weights(cell), some_inputs(), some_start(cell)
    result = run(cell, x, weights, h, c, noise=some_noise(), mode="hard")
    assert torch.equal(result.output, weights.states[result.transitions.argmax(-1)])
    assert torch.equal(result.hidden, result.output[:, -1])


@CELL
def test_soft_tends_to_straight_through_as_tau_tends_to_zero(cell: Cell) -> None:
    weights, x, (h, c) = some_weights(cell, tau=1e-9), some_inputs(time=20), some_start(cell)
    soft, hard = (run(cell, x, weights, h, c, noise=some_noise(), mode=mode) for mode in ("soft", "hard"))
    assert_runs_equal(soft, hard)


@CELL
def test_outputs_are_mixtures_of_the_states_by_alpha(cell: Cell) -> None:
    weights, x, (h, c) = some_weights(cell), some_inputs(), some_start(cell)
    result = run(cell, x, weights, h, c, noise=some_noise())
    torch.testing.assert_close(result.output, result.transitions @ weights.states)
    torch.testing.assert_close(result.hidden, result.output[:, -1])


@CELL
def test_the_cell_readout_changes_what_is_returned_and_not_the_recurrence(cell: Cell) -> None:
    weights, x, (h, c) = some_weights(cell), some_inputs(), some_start(cell)
    by_state, by_cell = (
        run(cell, x, weights, h, c, noise=some_noise(), readout=readout) for readout in ("state", "cell")
    )
    assert torch.equal(by_state.transitions, by_cell.transitions)
    assert torch.equal(by_state.hidden, by_cell.hidden)
    gumbel = some_noise().gumbel(0, 5, STATES, torch.float64)
    perturbed = by_cell.output @ weights.states.T + gumbel
    torch.testing.assert_close((perturbed / weights.temperature).softmax(-1), by_cell.transitions)


@CELL
@MODE
@given(order=st.permutations(range(STATES)))
def test_permuting_the_states_and_their_noise_permutes_alpha_and_nothing_else(
    cell: Cell, mode: Mode, order: list[int]
) -> None:
    torch.manual_seed(1)
    weights, x, (h, c) = some_weights(cell), some_inputs(), some_start(cell)
    draws = some_noise().gumbel(0, 5, STATES, torch.float64)
    before = run(cell, x, weights, h, c, noise=WrittenDown(draws), mode=mode)
    renamed = weights._replace(states=weights.states[order])
    after = run(cell, x, renamed, h, c, noise=WrittenDown(draws[..., order]), mode=mode)
    assert_runs_equal(after, before._replace(transitions=before.transitions[..., order]))


@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_sampling_without_noise_raises(mode: Mode) -> None:
    with pytest.raises(ValueError, match=f"mode='{mode}' needs noise"):
        run("gru", some_inputs(), some_weights("gru"), some_start("gru")[0], None, mode=mode)


# -- lengths, direction, samples -----------------------------------------------------------------------------


LENGTHS = torch.tensor([5, 1, 3])


@CELL
@MODE
@REVERSE
def test_a_padded_batch_equals_its_sequences_read_one_at_a_time(cell: Cell, mode: Mode, reverse: bool) -> None:
    weights, x, (h, c) = some_weights(cell), some_inputs(), some_start(cell)
    noise = some_noise()
    padded = run(cell, x, weights, h, c, noise=noise, mode=mode, lengths=LENGTHS, reverse=reverse)
    for i, length in enumerate(LENGTHS.tolist()):
        here = slice(i, i + 1)
        start = None if c is None else c[here]
        alone = run(
            cell, x[here, :length], weights, h[here], start, noise=Noise.of(noise.sequence[here], seed=4),
            mode=mode, reverse=reverse,
        )  # fmt: skip
        cut = Run(
            padded.output[here, :length],
            padded.hidden[here],
            None if padded.memory is None else padded.memory[here],
            padded.transitions[here, :length],
        )
        assert_runs_equal(cut, alone)
        assert not padded.output[i, length:].any()
        assert not padded.transitions[i, length:].any()


@CELL
@MODE
def test_reading_in_reverse_is_reading_the_flipped_sequence_under_flipped_noise(cell: Cell, mode: Mode) -> None:
    weights, x, (h, c) = some_weights(cell), some_inputs(), some_start(cell)
    draws = some_noise().gumbel(0, 5, STATES, torch.float64)
    back = run(cell, x, weights, h, c, noise=WrittenDown(draws), mode=mode, reverse=True)
    flipped = run(cell, x.flip(1), weights, h, c, noise=WrittenDown(draws.flip(1)), mode=mode)
    assert_runs_equal(back, flipped._replace(output=flipped.output.flip(1), transitions=flipped.transitions.flip(1)))


@CELL
@REVERSE
@FORM
def test_samples_that_share_the_input_equal_separate_calls(cell: Cell, reverse: bool, form: Form) -> None:
    weights, x, (h, c) = some_weights(cell), some_inputs(), some_start(cell, rows=12)
    lengths = LENGTHS if form == "lengths" else None
    together = run(cell, x, weights, h, c, noise=some_noise(samples=4), lengths=lengths, reverse=reverse)
    assert together.output.shape == (12, 5, HIDDEN)
    for sample in range(4):
        rows = slice(3 * sample, 3 * sample + 3)
        alone = run(
            cell, x, weights, h[rows], None if c is None else c[rows],
            noise=Noise.of(torch.arange(10, 13), 1, seed=4, first_sample=sample),
            lengths=lengths, reverse=reverse,
        )  # fmt: skip
        cut = Run(*(None if part is None else part[rows] for part in together))  # type: ignore[arg-type]
        assert_runs_equal(cut, alone)


@CELL
@MODE
@REVERSE
@pytest.mark.parametrize("filler", [torch.nan, torch.inf, 1e30])
def test_padding_changes_no_value_and_no_gradient(cell: Cell, mode: Mode, reverse: bool, filler: float) -> None:
    weights, x, (h, c) = some_weights(cell), some_inputs(), some_start(cell)
    padding = torch.arange(5) >= LENGTHS[:, None]
    results, slopes = [], []
    for content in (0.0, filler):
        filled = x.masked_fill(padding[..., None], content)
        wanted = learnable(weights, filled, h, c)
        result = run(cell, filled, weights, h, c, noise=some_noise(), mode=mode, lengths=LENGTHS, reverse=reverse)
        results.append(result)
        slopes.append(gradients(result, wanted))
        (at_input,) = (slope for tensor, slope in zip(wanted, slopes[-1], strict=True) if tensor is filled)
        assert torch.equal(at_input.any(-1), ~padding)
    assert_runs_equal(results[0], results[1], tolerance=0)
    assert all(torch.equal(a, b) for a, b in zip(*slopes, strict=True))


@CELL
@REVERSE
@pytest.mark.parametrize("values", [1, 2 * 3 * STATES])
def test_noise_drawn_in_blocks_equals_noise_drawn_at_once(
    cell: Cell, reverse: bool, values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, x, (h, c) = some_weights(cell), some_inputs(), some_start(cell)
    made: list[int] = []
    draw = Noise.gumbel

    def counted(self: Noise, start: int, steps: int, *others: Any) -> Tensor:
        made.append(steps)
        return draw(self, start, steps, *others)

    at_once = run(cell, x, weights, h, c, noise=some_noise(), reverse=reverse)
    monkeypatch.setattr(Noise, "gumbel", counted)
    monkeypatch.setattr(reference, "_NOISE_VALUES", values)
    in_blocks = run(cell, x, weights, h, c, noise=some_noise(), reverse=reverse)
    assert made == ([1] * 5 if values == 1 else [2, 2, 1])
    assert_runs_equal(in_blocks, at_once, tolerance=0)


# -- gradients -----------------------------------------------------------------------------------------------


@CELL
@pytest.mark.parametrize("mode", ["soft", "deterministic"])
@FORM
@REVERSE
@pytest.mark.parametrize("readout", ["state", "cell"])
@pytest.mark.slow
def test_gradients_of_every_tensor_are_those_of_finite_differences(
    cell: Cell, mode: Mode, form: Form, reverse: bool, readout: reference.Readout
) -> None:
    weights = some_weights(cell, states=3, peephole=cell == "lstm")
    x, (h, c) = some_inputs(batch=2, time=3), some_start(cell, rows=2)
    lengths = torch.tensor([3, 2]) if form == "lengths" else None
    present = [name for name, tensor in zip(Weights._fields, weights, strict=True) if tensor is not None]

    def results(*tensors: Tensor) -> list[Tensor]:
        given_weights = weights._replace(**dict(zip(present, tensors, strict=False)))
        inputs, hidden, *memory = tensors[len(present) :]
        result = run(
            cell, inputs, given_weights, hidden, memory[0] if memory else None, noise=some_noise(batch=2),
            mode=mode, lengths=lengths, reverse=reverse, readout=readout,
        )  # fmt: skip
        return [part for part in result if part is not None]

    assert torch.autograd.gradcheck(results, learnable(weights, x, h, c))


@CELL
@pytest.mark.parametrize("peephole", [False, True])
def test_straight_through_gradients_are_those_of_the_written_formula(cell: Cell, peephole: bool) -> None:
    weights = some_weights(cell, peephole=peephole and cell == "lstm")
    x, (h, c) = some_inputs(), some_start(cell)
    wanted = learnable(weights, x, h, c)
    ours = run(cell, x, weights, h, c, noise=some_noise(), mode="hard")
    theirs = written_run(cell, x, weights, h, c, some_noise(), "hard")
    assert_runs_equal(ours, theirs)
    for one, other in zip(gradients(ours, wanted), gradients(theirs, wanted), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
        assert one.any()


@CELL
def test_straight_through_has_the_gradient_of_soft_at_one_step(cell: Cell) -> None:
    """S is left out: h = Sᵀα, so its gradient holds α itself, hard in the one and soft in the other."""
    weights, x, (h, c) = some_weights(cell), some_inputs(time=1), some_start(cell)
    learnable(weights, x, h, c)
    wanted = [tensor for tensor in (*weights, x, h, c) if tensor is not None and tensor is not weights.states]
    hard, soft = (
        gradients(run(cell, x, weights, h, c, noise=some_noise(), mode=mode), wanted) for mode in ("hard", "soft")
    )
    for one, other in zip(hard, soft, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-13)


@CELL
def test_several_samples_add_their_gradients(cell: Cell) -> None:
    weights, x, (h, c) = some_weights(cell), some_inputs(), some_start(cell, rows=6)
    wanted = learnable(weights, x)

    def slopes(rows: slice, noise: Noise) -> list[Tensor]:
        memory = None if c is None else c[rows]
        output = run(cell, x, weights, h[rows], memory, noise=noise, lengths=LENGTHS).output
        return list(torch.autograd.grad(output.pow(2).sum(), wanted))

    together = slopes(slice(0, 6), some_noise(samples=2))
    apart = [slopes(slice(3 * s, 3 * s + 3), Noise.of(torch.arange(10, 13), 1, 4, s)) for s in range(2)]
    for whole, first, second in zip(together, *apart, strict=True):
        torch.testing.assert_close(whole, first + second, rtol=1e-12, atol=1e-12)


# -- numerical range -----------------------------------------------------------------------------------------


@CELL
@MODE
def test_bfloat16_is_only_storage(cell: Cell, mode: Mode) -> None:
    """Input and output are rounded; the recurrence between is that of float32, bit by bit."""
    weights, x, (h, c) = some_weights(cell), some_inputs(time=30), some_start(cell)
    weights, (x, h, c) = converted(weights, torch.bfloat16), converted((x, h, c), torch.bfloat16)
    stored = run(cell, x, weights, h, c, noise=some_noise(), mode=mode)
    weights, (x, h, c) = converted(weights, torch.float32), converted((x, h, c), torch.float32)
    exact = run(cell, x, weights, h, c, noise=some_noise(), mode=mode)
    for a, b in zip(stored, exact, strict=True):
        if b is not None:
            assert a is not None
            assert a.dtype == torch.bfloat16
            assert torch.equal(a, b.bfloat16())


@CELL
@MODE
def test_float32_follows_float64(cell: Cell, mode: Mode) -> None:
    weights, x, (h, c) = some_weights(cell), some_inputs(time=10), some_start(cell)
    double = run(cell, x, weights, h, c, noise=some_noise(), mode=mode)
    x, h, c = converted((x, h, c), torch.float32)
    single = run(cell, x, weights, h, c, noise=some_noise(), mode=mode)
    assert single.output.dtype == torch.float32
    assert_runs_equal(converted(single, torch.float64), double, 1e-4)


@CELL
@MODE
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_long_sequences_with_huge_logits_and_tiny_tau_stay_finite(cell: Cell, mode: Mode, dtype: torch.dtype) -> None:
    weights = some_weights(cell, tau=1e-3)
    weights = weights._replace(states=3e4 * weights.states)
    x, (h, c) = some_inputs(batch=2, time=300), some_start(cell, rows=2)
    weights, (x, h, c) = converted(weights, dtype), converted((x, h, c), dtype)
    wanted = learnable(weights, x, h, c)
    result = run(cell, x, weights, h, c, noise=some_noise(batch=2), mode=mode, readout="cell")
    logits = result.output @ weights.states.T
    assert logits.max() > 1e4
    assert logits.min() < -1e4
    assert all(part.isfinite().all() for part in result if part is not None)
    torch.testing.assert_close(result.transitions.sum(-1), torch.ones(2, 300, dtype=dtype))
    assert all(slope.isfinite().all() for slope in gradients(result, wanted))
