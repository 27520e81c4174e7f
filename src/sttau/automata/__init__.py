"""Automata: extraction from networks, learning, reduction, comparison, exchange with other programs."""

from sttau.automata.compiled import CompiledModel, compile
from sttau.automata.distances import Distance, bernoulli_kl, distance, rms_distance
from sttau.automata.equivalence import Equivalence, compare
from sttau.automata.exchange import (
    from_aalpy,
    from_json,
    from_networkx,
    to_aalpy,
    to_dot,
    to_json,
    to_networkx,
    to_prism,
)
from sttau.automata.extraction import Edge, ExtractedDFA, ExtractedPA, extract_dfa, extract_pa
from sttau.automata.fidelity import Fidelity, label_agreement, measure_fidelity
from sttau.automata.learning import (
    Learned,
    LearnedStochastic,
    NoisyFit,
    PrefixTree,
    Verdict,
    learn,
    learn_by_merging,
    learn_stochastic,
    learn_with_noise,
)
from sttau.automata.reduction import Reduction, reduce
from sttau.automata.value import AutomatonLike, as_automaton
from sttau.data.strings import as_dataset
from sttau.languages import (
    PA,
    accepts,
    balanced_strings,
    from_regex,
    mutations,
    random_dfa,
    random_pa,
    stochastic,
    tomita,
)

__all__ = [
    "PA",
    "AutomatonLike",
    "CompiledModel",
    "Distance",
    "Edge",
    "Equivalence",
    "ExtractedDFA",
    "ExtractedPA",
    "Fidelity",
    "Learned",
    "LearnedStochastic",
    "NoisyFit",
    "PrefixTree",
    "Reduction",
    "Verdict",
    "accepts",
    "as_automaton",
    "as_dataset",
    "balanced_strings",
    "bernoulli_kl",
    "compare",
    "compile",
    "distance",
    "extract_dfa",
    "extract_pa",
    "from_aalpy",
    "from_json",
    "from_networkx",
    "from_regex",
    "label_agreement",
    "learn",
    "learn_by_merging",
    "learn_stochastic",
    "learn_with_noise",
    "measure_fidelity",
    "mutations",
    "random_dfa",
    "random_pa",
    "reduce",
    "rms_distance",
    "stochastic",
    "to_aalpy",
    "to_dot",
    "to_json",
    "to_networkx",
    "to_prism",
    "tomita",
]
