"""Automata for other programs: JSON, DOT, networkx, AALpy, PRISM; and back from JSON, networkx and AALpy."""

from sttau.automata.exchange.aalpy import from_aalpy, to_aalpy
from sttau.automata.exchange.diagrams import Diagram, diagram
from sttau.automata.exchange.dot import to_dot
from sttau.automata.exchange.json import from_json, to_json
from sttau.automata.exchange.networkx import from_networkx, to_networkx
from sttau.automata.exchange.prism import to_prism

__all__ = [
    "Diagram",
    "diagram",
    "from_aalpy",
    "from_json",
    "from_networkx",
    "to_aalpy",
    "to_dot",
    "to_json",
    "to_networkx",
    "to_prism",
]
