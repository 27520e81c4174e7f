"""State-regularized RNNs."""

from sttau.layers import StateRegularizedGRU, StateRegularizedLSTM
from sttau.methods.record import Method
from sttau.methods.st_tau import state_defaults

METHOD = Method(
    "state-regularized",
    "state-regularized",
    "#6b46c1",
    {"lstm": StateRegularizedLSTM, "gru": StateRegularizedGRU},
    defaults=state_defaults,
)
