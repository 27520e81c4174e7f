from __future__ import annotations

import pytest
import torch
from automata.fa.dfa import DFA
from torch import Tensor, nn

from sttau import SequenceClassifier, STTauGRU, predict
from sttau.automata import Extracted, compare, extract, extract_dfa, from_regex, tomita
from sttau.automata.learning.labeled_tree import moves_of
from sttau.automata.selection import Method
from sttau.data import load
from sttau.training import fit


class _Perfect(SequenceClassifier):
    """A network that is an automaton: its hidden state is the automaton's, with a little noise."""

    def __init__(self, dfa: DFA, vocabulary: tuple[str, ...], start: str = "^") -> None:
        super().__init__(nn.GRU(2, 16), 2, nn.Embedding(len(vocabulary), 2))
        symbols = tuple(symbol for symbol in vocabulary if symbol != start)
        moves, self._accepting = moves_of(dfa, symbols)
        self._moves = torch.zeros(len(moves), len(vocabulary), dtype=torch.int64)
        for place, symbol in enumerate(symbols):
            self._moves[:, vocabulary.index(symbol)] = torch.from_numpy(moves[:, place])
        self.asked: list[tuple[int, ...]] = []

    def _states(self, inputs: Tensor) -> Tensor:
        state, states = torch.zeros(len(inputs), dtype=torch.int64), []
        for step in range(inputs.shape[1]):
            if step:
                state = self._moves[state, inputs[:, step]]
            states.append(state)
        return torch.stack(states, dim=1)

    def hidden_states(self, inputs: Tensor, lengths: Tensor | None = None, **_: object) -> Tensor:
        states = self._states(inputs)
        noise = torch.randn(*states.shape, 16, generator=torch.Generator().manual_seed(0))
        return nn.functional.one_hot(states, 16).float() + 0.05 * noise

    def forward(self, inputs: Tensor, lengths: Tensor | None = None, *, per_step: bool = False, **_: object) -> Tensor:
        assert lengths is not None
        if not per_step:
            self.asked += [tuple(row[:n]) for row, n in zip(inputs.tolist(), lengths.tolist(), strict=True)]
        states = self._states(inputs)
        logits = nn.functional.one_hot(torch.from_numpy(self._accepting)[states].long(), 2).float() * 20
        return logits if per_step else logits[torch.arange(len(inputs)), lengths - 1]


def test_a_soft_network_whose_tables_are_wrong_is_extracted_by_another_method() -> None:
    train = load("tomita7", "train")
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(8, 16, num_states=8, mode="soft"), 2, nn.Embedding(3, 8))
    model.set_metadata(train)
    fit(model, train, updates=600, learning_rate=0.02)
    assert (predict(model, train.inputs, train.lengths).label == train.labels).float().mean() > 0.99
    assert not compare(extract_dfa(model), tomita(7))
    extracted = extract(model)
    assert compare(extracted, tomita(7)), str(extracted)
    fidelities = {candidate.method: candidate.fidelity for candidate in extracted.candidates}
    assert extracted.chosen.fidelity == max(fidelities.values()) > fidelities["categorical"] + 0.3
    assert extracted.chosen.table is None


def test_an_exact_network_is_read_from_its_table_alone() -> None:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(4, 8, num_states=5, mode="exact"), 2, nn.Embedding(3, 4))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4)
    model.set_metadata(load("tomita1", "train"))
    extracted = extract(model)
    assert [candidate.method for candidate in extracted.candidates] == ["categorical"]
    assert extracted.chosen.table is not None
    assert compare(extracted, extract_dfa(model))


@pytest.mark.parametrize("method", ["merging", "L*", "k-means"])
@pytest.mark.parametrize("number", [2, 5, 7])
def test_every_method_finds_the_automaton_that_a_network_is(number: int, method: Method) -> None:
    extracted = extract(_Perfect(tomita(number), ("^", "0", "1")), "^01", methods=[method])
    assert extracted, str(extracted)
    assert compare(extracted, tomita(number)), str(extracted)


def test_a_network_without_tables_is_extracted_by_merging_and_each_string_is_asked_for_once() -> None:
    model = _Perfect(tomita(3), ("^", "0", "1"))
    extracted = extract(model, "^01", methods=["categorical", "merging", "L*"])
    assert [candidate.method for candidate in extracted.candidates] == ["merging"]
    assert len(model.asked) == len(set(model.asked))
    assert compare(extracted, tomita(3))


def test_symbols_may_have_several_characters_and_the_start_token_any_place() -> None:
    vocabulary = ("up", "<s>", "down")
    pairs = from_regex("(ud)*", "ud")
    named = {"u": "up", "d": "down"}
    dfa = DFA(
        states=pairs.states,
        input_symbols=set(named.values()),
        transitions={
            state: {named[symbol]: target for symbol, target in moves.items()}
            for state, moves in pairs.transitions.items()
        },
        initial_state=pairs.initial_state,
        final_states=pairs.final_states,
    )
    extracted = extract(_Perfect(dfa, vocabulary, "<s>"), vocabulary, start="<s>")
    assert extracted
    assert extracted.automaton == dfa


def test_one_symbol_is_enough() -> None:
    assert compare(extract(_Perfect(from_regex("(aaa)*", "a"), ("^", "a")), "^a"), from_regex("(aaa)*", "a"))


def _too_small() -> Extracted:
    return extract(_Perfect(tomita(5), ("^", "0", "1")), "^01", methods=["L*"], largest=1)


def test_the_fidelity_is_a_share_of_held_out_strings_with_a_counterexample(caplog: pytest.LogCaptureFixture) -> None:
    extracted = _too_small()
    assert not extracted
    assert len(extracted.automaton.states) == 1
    # half of the strings of balanced lengths, and a quarter of random ones, are in Tomita 5
    assert 0.1 < extracted.chosen.fidelity < 0.9
    assert extracted.counterexample is not None
    accepts_all = bool(extracted.automaton.final_states)
    assert tomita(5).accepts_input("".join(extracted.counterexample)) != accepts_all
    assert "no DFA that was extracted has the network's labels on all held-out strings: L*: 1 states" in caplog.text


def test_held_out_strings_are_none_that_a_candidate_was_made_from() -> None:
    model = _Perfect(tomita(5), ("^", "0", "1"))
    extracted = extract(model, "^01", methods=["k-means"], longest=8)
    words = 1 + 2 + 4 + 8 + 16  # all strings of at most 4 symbols, half of 8, are used; longer ones are held out
    distinct = {word for word in model.asked if len(word) > 5}
    assert extracted.strings == len(distinct)
    assert len(set(model.asked)) == words + len(distinct)


def test_no_further_candidate_is_begun_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(10**6))
    monkeypatch.setattr("sttau.automata.learning.attempt.time.monotonic", lambda: float(next(now)))
    model = _Perfect(tomita(5), ("^", "0", "1"))
    extracted = extract(model, "^01", methods=["L*", "k-means"], largest=1, seconds=0.5)
    assert [candidate.method for candidate in extracted.candidates] == ["L*"]


def test_wrong_arguments_are_refused() -> None:
    model = _Perfect(tomita(5), ("^", "0", "1"))
    with pytest.raises(ValueError, match="methods must be some of categorical, relaxed mean, merging"):
        extract(model, "^01", methods=["guess"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="methods must be some of"):
        extract(model, "^01", methods=[])
    with pytest.raises(ValueError, match="vocabulary is needed"):
        extract(model)
    with pytest.raises(ValueError, match=r"start must be in the vocabulary"):
        extract(model, "^01", start="$")
    with pytest.raises(ValueError, match="seconds must be positive"):
        extract(model, "^01", seconds=0)
    with pytest.raises(ValueError, match="accept must be a class"):
        extract(model, "^01", accept=2)
    with pytest.raises(ValueError, match="none of the methods k-means found a DFA of at most 1 states"):
        extract(model, "^01", methods=["k-means"], largest=1)
    with pytest.raises(ValueError, match="this needs a finite-state layer"):
        extract(model, "^01", methods=["categorical"])
