from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from sttau.automata import PA, PrefixTree, as_dataset, distance, learn_pa, random_pa, stochastic
from sttau.automata.learning.maximum_likelihood import _labels_likelihood, _Problem
from sttau.data import SequenceDataset, load

STRINGS = ["".join(word) for length in range(1, 7) for word in product("01", repeat=length)]


def labeled(pa: PA, labels: int, seed: int) -> tuple[SequenceDataset, torch.Tensor]:
    chances = pa.probability(STRINGS).numpy()
    accepted = torch.from_numpy(np.random.default_rng(seed).binomial(labels, chances))
    counts = torch.stack([labels - accepted, accepted], -1).float()
    return as_dataset(STRINGS, torch.zeros(len(STRINGS)), "01"), counts


def test_the_likelihood_is_that_of_the_strings_one_by_one() -> None:
    pa = random_pa(3, seed=0)
    data, counts = labeled(pa, 20, 1)
    other = random_pa(3, seed=4, concentration=2.0)
    ours = _labels_likelihood(PrefixTree(data, counts).double(), other.initial, other.matrices, other.output)
    p = other.probability(STRINGS).clamp(1e-300, 1)
    tiny = torch.finfo(torch.float64).tiny
    expected = (counts.double() * torch.stack([1 - p, p], -1).clamp_min(tiny).log()).sum()
    torch.testing.assert_close(ours, expected)


def test_the_gradient_is_that_of_finite_differences() -> None:
    data, counts = labeled(stochastic(1), 20, 1)
    problem = _Problem(PrefixTree(data, counts).double(), 2, ("0", "1"))
    at = np.random.default_rng(0).normal(size=problem.size)
    value, gradient = problem.evaluate(at)
    for place in range(problem.size):
        step = np.eye(problem.size)[place] * 1e-6
        numeric = (problem.evaluate(at + step)[0] - problem.evaluate(at - step)[0]) / 2e-6
        assert gradient[place] == pytest.approx(numeric, abs=1e-7)
    assert value > 0


def test_parameters_of_a_pa_give_it_back() -> None:
    pa = random_pa(3, seed=1, concentration=3.0)
    data, counts = labeled(pa, 2, 0)
    problem = _Problem(PrefixTree(data, counts).double(), 3, ("0", "1"))
    again = problem.automaton(problem.parameters(pa))
    assert distance(pa, again, length=8).sup < 1e-4


@pytest.mark.parametrize("seed", [3, 5])
def test_the_fit_is_as_good_as_one_that_starts_at_the_truth(seed: int) -> None:
    truth = random_pa(2, seed=seed)
    data, counts = labeled(truth, 200, seed)
    ours = learn_pa(data, 2, frequencies=counts, attempts=4)
    reference = learn_pa(data, 2, frequencies=counts, initial=truth, attempts=1)
    assert ours.log_likelihood > reference.log_likelihood - 0.1


def test_the_number_of_states_is_chosen_and_the_criteria_are_reported() -> None:
    learned = learn_pa(load("stochastic1", "train"), attempts=2, largest=3)
    assert learned.pa.num_states == 2
    assert max(learned.expected, key=lambda size: learned.expected[size]) == 2
    assert min(learned.criteria, key=lambda size: learned.criteria[size]) == 2
    gaps = distance(learned.pa, stochastic(1), length=12).sup_by_length
    assert max(gaps[1:]) < 0.05  # labels allow a standard error of about 0.02


def test_one_state_is_a_constant() -> None:
    data, counts = labeled(stochastic(1), 10, 0)
    learned = learn_pa(data, 1, frequencies=counts)
    share = float(counts[:, 1].sum() / counts.sum())
    assert float(learned.pa.probability(["0"])) == pytest.approx(share, abs=1e-5)
    for name in ("attempts", "largest", "iterations"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1"):
            learn_pa(data, **{name: 0})  # type: ignore[arg-type]
