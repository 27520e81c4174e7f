"""Training of networks from which an automaton is extracted."""

from sttau.automata.learning.intervals import MoveIntervals, move_intervals
from sttau.automata.learning.label_noise import NoisyFit, learn_with_noise
from sttau.automata.learning.maximum_likelihood import LearnedPA, learn_pa
from sttau.automata.learning.prefix_tree import PrefixTree
from sttau.automata.learning.regular import Learned, learn
from sttau.automata.learning.state_merging import learn_by_merging
from sttau.automata.learning.stochastic import LearnedStochastic, learn_stochastic
from sttau.automata.learning.verdict import Verdict

__all__ = [
    "Learned",
    "LearnedPA",
    "LearnedStochastic",
    "MoveIntervals",
    "NoisyFit",
    "PrefixTree",
    "Verdict",
    "learn",
    "learn_by_merging",
    "learn_pa",
    "learn_stochastic",
    "learn_with_noise",
    "move_intervals",
]
