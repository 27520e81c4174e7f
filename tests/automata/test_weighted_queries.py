"""Weighted L*: automata with acceptance probabilities, by queries to a network."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import nn

from sttau import SequenceClassifier
from sttau.automata import PA, compare, tomita
from sttau.automata import weighted_queries as module
from sttau.automata.weighted_queries import extract_by_weighted_queries
from sttau.data import load
from sttau.inference import Prediction


def _pa(initial: Any, matrices: Any, output: Any) -> PA:
    return PA(torch.tensor(initial), torch.tensor(matrices), torch.tensor(output), ("0", "1"))


def _answer_by(monkeypatch: pytest.MonkeyPatch, automaton: PA) -> SequenceClassifier:
    """A network that answers as an automaton does."""

    def predict(model: Any, inputs: torch.Tensor, lengths: torch.Tensor) -> Prediction:
        words = [
            "".join("^01"[token] for token in row[1:end]) for row, end in zip(inputs.tolist(), lengths, strict=True)
        ]
        p = automaton.probability(words)
        both = torch.stack([1 - p, p], dim=1)
        return Prediction(both, "deterministic", 1, both * 0, p * 0, p * 0)

    monkeypatch.setattr(module, "predict", predict)
    return SequenceClassifier(nn.GRU(2, 2), 2, nn.Embedding(3, 2))


def test_a_deterministic_automaton_is_found_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    move = torch.tensor([[[0.0, 1, 0], [0, 0, 1], [1, 0, 0]], [[1.0, 0, 0], [0, 1, 0], [0, 1, 0]]])
    truth = _pa([1, 0, 0], move.tolist(), [0.9, 0.35, 0.1])
    found = extract_by_weighted_queries(_answer_by(monkeypatch, truth), load("tomita1", "train"), tolerance=0.01)
    assert len(found.output) == 3
    assert compare(found, truth, tolerance=1e-6)


@pytest.mark.parametrize("number", [2, 4, 5])
def test_the_states_of_a_dfa_are_told_apart_by_suffixes(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = PA.from_dfa(tomita(number))
    found = extract_by_weighted_queries(_answer_by(monkeypatch, truth), load("tomita1", "train"))
    assert compare(found, truth)
    assert len(found.output) == len(tomita(number).minify().states)


def test_what_is_not_deterministic_is_approximated_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The weight 1 - 0.9^n takes a state for every n until it hardly grows: there, small differences add up."""
    fading = _pa([1, 0], [[[0.9, 0.1], [0, 1]], [[1.0, 0], [0, 1]]], [0, 1])
    model, data = _answer_by(monkeypatch, fading), load("tomita1", "train")
    fine = extract_by_weighted_queries(model, data, tolerance=0.005, words=100)
    words = ["0" * n for n in range(20)]
    assert float((fine.probability(words) - fading.probability(words)).abs().max()) < 0.01
    with caplog.at_level(logging.WARNING):
        coarse = extract_by_weighted_queries(model, data, tolerance=0.04, words=10)
        assert "no suffix separates" in caplog.text
        assert len(extract_by_weighted_queries(model, data, tolerance=0.04, max_states=3, words=100).output) == 3
    assert 5 < len(coarse.output) < len(fine.output)
    assert "max_states is reached" in caplog.text


def test_a_tolerance_that_separates_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tolerance must be between 0 and 0.5, got 0.5"):
        extract_by_weighted_queries(SequenceClassifier(nn.GRU(2, 2), 2), load("tomita1", "train"), tolerance=0.5)
