"""Finite automata in the XML files of JFLAP (.jff)."""

from __future__ import annotations

from xml.etree import ElementTree

from automata.fa.dfa import DFA

from sttau.automata.exchange.nondeterministic import dfa_from_transitions
from sttau.automata.exchange.states import number_states
from sttau.automata.value import AutomatonLike, as_automaton
from sttau.errors import AutomatonError, reading


def to_jflap(automaton: AutomatonLike) -> str:
    """Return a DFA as the content of a JFLAP file.

    Example:
        >>> from sttau.automata import compare, tomita
        >>> compare(from_jflap(to_jflap(tomita(3))), tomita(3))
        Equivalence(equal=True, counterexample=None)
    """
    dfa = as_automaton(automaton)
    if not isinstance(dfa, DFA):
        raise TypeError("JFLAP has no probabilities: write a PA as .json")
    root = ElementTree.Element("structure")
    ElementTree.SubElement(root, "type").text = "fa"
    made = ElementTree.SubElement(root, "automaton")
    number = number_states(dfa)
    for state, n in number.items():
        node = ElementTree.SubElement(made, "state", id=str(n), name=f"q{n}")
        ElementTree.SubElement(node, "x").text = f"{100.0 + 120 * (n % 5)}"
        ElementTree.SubElement(node, "y").text = f"{100.0 + 120 * (n // 5)}"
        if n == 0:
            ElementTree.SubElement(node, "initial")
        if state in dfa.final_states:
            ElementTree.SubElement(node, "final")
    for state, n in number.items():
        for symbol, target in sorted(dfa.transitions[state].items()):
            edge = ElementTree.SubElement(made, "transition")
            for name, text in (("from", str(n)), ("to", str(number[target])), ("read", symbol)):
                ElementTree.SubElement(edge, name).text = text
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def from_jflap(text: str, source: str = "the JFLAP text") -> DFA:
    """Return the DFA of a JFLAP file with a finite automaton, which may be nondeterministic.

    Args:
        text: Content of the file.
        source: Name of the file for error messages.

    Raises:
        AutomatonError: If the text holds no finite automaton.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise AutomatonError(f"{source} declares a document type, which JFLAP does not; it is not read")
    with reading(source, AutomatonError, "Save a finite automaton with JFLAP."):
        root = ElementTree.fromstring(text.encode())
        kind = (root.findtext("type") or "").strip()
        if kind != "fa":
            raise AutomatonError(
                f"{source} holds a JFLAP structure of type {kind!r}; only finite automata (fa) are read"
            )
        states = list(root.iter("state"))
        initial = [state.attrib["id"] for state in states if state.find("initial") is not None]
        transitions = [
            (edge.findtext("from") or "", edge.findtext("read") or "", edge.findtext("to") or "")
            for edge in root.iter("transition")
        ]
        known = {state.attrib["id"] for state in states}
        if wrong := {name for origin, _, target in transitions for name in (origin, target)} - known:
            raise AutomatonError(f"{source} has a transition of the state {sorted(wrong)[0]!r}, which does not exist")
        accepting = [state.attrib["id"] for state in states if state.find("final") is not None]
        return dfa_from_transitions(known, transitions, initial[0] if initial else None, accepting, source)
