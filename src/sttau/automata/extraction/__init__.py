"""Extraction of automata from trained networks."""

from sttau.automata.extraction.dfa import Edge, ExtractedDFA, extract_dfa
from sttau.automata.extraction.pa import ExtractedPA, extract_pa
from sttau.automata.extraction.table import Table

__all__ = ["Edge", "ExtractedDFA", "ExtractedPA", "Table", "extract_dfa", "extract_pa"]
