from __future__ import annotations

import pytest
import torch
from torch import nn

from sttau import SequenceClassifier, STTauGRU, STTauLSTM
from sttau.automata import extract_dfa, extract_pa
from sttau.data.strings import as_dataset
from sttau.inference import predict
from tests.automata.extraction.small_networks import VOCABULARY, random_network


def test_the_categorical_automaton_is_the_exact_network_and_the_relaxed_one_is_not() -> None:
    model = random_network()
    strings = ["", "0", "110", "010011", "1" * 30]
    data = as_dataset(strings, torch.zeros(5), "01")
    exact = predict(model, data.inputs, data.lengths, mode="exact").mean[:, 1]
    categorical, relaxed = extract_pa(model), extract_pa(model, table="relaxed mean")
    assert (categorical.table, relaxed.table) == ("categorical", "relaxed mean")
    torch.testing.assert_close(categorical.pa.probability(strings), exact, atol=1e-9, rtol=0)
    assert float((relaxed.pa.probability(strings) - exact).abs().max()) > 0.01


def test_copies_of_states_are_merged_and_the_defect_is_reported() -> None:
    model = random_network(6)
    with torch.no_grad():
        states = model.finite_state_layer.states
        states[3:] = states[:3]
    extracted = extract_pa(model)
    assert extracted.pa.num_states == 3
    assert extracted.full.num_states == 6
    assert extracted.reduction.defect < 1e-9
    assert {frozenset(members) for members in extracted.reduction.members} == {
        frozenset({0, 3}),
        frozenset({1, 4}),
        frozenset({2, 5}),
    }


def test_wrong_arguments_are_rejected() -> None:
    model = SequenceClassifier(STTauGRU(2, 4, 3), 2, nn.Embedding(3, 2))
    with pytest.raises(ValueError, match="vocabulary is needed: the model has none"):
        extract_dfa(model)
    with pytest.raises(ValueError, match="table must be one of 'categorical', 'relaxed mean', got 'mean'"):
        extract_pa(model, VOCABULARY, table="mean")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="accept must be a class from 0 to 1, got 2"):
        extract_pa(model, VOCABULARY, accept=2)
    with pytest.raises(ValueError, match="LSTM's memory"):
        extract_pa(SequenceClassifier(STTauLSTM(2, 4, 3), 2, nn.Embedding(3, 2)), VOCABULARY)
