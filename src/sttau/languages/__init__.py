"""Formal languages: Tomita grammars, stochastic languages, probabilistic automata, and strings to learn them from.

DFAs are those of automata-lib, which loads networkx; functions import it when they are called.
"""

from sttau.languages.alphabets import Strings, encode_strings
from sttau.languages.generators import from_regex, random_dfa, random_pa
from sttau.languages.pa import PA
from sttau.languages.stochastic_languages import STOCHASTIC_LANGUAGES, StochasticLanguage, stochastic
from sttau.languages.strings import accepts, balanced_strings, mutations
from sttau.languages.tomita_grammars import TOMITA_GRAMMARS, Grammar, count_strings, sample_strings, tomita

__all__ = [
    "PA",
    "STOCHASTIC_LANGUAGES",
    "TOMITA_GRAMMARS",
    "Grammar",
    "StochasticLanguage",
    "Strings",
    "accepts",
    "balanced_strings",
    "count_strings",
    "encode_strings",
    "from_regex",
    "mutations",
    "random_dfa",
    "random_pa",
    "sample_strings",
    "stochastic",
    "tomita",
]
