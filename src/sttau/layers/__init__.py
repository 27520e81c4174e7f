"""Recurrent layers with the interface of ``nn.LSTM`` and ``nn.GRU``."""

from sttau.layers.base import LAYERS, RecurrentLayer, register_layer
from sttau.layers.bayes import BayesLSTM
from sttau.layers.call import SAMPLED_MODES, LayerMode, LayerState
from sttau.layers.finite_state import FiniteStateRNN, Initial
from sttau.layers.gain import set_gain
from sttau.layers.head_dropout import HeadDropoutLSTM
from sttau.layers.lstm_gru import GRULayer, LSTMLayer
from sttau.layers.memory import set_memory
from sttau.layers.minimal import MinGRU, MinLSTM
from sttau.layers.sampling_free import SamplingFreeGRU
from sttau.layers.st_tau import STTauGRU, STTauLSTM
from sttau.layers.state_regularized import StateRegularizedGRU, StateRegularizedLSTM
from sttau.layers.torch_rnn import TorchRNN, as_layer
from sttau.layers.variational_dropout import VariationalDropoutLSTM

__all__ = [
    "LAYERS",
    "SAMPLED_MODES",
    "BayesLSTM",
    "FiniteStateRNN",
    "GRULayer",
    "HeadDropoutLSTM",
    "Initial",
    "LSTMLayer",
    "LayerMode",
    "LayerState",
    "MinGRU",
    "MinLSTM",
    "RecurrentLayer",
    "STTauGRU",
    "STTauLSTM",
    "SamplingFreeGRU",
    "StateRegularizedGRU",
    "StateRegularizedLSTM",
    "TorchRNN",
    "VariationalDropoutLSTM",
    "as_layer",
    "register_layer",
    "set_gain",
    "set_memory",
]
