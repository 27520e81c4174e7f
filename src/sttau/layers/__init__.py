"""Recurrent layers with the interface of ``nn.LSTM`` and ``nn.GRU``."""

from __future__ import annotations

from torch import nn

from sttau.layers.bayes import BayesLSTM
from sttau.layers.gain import set_gain
from sttau.layers.memory import remember
from sttau.layers.st_tau import FiniteStateRNN, Initial, STTauGRU, STTauLSTM
from sttau.layers.state_regularized import StateRegularizedGRU, StateRegularizedLSTM
from sttau.layers.stochastic import LayerMode, StochasticLSTM, StochasticRNN
from sttau.layers.variational_dropout import VariationalDropoutLSTM

#: Every layer a model can be built on, and saved with, by name. A new layer is one new line here.
LAYERS: dict[str, type[nn.Module]] = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "STTauLSTM": STTauLSTM,
    "STTauGRU": STTauGRU,
    "StateRegularizedLSTM": StateRegularizedLSTM,
    "StateRegularizedGRU": StateRegularizedGRU,
    "BayesLSTM": BayesLSTM,
    "VariationalDropoutLSTM": VariationalDropoutLSTM,
}

__all__ = [
    "LAYERS",
    "BayesLSTM",
    "FiniteStateRNN",
    "Initial",
    "LayerMode",
    "STTauGRU",
    "STTauLSTM",
    "StateRegularizedGRU",
    "StateRegularizedLSTM",
    "StochasticLSTM",
    "StochasticRNN",
    "VariationalDropoutLSTM",
    "remember",
    "set_gain",
]
