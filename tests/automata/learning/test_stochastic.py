from __future__ import annotations

from itertools import product

import pytest
import torch

from sttau.automata import distance, extract_pa, learn_stochastic, stochastic
from sttau.automata.learning.stochastic import _groupings
from sttau.data import load
from sttau.data.strings import as_dataset


def test_the_shape_of_a_stochastic_language_is_found_by_the_criterion() -> None:
    data = load("stochastic1", "train")
    learned = learn_stochastic(data, num_states=4, attempts=1, updates=80, iterations=80)
    assert learned.distinct == 2
    assert learned.criteria[2] < learned.criteria[3]
    states = learned.model.finite_state_layer.states
    assert torch.equal(states[0], states[1])
    assert torch.equal(states[2], states[3])
    pa = extract_pa(learned.model, tolerance=1e-4).pa
    assert pa.num_states == 2
    # labels allow a standard error of about 0.02 (sttau_reproduction.automata.cramer_rao)
    assert max(distance(pa, stochastic(1), length=15).sup_by_length[1:]) < 0.05


def test_with_fixed_labels_the_edges_themselves_are_learned() -> None:
    data = load("stochastic1", "train")
    learned = learn_stochastic(data, num_states=4, head="halves", distinct=2, attempts=1, updates=80, iterations=80)
    pa = extract_pa(learned.model, tolerance=1e-4).pa
    assert pa.num_states == 2
    assert pa.output.tolist() == [0.0, 1.0]
    # the labels allow standard errors of 0.015 to 0.022 (sttau_reproduction.automata.cramer_rao)
    torch.testing.assert_close(pa.matrices, stochastic(1).matrices, atol=0.06, rtol=0)


def test_equal_rows_have_equal_labels() -> None:
    groupings = _groupings(6, 3, "halves")
    assert [group.tolist() for group in groupings] == [[0, 0, 0, 1, 1, 2], [0, 0, 1, 2, 2, 2]]
    assert _groupings(4, 4, "halves")[0].tolist() == [0, 1, 2, 3]
    assert _groupings(4, 3, "dense")[0].tolist() == [0, 0, 1, 2]


def test_from_probabilities_the_automaton_itself_is_learned() -> None:
    alphabet = "01"
    strings = ["".join(word) for length in range(1, 6) for word in product(alphabet, repeat=length)]
    data = as_dataset(strings, torch.zeros(len(strings)), alphabet)
    p = stochastic(1).probability(strings)
    learned = learn_stochastic(
        data,
        num_states=3,
        frequencies=torch.stack([1 - p, p], -1).float(),
        distinct=3,
        attempts=1,
        updates=80,
        iterations=150,
    )
    gaps = distance(extract_pa(learned.model).pa, stochastic(1), length=12).sup_by_length
    assert max(gaps[1:]) < 0.01


def test_the_number_of_distinct_states_is_chosen_by_any_criterion_and_all_are_reported() -> None:
    truth = stochastic(1)
    strings = ["".join(word) for length in range(1, 4) for word in product("01", repeat=length)]
    chances = truth.probability(strings)
    counts = (torch.stack([1 - chances, chances], -1) * 200).round()
    data = as_dataset(strings, torch.zeros(len(strings)), "01")
    options = {"num_states": 3, "frequencies": counts, "attempts": 1, "updates": 30, "iterations": 20}
    found = learn_stochastic(data, criterion="held-out", **options)  # type: ignore[arg-type]
    assert found.distinct == max(found.held_out, key=found.held_out.__getitem__)
    assert set(found.held_out) == set(found.expected) == set(found.criteria) == {2, 3}
    labels = float(counts.sum())
    # held-out likelihood cannot exceed the entropy of the labels by more than its standard error
    entropy = float((counts * (counts / counts.sum(-1, keepdim=True)).clamp_min(1e-9).log()).sum())
    assert all(-labels < value < entropy + 60 for value in found.held_out.values())
    akaike = learn_stochastic(data, criterion="aic", **options)  # type: ignore[arg-type]
    assert akaike.distinct == max(akaike.expected, key=akaike.expected.__getitem__)
    assert not akaike.held_out
    with pytest.raises(ValueError, match="criterion must be one of"):
        learn_stochastic(data, criterion="mdl", **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_stochastic_languages_are_learned_the_same_in_several_processes() -> None:
    data = load("stochastic1", "train")
    options = {"distinct": 2, "attempts": 2, "updates": 20, "iterations": 10}
    one, two = (learn_stochastic(data, workers=workers, **options) for workers in (1, 2))  # type: ignore[arg-type]
    assert one.loss == two.loss
    for name, value in one.model.state_dict().items():
        assert torch.equal(value, two.model.state_dict()[name]), name
    with pytest.raises(ValueError, match="callbacks cannot be called from other processes"):
        learn_stochastic(data, workers=2, callbacks=lambda update, model: None, **options)  # type: ignore[arg-type]
