from __future__ import annotations

import numpy as np
import pytest
from aalpy.automata import MarkovChain, McState

from sttau.automata import compare, from_aalpy, from_regex
from sttau.automata.generative import from_markov_chain, learn_by_alergia
from tests.automata.generative.small_automata import random_automaton


def test_alergia_learns_a_pdfa_and_its_support() -> None:
    strings = ["ab" * n for n in range(6) for _ in range(2 ** (8 - n))]
    pdfa = learn_by_alergia(strings)
    assert pdfa.is_deterministic()
    assert compare(pdfa.support(), from_regex("(ab)*", "ab"))
    assert not random_automaton(0).is_deterministic()


def test_markov_chains_of_aalpy_are_generative() -> None:
    start, a, end = McState("q0", "start"), McState("q1", "a"), McState("q2", "end")
    start.transitions = [(a, 0.75), (end, 0.25)]
    a.transitions = [(a, 0.5), (end, 0.5)]
    chain = MarkovChain(start, [start, a, end])
    found = from_markov_chain(chain, end="end")
    np.testing.assert_allclose(np.exp(found.log_probability(["", "a", "aa"])), [0.25, 0.375, 0.1875])
    with pytest.raises(TypeError, match="from_markov_chain reads it"):
        from_aalpy(chain)
    with pytest.raises(TypeError, match="must be an AALpy MarkovChain"):
        from_markov_chain("chain")
