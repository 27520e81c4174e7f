"""The recurrence is the paper's: hand-written cells, closed forms and finite differences say so."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sttau.engine import Cell, Mode, Noise, Run, Weights
from sttau.engine.recurrence import reference
from sttau.engine.recurrence.reference import run, transition
from tests.engine.recurrence.written import (
    CELL,
    FORM,
    HIDDEN,
    LENGTHS,
    MODE,
    REVERSE,
    STATES,
    Form,
    assert_runs_equal,
    gradients,
    learnable,
    some_inputs,
    some_noise,
    some_start,
    some_weights,
    written_cell,
    written_run,
)


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
