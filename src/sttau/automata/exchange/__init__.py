"""Automata for other programs: JSON, DOT, networkx, AALpy, PRISM, JFLAP and AT&T, and back."""

from sttau.automata.exchange.aalpy import from_aalpy, to_aalpy
from sttau.automata.exchange.att import from_att, to_att
from sttau.automata.exchange.diagrams import Diagram, diagram
from sttau.automata.exchange.dot import from_dot, to_dot
from sttau.automata.exchange.files import read_automaton
from sttau.automata.exchange.jflap import from_jflap, to_jflap
from sttau.automata.exchange.json import from_json, to_json
from sttau.automata.exchange.networkx import from_networkx, to_networkx
from sttau.automata.exchange.prism import from_prism, to_prism

__all__ = [
    "Diagram",
    "diagram",
    "from_aalpy",
    "from_att",
    "from_dot",
    "from_jflap",
    "from_json",
    "from_networkx",
    "from_prism",
    "read_automaton",
    "to_aalpy",
    "to_att",
    "to_dot",
    "to_jflap",
    "to_json",
    "to_networkx",
    "to_prism",
]
