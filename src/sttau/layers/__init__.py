"""Recurrent layers with the interface of ``nn.LSTM`` and ``nn.GRU``."""

from __future__ import annotations

from torch import nn

from sttau.layers.st_tau import FiniteStateRNN, Initial, LayerMode, STTauGRU, STTauLSTM
from sttau.layers.state_regularized import StateRegularizedGRU, StateRegularizedLSTM

#: Every layer a model can be built on, and saved with, by name. A new layer is one new line here.
LAYERS: dict[str, type[nn.Module]] = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "STTauLSTM": STTauLSTM,
    "STTauGRU": STTauGRU,
    "StateRegularizedLSTM": StateRegularizedLSTM,
    "StateRegularizedGRU": StateRegularizedGRU,
}

__all__ = [
    "LAYERS",
    "FiniteStateRNN",
    "Initial",
    "LayerMode",
    "STTauGRU",
    "STTauLSTM",
    "StateRegularizedGRU",
    "StateRegularizedLSTM",
]
