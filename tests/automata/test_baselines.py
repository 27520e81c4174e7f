from __future__ import annotations

import sys
from itertools import cycle, product

import pytest
import torch
from torch import Tensor, nn

from sttau import SequenceClassifier, STTauGRU, predict
from sttau.automata import accepts, as_dataset, compare, distance, stochastic, tomita
from sttau.automata.baselines import (
    extract_by_clustering,
    extract_by_queries,
    learn_by_alergia,
    learn_spectrally,
)
from sttau.data import load
from sttau.errors import AutomatonError
from sttau.languages import TOMITA_GRAMMARS


class _Perfect(SequenceClassifier):
    """A network that is the automaton of a grammar: its hidden state is the automaton's, with a little noise."""

    def __init__(self, number: int) -> None:
        super().__init__(nn.GRU(2, 8), 2, nn.Embedding(3, 2))
        self._grammar = TOMITA_GRAMMARS[number]

    def _states(self, inputs: Tensor) -> Tensor:
        moves = torch.tensor(self._grammar.moves)
        state, states = torch.zeros(len(inputs), dtype=torch.int64), []
        for step in range(inputs.shape[1]):
            if step:
                state = moves[state, (inputs[:, step] - 1).clamp_min(0)]
            states.append(state)
        return torch.stack(states, dim=1)

    def hidden_states(self, inputs: Tensor, lengths: Tensor | None = None, **_: object) -> Tensor:
        states = self._states(inputs)
        noise = torch.randn(*states.shape, 8, generator=torch.Generator().manual_seed(0))
        return nn.functional.one_hot(states, 8).float() + 0.05 * noise

    def forward(self, inputs: Tensor, lengths: Tensor | None = None, **_: object) -> Tensor:
        inside = torch.isin(self._states(inputs), torch.tensor(sorted(self._grammar.accepting)))
        return nn.functional.one_hot(inside.long(), 2).float() * 20


@pytest.mark.parametrize("number", [2, 3, 7])
def test_clustering_and_queries_find_the_automaton(number: int) -> None:
    model, data = _Perfect(number), load(f"tomita{number}", "train")
    assert compare(extract_by_clustering(model, data, clusters=len(TOMITA_GRAMMARS[number].moves)), tomita(number))
    assert compare(extract_by_queries(model, data, words=100), tomita(number))


def test_too_few_clusters_find_another_automaton() -> None:
    dfa = extract_by_clustering(_Perfect(3), load("tomita3", "train"), clusters=2)
    assert len(dfa.states) <= 2
    assert not compare(dfa, tomita(3))


def test_a_move_without_data_is_a_self_loop() -> None:
    data = as_dataset(["", "1", "11", "111"], torch.ones(4), "01")
    dfa = extract_by_clustering(_Perfect(1), data, clusters=1)
    assert dfa.accepts_input("0101")


def test_spectral_learning_is_exact_when_frequencies_are() -> None:
    truth = stochastic(1)
    copies = 100
    strings = ["".join(word) for length in range(1, 8) for word in product("01", repeat=length)]
    accepted = (truth.probability(strings) * copies).round().long()
    rows = torch.arange(len(strings)).repeat_interleave(copies)
    labels = torch.arange(copies).repeat(len(strings)) < accepted[rows]
    data = as_dataset([strings[row] for row in rows.tolist()], labels, "01")
    learned = learn_spectrally(data, rank=2, basis=3)
    expected = truth.probability(["".join(word) for word in product("01", repeat=10)])
    torch.testing.assert_close(learned.values(10), expected, atol=0.05, rtol=0)
    with pytest.raises(ValueError, match="rank must be from 1 to 14"):
        learn_spectrally(data, rank=15, basis=3)


def test_alergia_finds_an_automaton_with_deterministic_moves() -> None:
    # after an even number of 1s the label is accept with 0.9, after an odd number with 0.1
    strings = ["".join(word) for length in range(5) for word in product("01", repeat=length)]
    rows = [string for string in strings for _ in range(200)]
    odd = torch.tensor([string.count("1") % 2 for string in rows])
    labels = (torch.arange(len(rows)) % 10 == 0).long() == odd
    pa = learn_by_alergia(as_dataset(rows, labels.long(), "01"))
    assert pa.num_states == 2
    expected = [0.9 if word.count("1") % 2 == 0 else 0.1 for word in ("", "1", "0110", "1000000")]
    torch.testing.assert_close(
        pa.probability(["", "1", "0110", "1000000"]), torch.tensor(expected).double(), atol=0.03, rtol=0
    )
    assert distance(pa, stochastic(1), length=3).sup > 0.3


def test_without_aalpy_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aalpy", None)
    with pytest.raises(ImportError, match=r"pip install 'sttau\[automata\]'"):
        extract_by_queries(_Perfect(1), load("tomita1", "train"), words=1)
    with pytest.raises(ImportError, match=r"pip install 'sttau\[automata\]'"):
        learn_by_alergia(load("stochastic1", "train"))


def _noisy(scale: float) -> SequenceClassifier:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(4, 8, 4, mode="soft"), 2, nn.Embedding(3, 4))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(scale)
    return model


def test_queries_to_a_network_that_samples_do_not_end_the_process() -> None:
    model, data = _noisy(3.0), load("tomita1", "train")
    data = data.select(data.lengths <= 6)
    dfa = extract_by_queries(model, data, words=40, longest=6)
    assert compare(dfa, extract_by_queries(model, data, words=40, longest=6))
    strings = [
        "".join("^01"[token] for token in row[1:end])
        for row, end in zip(data.inputs.tolist(), data.lengths.tolist(), strict=True)
    ]
    expected = predict(model, data.inputs, data.lengths).label == 1
    assert torch.equal(accepts(dfa, strings), expected)


_SIGNS = cycle((1, -1))


class _Moody(_Perfect):
    """Answers in another way each time."""

    def forward(self, inputs: Tensor, lengths: Tensor | None = None, **options: object) -> Tensor:
        return next(_SIGNS) * super().forward(inputs, lengths, **options)


def test_contradictory_answers_are_an_error_of_the_library() -> None:
    with pytest.raises(AutomatonError, match="answers a word differently each time"):
        extract_by_queries(_Moody(2), load("tomita2", "train"), words=20)


def test_a_hypothesis_that_still_differs_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sttau.automata.baselines._ROUNDS", 1)
    assert not compare(extract_by_queries(_Perfect(7), load("tomita7", "train"), words=20), tomita(7))
    assert "L* ended after 1 rounds" in caplog.text
