"""Formal languages as automata, and strings to learn and to test them with."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA
from numpy.typing import NDArray
from torch import Tensor

from sttau.automata.pa import PA, encode_strings
from sttau.data.dataset import SequenceDataset
from sttau.data.stochastic import PROBABILISTIC_GRAMMARS
from sttau.data.tomita import GRAMMARS

START = "^"  # begins every sequence that a network reads, so that the empty string is a sequence too


def tomita(number: int) -> DFA:
    """Return the minimal DFA of a Tomita grammar, 1 to 7.

    Example:
        >>> dfa = tomita(3)
        >>> len(dfa.states), dfa.accepts_input("100"), dfa.accepts_input("10")
        (5, True, False)
    """
    if number not in GRAMMARS:
        raise ValueError(f"number must be 1 … 7, got {number}")
    grammar = GRAMMARS[number]
    return DFA(
        states=set(range(len(grammar.moves))),
        input_symbols={"0", "1"},
        transitions={state: {"0": zero, "1": one} for state, (zero, one) in enumerate(grammar.moves)},
        initial_state=0,
        final_states=set(grammar.accepting),
    )


def stochastic(number: int) -> PA:
    """Return PA-1 or PA-2, the automata of our stochastic languages 1 and 2 (docs/automata.md).

    Example:
        >>> stochastic(2).probability(["0", "1", "00"])
        tensor([0.3000, 0.4000, 0.6200], dtype=torch.float64)
    """
    if number not in PROBABILISTIC_GRAMMARS:
        raise ValueError(f"number must be 1 or 2, got {number}")
    grammar = PROBABILISTIC_GRAMMARS[number]
    k = len(grammar.moves[0])
    return PA(
        initial=torch.eye(k)[0],
        matrices=torch.tensor(grammar.moves, dtype=torch.float64),
        output=torch.tensor([float(state in grammar.accepting) for state in range(k)]),
        alphabet=("0", "1"),
    )


def from_regex(expression: str, alphabet: Iterable[str] = ("0", "1")) -> DFA:
    """Return the minimal, complete DFA of a regular expression, in the notation of automata-lib.

    Args:
        expression: with ``*``, ``+``, ``?``, ``|``, ``&``, ``.``, ``(…)``, ``{n,m}``.
        alphabet: all symbols, each one character.

    Example:
        >>> from sttau.automata import compare
        >>> compare(from_regex("(10)*"), tomita(2))
        Equivalence(equal=True, counterexample=None)
    """
    symbols = _characters(alphabet)
    nfa = NFA.from_regex(expression, input_symbols=set(symbols))
    return _numbered(DFA.from_nfa(nfa).to_complete().minify())


def random_dfa(states: int, alphabet: Iterable[str] = ("0", "1"), *, seed: int) -> DFA:
    """Draw a minimal, complete DFA with exactly so many states.

    Each new state is reached from a random earlier one; all other moves are uniform, and half of the states accept.

    Example:
        >>> dfa = random_dfa(8, seed=0)
        >>> len(dfa.states), len(dfa.minify().states)
        (8, 8)
    """
    symbols = _characters(alphabet)
    if states < 1:
        raise ValueError(f"states must be at least 1, got {states}")
    if len(symbols) == 1 and states > 2:
        raise ValueError("with a single symbol random DFAs are hardly ever minimal; give at least two")
    source = random.Random(f"dfa/{states}/{symbols}/{seed}")
    while True:
        moves: dict[int, dict[str, int]] = {state: {} for state in range(states)}
        for state in range(1, states):  # among the earlier states there is always one with a free symbol
            free = [(s, a) for s in range(state) for a in symbols if a not in moves[s]]
            origin, symbol = source.choice(free)
            moves[origin][symbol] = state
        for taken in moves.values():
            for symbol in symbols:
                taken.setdefault(symbol, source.randrange(states))
        final = set(source.sample(range(states), max(1, states // 2)))
        dfa = DFA(states=set(moves), input_symbols=set(symbols), transitions=moves, initial_state=0, final_states=final)
        if len(dfa.minify().states) == states:
            return dfa


def random_pa(states: int, alphabet: Iterable[str] = ("0", "1"), *, seed: int, concentration: float = 0.5) -> PA:
    """Draw a PA: it starts in state 0, half of its states accept, rows come from a symmetric Dirichlet law.

    Args:
        states: at least 1.
        alphabet: the symbols.
        seed: all randomness follows from it.
        concentration: of the Dirichlet law; small values make nearly deterministic rows.

    Example:
        >>> pa = random_pa(4, seed=0)
        >>> pa.num_states, pa.output
        (4, tensor([0., 0., 1., 1.], dtype=torch.float64))
    """
    symbols = tuple(alphabet)
    if states < 1 or not concentration > 0:
        raise ValueError(f"states and concentration must be positive, got {states} and {concentration}")
    source = np.random.default_rng([states, len(symbols), seed])
    rows = source.gamma(concentration, size=(len(symbols), states, states)) + 1e-300
    return PA(
        initial=torch.eye(states, dtype=torch.float64)[0],
        matrices=torch.from_numpy(rows / rows.sum(-1, keepdims=True)),
        output=torch.tensor([float(state >= states // 2) for state in range(states)]),
        alphabet=symbols,
    )


def accepts(dfa: DFA, strings: Sequence[str]) -> Tensor:
    """Return whether a DFA accepts each of many strings, all read at once: (strings,) booleans.

    Example:
        >>> accepts(tomita(1), ["", "1111", "110"])
        tensor([ True,  True, False])
    """
    alphabet = _characters(dfa.input_symbols)
    moves, final = _table(dfa, alphabet)
    ids, lengths = encode_strings(strings, alphabet)
    state = np.zeros(len(ids), dtype=np.int64)
    for step, symbols in enumerate(ids.T.numpy()):
        state = np.where(step < lengths.numpy(), moves[state, symbols], state)
    return torch.from_numpy(final[state])


def balanced_strings(dfa: DFA, lengths: Iterable[int], count: int, *, seed: int) -> tuple[list[str], Tensor]:
    """Draw strings of each length, uniformly: ``count`` from the language and as many from its complement.

    Where one of the two has no string of a length, only the other has. Strings repeat where there are few. Counting is
    done in logarithms, so lengths of thousands are no trouble.

    Returns:
        The strings and whether each is in the language, (strings,) booleans.

    Example:
        >>> balanced_strings(tomita(1), [3], 2, seed=0)
        (['100', '101', '111', '111'], tensor([False, False,  True,  True]))
    """
    alphabet = _characters(dfa.input_symbols)
    moves, final = _table(dfa, alphabet)
    lengths = list(lengths)
    if not lengths or min(lengths) < 0:
        raise ValueError(f"lengths must be numbers of symbols, at least one and none negative, got {lengths}")
    ways = {inside: _log_ways(moves, final == inside, max(lengths)) for inside in (False, True)}
    strings: list[str] = []
    labels: list[bool] = []
    for length in lengths:
        for inside in (False, True):
            if ways[inside][length, 0] == -np.inf:
                continue
            source = np.random.default_rng([seed, length, inside])
            rows = _draw(moves, ways[inside], length, count, source)
            strings += ["".join(row) for row in np.array(alphabet)[rows].tolist()]
            labels += [inside] * count
    return strings, torch.tensor(labels, dtype=torch.bool)


def mutations(dfa: DFA, strings: Sequence[str], *, seed: int) -> tuple[list[str], Tensor]:
    """Change one symbol of each string, at a random place, into another; return the strings and their true labels.

    The empty string has no symbol to change and is left out.

    Example:
        >>> mutations(tomita(1), ["1111", "11"], seed=0)
        (['0111', '10'], tensor([False, False]))
    """
    alphabet = _characters(dfa.input_symbols)
    if len(alphabet) < 2:
        raise ValueError("mutations need an alphabet of at least two symbols")
    source = random.Random(f"mutations/{seed}")
    changed = []
    for string in filter(None, strings):
        place = source.randrange(len(string))
        other = source.choice([symbol for symbol in alphabet if symbol != string[place]])
        changed.append(string[:place] + other + string[place + 1 :])
    return changed, accepts(dfa, changed)


def as_dataset(
    strings: Sequence[str], labels: Tensor, alphabet: Iterable[str], *, name: str = "strings", split: str = "train"
) -> SequenceDataset:
    """Return labeled strings as a data set whose sequences begin with the start token ``^``.

    Example:
        >>> strings, labels = balanced_strings(tomita(1), range(5), 10, seed=0)
        >>> data = as_dataset(strings, labels, "01", name="all ones")
        >>> data.vocabulary, tuple(data.inputs.shape), data.class_names
        (('^', '0', '1'), (90, 5), ('reject', 'accept'))
    """
    symbols = _characters(alphabet)
    if START in symbols:
        raise ValueError(f"the symbol {START!r} is the start token; name it otherwise in the alphabet")
    ids, lengths = encode_strings(strings, symbols)
    beyond = torch.arange(ids.shape[1]) >= lengths[:, None]
    inputs = torch.cat([torch.zeros(len(ids), 1, dtype=torch.int64), (ids + 1).masked_fill(beyond, 0)], dim=1)
    return SequenceDataset(
        name=name,
        split=split,
        inputs=inputs,
        lengths=lengths + 1,
        labels=torch.as_tensor(labels).to(torch.int64),
        class_names=("reject", "accept"),
        vocabulary=(START, *symbols),
        provenance="Generated by sttau.automata",
    )


def _characters(alphabet: Iterable[str]) -> tuple[str, ...]:
    symbols = tuple(sorted(set(alphabet)))
    if not symbols or any(len(symbol) != 1 for symbol in symbols):
        raise ValueError(f"alphabet must be single characters, at least one, got {symbols}")
    return symbols


def _numbered(dfa: DFA) -> DFA:
    """The same automaton, states numbered in the order in which strings reach them."""
    moves, final = _table(dfa, tuple(sorted(dfa.input_symbols)))
    return DFA(
        states=set(range(len(moves))),
        input_symbols=set(dfa.input_symbols),
        transitions={
            state: dict(zip(sorted(dfa.input_symbols), row, strict=True)) for state, row in enumerate(moves.tolist())
        },
        initial_state=0,
        final_states=set(np.flatnonzero(final).tolist()),
    )


def _table(dfa: DFA, alphabet: tuple[str, ...]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Moves (states, symbols) and which states accept; state 0 is the start, missing moves lead to a dead state."""
    pa = PA.from_dfa(dfa)
    assert pa.alphabet == alphabet
    return pa.matrices.argmax(-1).T.contiguous().numpy(), pa.output.bool().numpy()


def _log_ways(moves: NDArray[np.int64], wanted: NDArray[np.bool_], length: int) -> NDArray[np.float64]:
    """(length + 1, states): logarithm of how many strings of n symbols lead from a state to a wanted one."""
    ways = np.full((length + 1, len(moves)), -np.inf)
    ways[0, wanted] = 0
    for n in range(length):
        ways[n + 1] = np.logaddexp.reduce(ways[n][moves], axis=1)
    return ways


def _draw(
    moves: NDArray[np.int64], ways: NDArray[np.float64], length: int, count: int, source: np.random.Generator
) -> NDArray[Any]:
    """Positions of symbols, (count, length): uniform among the strings that ``ways`` counts."""
    state = np.zeros(count, dtype=np.int64)
    rows = np.zeros((count, length), dtype=np.int64)
    for step in range(length):
        after = ways[length - step - 1][moves[state]]
        shares = np.exp(after - after.max(axis=1, keepdims=True)).cumsum(axis=1)
        draws = source.random(count) * shares[:, -1]
        rows[:, step] = (draws[:, None] >= shares).sum(axis=1)
        state = moves[state, rows[:, step]]
    return rows
