"""The plain GRU."""

from torch import nn

from sttau.methods.record import Method

METHOD = Method("gru", "GRU", "#1f2933", {"gru": nn.GRU})
