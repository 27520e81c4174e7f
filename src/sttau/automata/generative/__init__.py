"""Automata that generate strings: learned from unlabeled strings, with sampling, log-likelihood and perplexity."""

from sttau.automata.generative.alergia import from_markov_chain, learn_by_alergia
from sttau.automata.generative.automaton import GenerativeAutomaton
from sttau.automata.generative.expectation import LearnedGenerative, learn_generative
from sttau.automata.generative.ngrams import NGram
from sttau.automata.generative.pautomac import pautomac_score, read_pautomac, read_pautomac_solution
from sttau.automata.generative.spectral import SpectralModel, learn_spectrally

__all__ = [
    "GenerativeAutomaton",
    "LearnedGenerative",
    "NGram",
    "SpectralModel",
    "from_markov_chain",
    "learn_by_alergia",
    "learn_generative",
    "learn_spectrally",
    "pautomac_score",
    "read_pautomac",
    "read_pautomac_solution",
]
