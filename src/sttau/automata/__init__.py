"""Automata: values, languages, extraction from networks, reduction, comparison, exchange."""

from sttau.automata.comparison import Distance, Equivalence, bernoulli_kl, compare, distance, rms_distance
from sttau.automata.compiled import CompiledModel, compile
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
from sttau.automata.fidelity import Fidelity, measure_fidelity
from sttau.automata.languages import (
    accepts,
    as_dataset,
    balanced_strings,
    from_regex,
    mutations,
    random_dfa,
    random_pa,
    stochastic,
    tomita,
)
from sttau.automata.learning import Learned, LearnedStochastic, PrefixTree, learn, learn_stochastic
from sttau.automata.pa import PA
from sttau.automata.reduction import Reduction, reduce

__all__ = [
    "PA",
    "CompiledModel",
    "Distance",
    "Edge",
    "Equivalence",
    "ExtractedDFA",
    "ExtractedPA",
    "Fidelity",
    "Learned",
    "LearnedStochastic",
    "PrefixTree",
    "Reduction",
    "accepts",
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
    "learn",
    "learn_stochastic",
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
