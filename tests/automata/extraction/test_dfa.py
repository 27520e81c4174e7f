from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sttau import SequenceClassifier, STTauGRU, STTauLSTM
from sttau.automata import extract_dfa, learn, tomita
from sttau.automata.extraction import Table
from sttau.automata.extraction.dfa import merge_states
from sttau.data import load
from sttau.inference import predict
from sttau.languages import TOMITA_GRAMMARS
from sttau.quickstart import Settings, learn_automaton
from sttau.training import Update
from tests.automata.extraction.small_networks import VOCABULARY, random_network


class _Scripted(SequenceClassifier):
    """A classifier with a given transition table."""

    def __init__(self, initial: Tensor, table: Tensor, accepting: Tensor) -> None:
        super().__init__(STTauGRU(2, 4, len(accepting)), 2, nn.Embedding(len(table) + 1, 2))
        self._accepting = accepting
        padded = torch.cat([torch.full_like(table[:1], 1 / len(accepting)), table])
        layer: Any = self.layer
        layer.transition_matrices = lambda inputs: padded
        layer.first_distribution = lambda inputs: initial[None]

    def state_logits(self) -> Tensor:
        return torch.stack([~self._accepting, self._accepting], -1).double().log_softmax(-1)


def _blurred(number: int, copies: int, sharpness: float) -> _Scripted:
    """A grammar's automaton with every state ``copies`` times, the probability of a move spread over the copies."""
    grammar = TOMITA_GRAMMARS[number]
    size = len(grammar.moves)
    table = torch.full((2, size, size), (1 - sharpness) / (size - 1), dtype=torch.float64)
    for state, targets in enumerate(grammar.moves):
        for symbol, target in enumerate(targets):
            table[symbol, state, target] = sharpness
    table = table.repeat(1, copies, copies) / copies
    initial = torch.zeros(size * copies, dtype=torch.float64)
    initial[0] = 1
    accepting = torch.tensor([state in grammar.accepting for state in range(size)]).repeat(copies)
    return _Scripted(initial, table, accepting)


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize("copies", [1, 3])
def test_the_automaton_is_found_from_split_states_and_noisy_moves(number: int, copies: int) -> None:
    extracted = extract_dfa(_blurred(number, copies, 0.6), VOCABULARY)
    assert extracted.equivalent_to(tomita(number))
    assert len(extracted.dfa.states) == len(tomita(number).states)
    assert all(0.6 - 1e-9 < p <= 1 for p in extracted.probabilities.values())
    assert all(len(members) == copies for members in extracted.members.values())


def test_merging_before_choosing_matters() -> None:
    # 0.6 of the probability goes to two copies of the accepting state, 0.4 to one rejecting state
    table = torch.tensor([[[0.4, 0.3, 0.3]] * 3], dtype=torch.float64)
    model = _Scripted(torch.tensor([1.0, 0, 0], dtype=torch.float64), table, torch.tensor([False, True, True]))
    extracted = extract_dfa(model, ("^", "a"))
    assert extracted.dfa.accepts_input("a")
    assert extracted.probabilities[0, "a"] == pytest.approx(0.6)


def test_states_that_only_a_later_symbol_distinguishes_are_not_merged() -> None:
    moves = torch.tensor([1, 2, 3, 3])  # a chain of four states; only the last accepts
    matrix = torch.nn.functional.one_hot(moves, 4).double()
    group = merge_states({"a": matrix}, torch.tensor([False, False, False, True]))
    assert len(group.unique()) == 4


@pytest.mark.parametrize("table", ["categorical", "relaxed mean"])
def test_every_edge_has_a_distribution_and_both_variances(table: Table) -> None:
    model, data = random_network(), load("tomita3", "train").select(torch.arange(0, 2000, 20))
    for known in (None, data):
        extracted = extract_dfa(model, table=table, data=known)
        assert set(extracted.edges) == {(state, symbol) for state in extracted.dfa.states for symbol in "01"}
        for edge in extracted.edges.values():
            assert sum(edge.shares) <= 1 + 1e-9  # unreachable groups have the rest
            assert edge.probability == pytest.approx(edge.shares[edge.target])
            assert edge.probability == max(edge.shares)
            assert 0 <= edge.noise <= 0.25
            assert 0 <= edge.mixture <= 0.25
        assert extracted.table == table
        assert len(extracted.dfa.states) > 1


def test_an_automaton_can_be_extracted_at_any_point_of_training() -> None:
    sizes = []

    def record(attempt: int, update: Update, model: SequenceClassifier) -> None:
        if update.number in (1, 15):
            sizes.append(len(extract_dfa(model).dfa.states))

    learned = learn(load("tomita1", "train"), attempts=1, updates=30, warm_start=False, callbacks=record)
    assert len(sizes) == 2
    extracted = extract_dfa(learned.model)
    assert extracted.equivalent_to(tomita(1))
    data = load("tomita1", "test")
    predicted = predict(learned.model, data.inputs, data.lengths).label
    assert torch.equal(extracted.accepts(data.inputs, data.lengths), predicted == 1)


def test_a_difference_has_the_shortest_counterexample() -> None:
    answer = extract_dfa(_blurred(4, 1, 0.9), VOCABULARY).equivalent_to(tomita(7))
    assert not answer
    assert answer.counterexample == "000"


def test_a_network_trained_on_tomita_1_is_proved_equal_to_it() -> None:
    run = learn_automaton(Settings(grammar=1, automaton_updates=300, automaton_attempts=2), seed=0)
    assert run.equivalence
    assert run.wrong == 0


@pytest.mark.parametrize(
    ("vocabulary", "start", "message"),
    [
        (("^", "0"), "^", "vocabulary has 2 symbols, but the model's embedding is one of 3 tokens"),
        (("^", "0", "1"), "$", "start must be in the vocabulary"),
    ],
)
def test_a_wrong_vocabulary_is_rejected(vocabulary: tuple[str, ...], start: str, message: str) -> None:
    model = SequenceClassifier(STTauGRU(2, 4, 3), 2, nn.Embedding(3, 2))
    with pytest.raises(ValueError, match=message):
        extract_dfa(model, vocabulary, start=start)


def test_an_empty_alphabet_a_missing_embedding_and_an_lstm_are_rejected() -> None:
    with pytest.raises(ValueError, match="alphabet is empty"):
        extract_dfa(SequenceClassifier(STTauGRU(2, 4, 3), 2, nn.Embedding(1, 2)), ("^",))
    with pytest.raises(ValueError, match="embedding is none"):
        extract_dfa(SequenceClassifier(STTauGRU(2, 4, 3), 2), VOCABULARY)
    with pytest.raises(ValueError, match="memory c_t depends on the whole path"):
        extract_dfa(SequenceClassifier(STTauLSTM(2, 4, 3), 2, nn.Embedding(3, 2)), VOCABULARY)
    with pytest.raises(ValueError, match="has no states"):
        extract_dfa(SequenceClassifier(nn.GRU(2, 4), 2, nn.Embedding(3, 2)), VOCABULARY)
