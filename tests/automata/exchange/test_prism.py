from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sttau.automata import PA, from_prism, random_pa, to_prism
from tests.automata.exchange.strings import STRINGS
from tests.languages.strategies import pas


def _prism_probability(text: str, string: list[str]) -> float:
    """Probability that a PRISM model accepts a string."""
    first = re.search(r"init (\d+);", text)
    assert first is not None
    states = {int(first[1]): 1.0}
    for action in string:
        new: dict[int, float] = {}
        for state, chance in states.items():
            line = re.search(rf"\[{action}\] s={state} -> (.*);", text)
            assert line is not None
            for update in line[1].split(" + "):
                p, target = update.rstrip(")").split(":(s'=")
                new[int(target)] = new.get(int(target), 0) + chance * float(p)
        states = new
    rewards = dict(re.findall(r"^  s=(\d+) : (.*);$", text, re.MULTILINE))
    return sum(chance * float(rewards.get(str(state), 0)) for state, chance in states.items())


@given(pas())
@settings(max_examples=20)
def test_prism_text_describes_the_same_automaton(pa: PA) -> None:
    text = to_prism(pa)
    start = [] if bool((pa.initial == 1).any()) else ["start"]
    for string in STRINGS[:15]:
        found = _prism_probability(text, [*start, *(f"a_{symbol}" for symbol in string)])
        assert found == pytest.approx(float(pa.probability([string])), abs=1e-12)


def test_symbols_that_prism_cannot_name_are_numbered() -> None:
    text = to_prism(PA(torch.ones(1), torch.ones(2, 1, 1), torch.zeros(1), ("+", "ß")))
    assert '// a_0 is "+"' in text
    assert "[a_1] s=0 -> 1.0:(s'=0);" in text
    assert 'label "accept" = false;' in text


@given(states=st.integers(1, 6), seed=st.integers(0, 1000), mixed=st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_pa_is_the_same_after_prism(states: int, seed: int, mixed: bool) -> None:
    pa = random_pa(states, "ab", seed=seed)
    if mixed:
        pa = PA(torch.full((states,), 1 / states), pa.matrices, torch.linspace(0, 1, states), pa.alphabet)
    assert from_prism(to_prism(pa)) == pa
    odd = PA(pa.initial, pa.matrices, pa.output, ("+", '"'))
    assert from_prism(to_prism(odd)) == odd
