"""Automata: languages, extraction from networks, comparison."""

from sttau.automata.comparison import Equivalence, compare
from sttau.automata.extraction import ExtractedDFA, extract_dfa
from sttau.automata.languages import tomita
from sttau.automata.pa import PA

__all__ = ["PA", "Equivalence", "ExtractedDFA", "compare", "extract_dfa", "tomita"]
