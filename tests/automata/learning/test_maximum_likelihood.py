from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from sttau.automata import PA, PrefixTree, as_dataset, distance, learn_pa, random_pa, stochastic
from sttau.automata.learning.folds import fold_counts
from sttau.automata.learning.maximum_likelihood import Problem, log_likelihood
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
    ours = log_likelihood(other, PrefixTree(data, counts).double())
    p = other.probability(STRINGS).clamp(1e-300, 1)
    tiny = torch.finfo(torch.float64).tiny
    expected = (counts.double() * torch.stack([1 - p, p], -1).clamp_min(tiny).log()).sum()
    assert ours == pytest.approx(float(expected), rel=1e-12)


def test_the_gradient_is_that_of_finite_differences() -> None:
    data, counts = labeled(stochastic(1), 20, 1)
    problem = Problem(PrefixTree(data, counts).double(), 2, ("0", "1"))
    at = np.random.default_rng(0).normal(size=problem.size)
    value, gradient = problem.evaluate(at)
    for place in range(problem.size):
        step = np.eye(problem.size)[place] * 1e-6
        numeric = (problem.evaluate(at + step)[0] - problem.evaluate(at - step)[0]) / 2e-6
        assert gradient[place] == pytest.approx(numeric, abs=1e-7)
    assert value > 0
    values = problem.values(at)
    loss, slope = problem.evaluate_values(values)
    assert loss == value
    for place in range(problem.size):
        step = np.eye(problem.size)[place] * 1e-6
        numeric = (problem.evaluate_values(values + step)[0] - problem.evaluate_values(values - step)[0]) / 2e-6
        assert slope[place] == pytest.approx(numeric, abs=1e-7)


def test_parameters_of_a_pa_give_it_back() -> None:
    pa = random_pa(3, seed=1, concentration=3.0)
    data, counts = labeled(pa, 2, 0)
    problem = Problem(PrefixTree(data, counts).double(), 3, ("0", "1"))
    again = problem.automaton(problem.parameters(pa))
    assert distance(pa, again, length=8).sup < 1e-4


@pytest.mark.parametrize("seed", [3, 5])
def test_the_fit_is_as_good_as_one_that_starts_at_the_truth(seed: int) -> None:
    truth = random_pa(2, seed=seed)
    data, counts = labeled(truth, 200, seed)
    ours = learn_pa(data, 2, frequencies=counts, attempts=4)
    reference = learn_pa(data, 2, frequencies=counts, initial=truth, attempts=1)
    assert ours.log_likelihood > reference.log_likelihood - 0.1


@pytest.mark.parametrize("seed", [0, 1])
def test_the_search_leaves_a_poor_maximum(seed: int) -> None:
    moves = [[[0.5, 0.5, 0], [0.9, 0.1, 0], [0.3, 0, 0.7]], [[0.7, 0, 0.3], [0, 0.3, 0.7], [0.1, 0, 0.9]]]
    truth = PA(torch.eye(3)[0], torch.tensor(moves, dtype=torch.float64), torch.eye(3)[2], ("0", "1"))
    data, counts = labeled(truth, 1000, 0)
    reference = learn_pa(data, 3, frequencies=counts, initial=truth, attempts=1).log_likelihood
    ours = learn_pa(data, 3, frequencies=counts, attempts=8, seed=seed).log_likelihood
    assert ours > reference - 0.1  # from random starts, and changes of all parameters of the best, 257 and 51 less


def test_a_start_with_another_state_keeps_the_moves_between_the_other_states() -> None:
    data, counts = labeled(stochastic(2), 2, 0)
    problem = Problem(PrefixTree(data, counts).double(), 3, ("0", "1"))
    before = np.random.default_rng(0).normal(size=problem.size)
    same = before.copy()
    after = problem.with_another_state(before, np.random.default_rng(1))
    assert np.array_equal(before, same)
    change = abs(after - before)
    moves, output = change[3:-3].reshape(2, 3, 3), change[-3:]
    kept = [
        state
        for state in range(3)
        for others in [[other for other in range(3) if other != state]]
        if max(moves[:, others][:, :, others].max(), output[others].max()) < 0.5  # five standard deviations
    ]
    assert len(kept) == 1
    assert min(moves[:, kept[0]].max(), moves[:, :, kept[0]].max()) > 0.5
    shaken = problem.shaken(before, np.random.default_rng(1))
    assert (abs(shaken - before) > 1e-6).all()


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


def test_a_fold_holds_out_a_fifth_of_the_labels_and_every_label_once() -> None:
    data, counts = labeled(stochastic(1), 50, 0)
    tree = PrefixTree(data, counts).double()
    folds = fold_counts(tree, seed=0)
    total = sum(other.counts for _, other in folds)
    assert torch.equal(torch.as_tensor(total), tree.counts)
    for kept, other in folds:
        assert torch.equal(kept.counts + other.counts, tree.counts)
        # a binomial share of 1/5 of 6,300 labels: five standard deviations are 0.025
        assert float(other.counts.sum() / tree.counts.sum()) == pytest.approx(0.2, abs=0.025)
    with pytest.raises(ValueError, match="whole numbers as frequencies"):
        fold_counts(PrefixTree(data, counts / 100), seed=0)


def test_held_out_likelihood_is_that_of_automata_that_have_not_seen_the_labels() -> None:
    data, counts = labeled(stochastic(1), 30, 0)
    options = {"frequencies": counts, "criterion": "held-out", "largest": 3, "attempts": 2, "iterations": 60, "seed": 3}
    learned = learn_pa(data, **options)  # type: ignore[arg-type]
    assert set(learned.held_out) == set(learned.expected) == {1, 2, 3}
    assert learned.pa.num_states == max(learned.held_out, key=learned.held_out.__getitem__) > 1
    # with one state the fit is the share of accepted strings, which has a closed form
    expected = 0.0
    for kept, other in fold_counts(PrefixTree(data, counts).double(), seed=3):
        share = kept.counts.sum(0) / kept.counts.sum()
        expected += float(other.counts.sum(0) @ share.log())
    assert learned.held_out[1] == pytest.approx(expected, rel=1e-6)


def test_the_criterion_chooses() -> None:
    data, counts = labeled(random_pa(3, seed=2), 20, 2)
    found = {
        criterion: learn_pa(data, frequencies=counts, criterion=criterion, largest=3, attempts=2, iterations=50)
        for criterion in ("aic", "bic")
    }
    assert found["aic"].pa.num_states == max(found["aic"].expected, key=found["aic"].expected.__getitem__)
    assert found["bic"].pa.num_states == min(found["bic"].criteria, key=found["bic"].criteria.__getitem__)
    assert not found["aic"].held_out
    with pytest.raises(ValueError, match="criterion must be one of 'aic', 'bic', 'held-out', got 'mdl'"):
        learn_pa(data, frequencies=counts, criterion="mdl")  # type: ignore[arg-type]


@pytest.mark.slow
def test_several_processes_find_the_same_automaton_to_the_last_bit() -> None:
    data, counts = labeled(random_pa(2, seed=1), 20, 2)
    one, two = (learn_pa(data, 2, frequencies=counts, attempts=4, iterations=20, workers=workers) for workers in (1, 2))
    assert torch.equal(one.pa.matrices, two.pa.matrices)
    assert torch.equal(one.pa.output, two.pa.output)
    assert (one.log_likelihood, one.expected) == (two.log_likelihood, two.expected)
