"""Automata from regular expressions, and random automata."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import torch

from sttau.languages.alphabets import single_characters
from sttau.languages.pa import PA
from sttau.languages.strings import transition_table

if TYPE_CHECKING:
    from automata.fa.dfa import DFA


def from_regex(expression: str, alphabet: Iterable[str] = ("0", "1")) -> DFA:
    """Return the minimal, complete DFA of a regular expression, in the notation of automata-lib.

    Args:
        expression: Regular expression with ``*``, ``+``, ``?``, ``|``, ``&``, ``.``, ``(…)``, ``{n,m}``.
        alphabet: Symbols, each one character.

    Example:
        >>> from sttau.automata import compare, tomita
        >>> compare(from_regex("(10)*"), tomita(2))
        Equivalence(equal=True, counterexample=None)
        >>> sorted(from_regex("(ab)*", alphabet="ab").input_symbols)
        ['a', 'b']
    """
    from automata.base.exceptions import InvalidSymbolError, RegexException
    from automata.fa.dfa import DFA
    from automata.fa.nfa import NFA

    symbols = single_characters(alphabet)
    try:
        nfa = NFA.from_regex(expression, input_symbols=set(symbols))
    except InvalidSymbolError as error:
        unknown = sorted(set(re.findall(r"\w", expression)) - set(symbols)) or [str(error)]
        raise ValueError(
            f"expression {expression!r} contains {', '.join(map(repr, unknown))}, which is not in the alphabet "
            f"{symbols}; pass all symbols as alphabet="
        ) from error
    except RegexException as error:
        raise ValueError(
            f"expression {expression!r} is not a regular expression: {_unbalanced(expression) or error}"
        ) from error
    return _numbered(DFA.from_nfa(nfa).to_complete().minify())


def _unbalanced(expression: str) -> str | None:
    """Say which parenthesis has no counterpart; None where every one has."""
    open_at: list[int] = []
    for match in re.finditer(r"\[[^\]]*\]|\\.|[()]", expression):  # not those in a class or after a backslash
        if match.group() == "(":
            open_at.append(match.start())
        elif match.group() == ")":
            if not open_at:
                return f"the parenthesis ')' at character {match.start() + 1} is not opened"
            open_at.pop()
    return f"the parenthesis '(' at character {open_at[-1] + 1} is not closed" if open_at else None


def random_dfa(states: int, alphabet: Iterable[str] = ("0", "1"), *, seed: int) -> DFA:
    """Draw a minimal, complete DFA with a given number of states.

    Each new state is reached from a random earlier one; all other moves are uniform, and half of the states accept.

    Args:
        states: Number of states.
        alphabet: Symbols, each one character.
        seed: Seed of the draws.

    Example:
        >>> dfa = random_dfa(8, seed=0)
        >>> len(dfa.states), len(dfa.minify().states)
        (8, 8)
    """
    from automata.fa.dfa import DFA

    symbols = single_characters(alphabet)
    if states < 1:
        raise ValueError(f"states must be at least 1, got {states}")
    if len(symbols) == 1 and states > 2:
        raise ValueError("random DFAs over a single symbol are hardly ever minimal; pass at least two symbols")
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
    """Draw a PA whose rows come from a symmetric Dirichlet distribution.

    The initial state is state 0, and half of the states accept.

    Args:
        states: Number of states.
        alphabet: Symbols.
        seed: Seed of the draws.
        concentration: Concentration of the Dirichlet distribution; small values give nearly deterministic rows.

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


def _numbered(dfa: DFA) -> DFA:
    """The same automaton, with states numbered in breadth-first order."""
    from automata.fa.dfa import DFA

    symbols = tuple(sorted(dfa.input_symbols))
    moves, final = transition_table(dfa, symbols)
    return DFA(
        states=set(range(len(moves))),
        input_symbols=set(symbols),
        transitions={state: dict(zip(symbols, row, strict=True)) for state, row in enumerate(moves.tolist())},
        initial_state=0,
        final_states=set(np.flatnonzero(final).tolist()),
    )
