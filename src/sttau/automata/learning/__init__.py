"""Training of networks from which an automaton is extracted."""

from sttau.automata.learning.prefix_tree import PrefixTree
from sttau.automata.learning.regular import Learned, learn
from sttau.automata.learning.state_merging import learn_by_merging
from sttau.automata.learning.stochastic import LearnedStochastic, learn_stochastic

__all__ = ["Learned", "LearnedStochastic", "PrefixTree", "learn", "learn_by_merging", "learn_stochastic"]
