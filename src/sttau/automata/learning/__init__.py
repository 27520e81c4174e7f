"""Training of networks from which an automaton is extracted."""

from sttau.automata.learning.prefix_tree import PrefixTree
from sttau.automata.learning.regular import Learned, learn
from sttau.automata.learning.stochastic import LearnedStochastic, learn_stochastic

__all__ = ["Learned", "LearnedStochastic", "PrefixTree", "learn", "learn_stochastic"]
