"""Hypothesis strategies for automata, and automata derived from others."""

from __future__ import annotations

from typing import Any

import torch
from automata.fa.dfa import DFA
from hypothesis import strategies as st

from sttau.languages import PA


@st.composite
def dfas(draw: st.DrawFn, most: int = 5) -> DFA:
    """Any DFA over {0, 1}, with reachable and unreachable states."""
    size = draw(st.integers(1, most))
    state = st.integers(0, size - 1)
    return DFA(
        states=set(range(size)),
        input_symbols={"0", "1"},
        transitions={n: {"0": draw(state), "1": draw(state)} for n in range(size)},
        initial_state=0,
        final_states={n for n in range(size) if draw(st.booleans())},
    )


@st.composite
def distributions(draw: st.DrawFn, size: int) -> list[float]:
    """A point of the simplex, often on its boundary; multiples of 1/16, so that sums are exact."""
    weights = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    left = 16
    rest = []
    for weight in weights[1:]:
        part = min(left, weight * 2)
        rest.append(part / 16)
        left -= part
    return [left / 16, *rest]


@st.composite
def pas(draw: st.DrawFn, most: int = 4, symbols: str = "01", certain: bool = False) -> PA:
    """Any PA; outputs are 0 and 1 only if ``certain``."""
    size = draw(st.integers(1, most))
    output = st.sampled_from([0.0, 1.0] if certain else [0.0, 0.25, 0.5, 1.0])
    return PA(
        initial=torch.tensor(draw(distributions(size))),
        matrices=torch.tensor([[draw(distributions(size)) for _ in range(size)] for _ in symbols]),
        output=torch.tensor([draw(output) for _ in range(size)]),
        alphabet=tuple(symbols),
    )


def permuted(pa: PA, order: list[int]) -> PA:
    """The same automaton with its states in another order."""
    return PA(pa.initial[order], pa.matrices[:, order][:, :, order], pa.output[order], pa.alphabet)


def doubled(pa: PA, share: float = 0.3) -> PA:
    """The same automaton with every state duplicated, moves divided between the two, and an unreachable state."""
    split = torch.tensor([share, 1 - share], dtype=torch.float64)
    k = 2 * pa.num_states
    matrices = torch.zeros(len(pa.alphabet), k + 1, k + 1, dtype=torch.float64)
    matrices[:, :k, :k] = torch.kron(pa.matrices, split.expand(2, 2).contiguous())
    matrices[:, k, 0] = 1
    return PA(
        torch.cat([torch.kron(pa.initial, split), torch.zeros(1)]),
        matrices,
        torch.cat([pa.output.repeat_interleave(2), torch.full((1,), 0.5)]),
        pa.alphabet,
    )


def pa_of(initial: list[float], matrices: Any, output: Any, alphabet: tuple[str, ...]) -> PA:
    """A PA from lists."""
    return PA(torch.tensor(initial), torch.as_tensor(matrices).double(), torch.as_tensor(output), alphabet)
