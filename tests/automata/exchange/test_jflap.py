from __future__ import annotations

from sttau.automata import accepts, from_jflap
from tests.automata.exchange.strings import WORDS


def test_a_nondeterministic_automaton_of_jflap_becomes_a_dfa() -> None:
    text = """<?xml version="1.0"?><structure><type>fa</type><automaton>
      <state id="0"><initial/></state><state id="1"/><state id="2"><final/></state>
      <transition><from>0</from><to>0</to><read>0</read></transition>
      <transition><from>0</from><to>0</to><read>1</read></transition>
      <transition><from>0</from><to>1</to><read>1</read></transition>
      <transition><from>1</from><to>2</to><read/></transition></automaton></structure>"""
    assert accepts(from_jflap(text), WORDS).tolist() == [word.endswith("1") for word in WORDS]
