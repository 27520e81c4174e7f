"""Automata that generate strings: learned from unlabeled strings, with sampling, log-likelihood and perplexity."""

from sttau.automata.generative.alergia import from_markov_chain, learn_by_alergia
from sttau.automata.generative.automaton import GenerativeAutomaton
from sttau.automata.generative.expectation import LearnedGenerative, learn_generative
from sttau.automata.generative.ngrams import NGram
from sttau.automata.generative.pautomac import pautomac_score, read_pautomac, read_pautomac_solution

__all__ = [
    "GenerativeAutomaton",
    "LearnedGenerative",
    "NGram",
    "from_markov_chain",
    "learn_by_alergia",
    "learn_generative",
    "pautomac_score",
    "read_pautomac",
    "read_pautomac_solution",
]
