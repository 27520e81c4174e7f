from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from sttau.automata import PA, MoveIntervals, as_dataset, move_intervals, random_pa, stochastic, tomita
from sttau.automata.exchange import diagram
from sttau.data import SequenceDataset

STRINGS = ["".join(word) for length in range(1, 6) for word in product("01", repeat=length)]


def labeled(pa: PA, labels: int, seed: int) -> tuple[SequenceDataset, torch.Tensor]:
    accepted = torch.from_numpy(np.random.default_rng(seed).binomial(labels, pa.probability(STRINGS).numpy()))
    return as_dataset(STRINGS, torch.zeros(len(STRINGS)), "01"), torch.stack([labels - accepted, accepted], -1).float()


def likelihood(pa: PA, counts: torch.Tensor) -> float:
    """Of the labels, string by string."""
    p = pa.probability(STRINGS).clamp(1e-300, 1 - 1e-16)
    return float((counts.double() * torch.stack([1 - p, p], -1).log()).sum())


@pytest.fixture(scope="module")
def found() -> tuple[MoveIntervals, torch.Tensor]:
    data, counts = labeled(stochastic(1), 200, 0)
    return move_intervals(stochastic(1), data, frequencies=counts), counts


def test_the_pa_is_at_the_maximum_of_the_likelihood(found: tuple[MoveIntervals, torch.Tensor]) -> None:
    intervals, counts = found
    assert intervals.log_likelihood == pytest.approx(likelihood(intervals.pa, counts), abs=1e-6)
    assert intervals.log_likelihood >= likelihood(stochastic(1), counts)
    assert intervals.automaton is intervals.pa


def test_no_automaton_whose_likelihood_is_large_enough_leaves_an_interval(
    found: tuple[MoveIntervals, torch.Tensor],
) -> None:
    intervals, counts = found
    least = intervals.log_likelihood - 3.841459 / 2  # half the 95 % quantile of χ² with one degree of freedom
    source = np.random.default_rng(0)
    here, inside = intervals.pa, 0
    for _ in range(4000):  # a random walk within the region
        rows = [here.initial[None], here.matrices.flatten(0, 1), here.output[:, None]]
        moved = [(part + torch.from_numpy(source.normal(0, 0.012, part.shape))).clamp(1e-9, 1) for part in rows]
        first, moves = (part / part.sum(-1, keepdim=True) for part in moved[:2])
        other = PA(first[0], moves.view_as(here.matrices), moved[2][:, 0], here.alphabet)
        if likelihood(other, counts) >= least:
            here, inside = other, inside + 1
            assert bool((other.matrices >= intervals.lower - 1e-3).all()), other.matrices - intervals.lower
            assert bool((other.matrices <= intervals.upper + 1e-3).all()), intervals.upper - other.matrices
    assert inside > 100


def test_more_labels_give_narrower_intervals(found: tuple[MoveIntervals, torch.Tensor]) -> None:
    data, counts = labeled(stochastic(1), 20, 0)
    few = move_intervals(stochastic(1), data, frequencies=counts)
    # the best determined move; with ten times as many labels a standard error is a third
    assert float((few.upper - few.lower).min()) > 1.5 * float((found[0].upper - found[0].lower).min())


def test_a_higher_level_gives_wider_intervals(found: tuple[MoveIntervals, torch.Tensor]) -> None:
    data, counts = labeled(stochastic(1), 200, 0)
    wide = move_intervals(stochastic(1), data, frequencies=counts, level=0.999)
    assert bool((wide.lower <= found[0].lower + 1e-4).all())
    assert bool((wide.upper >= found[0].upper - 1e-4).all())


def test_one_state_has_certain_moves() -> None:
    data, counts = labeled(stochastic(1), 5, 0)
    only = move_intervals(random_pa(1, seed=0), data, frequencies=counts)
    assert bool((only.lower == 1).all())
    assert bool((only.upper == 1).all())


def test_intervals_are_shown_in_tables_and_drawings(found: tuple[MoveIntervals, torch.Tensor]) -> None:
    intervals, _ = found
    rows = intervals.rows()
    assert len(rows) == 8
    assert all(low <= p <= high for *_, p, low, high in rows)
    state, symbol, target, p, low, high = rows[0]
    assert str(intervals).splitlines()[0] == f"{state} {symbol} → {target}  {p:.3f}  [{low:.3f}, {high:.3f}]"
    shown = diagram(intervals, intervals=(intervals.lower, intervals.upper))
    assert shown.edges[0, 0][0] == f"0 [{p:.2f}, {low:.2f}–{high:.2f}]"


def test_a_certain_edge_is_drawn_without_its_interval() -> None:
    certain = PA(torch.tensor([1.0, 0.0]), torch.eye(2)[None], torch.tensor([0.0, 1.0]), ("a",))
    ends = certain.matrices, certain.matrices
    assert diagram(certain, intervals=ends).edges[0, 0] == ["a [1.00]"]


def test_wrong_arguments_are_refused() -> None:
    data, counts = labeled(stochastic(1), 5, 0)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        move_intervals(stochastic(1), data, frequencies=counts, level=1)
    with pytest.raises(ValueError, match="the PA is over a, b, but the strings over 0, 1"):
        move_intervals(random_pa(2, "ab", seed=0), data, frequencies=counts)
    with pytest.raises(ValueError, match="intervals must have the shape of matrices"):
        diagram(stochastic(1), intervals=(torch.zeros(1), torch.zeros(1)))
    with pytest.raises(TypeError, match="intervals are for PAs"):
        diagram(tomita(1), intervals=(torch.zeros(1), torch.zeros(1)))
