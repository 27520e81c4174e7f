"""The plain LSTM."""

from torch import nn

from sttau.methods.record import Method

METHOD = Method("lstm", "LSTM", "#7b8794", {"lstm": nn.LSTM})
