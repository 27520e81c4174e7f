from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sttau import SequenceClassifier, STTauGRU, STTauLSTM
from sttau.automata import extract_dfa, tomita
from sttau.automata.extraction import _merge
from sttau.data.tomita import GRAMMARS, VOCABULARY
from sttau.experiments.quickstart import Settings, learn_automaton


class _Scripted(SequenceClassifier):
    """A classifier whose transition law is given by hand: what extraction reads, without the training."""

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
    grammar = GRAMMARS[number]
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
def test_the_automaton_behind_the_law_is_found_though_states_are_split_and_moves_are_noisy(
    number: int, copies: int
) -> None:
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


def test_merging_separates_states_that_only_a_later_symbol_tells_apart() -> None:
    moves = torch.tensor([1, 2, 3, 3])  # a chain of four states; only the last accepts
    matrix = torch.nn.functional.one_hot(moves, 4).double()
    group = _merge({"a": matrix}, torch.tensor([False, False, False, True]))
    assert len(group.unique()) == 4


def test_a_difference_comes_with_the_shortest_string_that_shows_it() -> None:
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
def test_a_wrong_vocabulary_is_refused(vocabulary: tuple[str, ...], start: str, message: str) -> None:
    model = SequenceClassifier(STTauGRU(2, 4, 3), 2, nn.Embedding(3, 2))
    with pytest.raises(ValueError, match=message):
        extract_dfa(model, vocabulary, start=start)


def test_an_empty_alphabet_a_missing_embedding_and_an_lstm_are_refused() -> None:
    with pytest.raises(ValueError, match="alphabet is empty"):
        extract_dfa(SequenceClassifier(STTauGRU(2, 4, 3), 2, nn.Embedding(1, 2)), ("^",))
    with pytest.raises(ValueError, match="embedding is none"):
        extract_dfa(SequenceClassifier(STTauGRU(2, 4, 3), 2), VOCABULARY)
    with pytest.raises(ValueError, match="memory c_t depends on the whole path"):
        extract_dfa(SequenceClassifier(STTauLSTM(2, 4, 3), 2, nn.Embedding(3, 2)), VOCABULARY)
    with pytest.raises(ValueError, match="has no states"):
        extract_dfa(SequenceClassifier(nn.GRU(2, 4), 2, nn.Embedding(3, 2)), VOCABULARY)
