"""The features of a network."""

from __future__ import annotations

import torch

from sttau import DeepEnsemble, SequenceClassifier, STTauLSTM
from sttau.data import load
from sttau.engine import Noise, fingerprint
from sttau.inference import features


def test_the_cell_is_read_whatever_the_head_reads_and_the_model_is_left_alone() -> None:
    data = load("digits", "test")[:5]
    layer = STTauLSTM(8, 6, 3, num_layers=2)
    model = SequenceClassifier(layer, 10)
    found = features(model, data, samples=4, seed=3)
    noise = Noise.of(fingerprint(data.inputs, data.lengths), 4, 3)
    with torch.no_grad():
        cells = layer.features(data.inputs, data.lengths, noise=noise, readout="cell", steps="last")
        states = layer.features(data.inputs, data.lengths, noise=noise, steps="last")
    torch.testing.assert_close(found, cells[:, 0].view(4, 5, 6).mean(0))
    assert not torch.allclose(cells, states)
    assert layer.readout == "state"


def test_the_lower_layers_go_on_reading_states() -> None:
    """Only the output of the top layer changes with the readout; the network stays the same."""
    data = load("digits", "test")[:5]
    layer = STTauLSTM(8, 6, 3, num_layers=2)
    noise = Noise.of(torch.arange(5), seed=1)
    with torch.no_grad():
        cells = layer.features(data.inputs, noise=noise, readout="cell")
        alphas = layer.transitions(data.inputs, noise=noise)
        gumbel = noise.for_layer(1).gumbel(0, 8, 3)
        logits = cells @ layer.states[1].T
    torch.testing.assert_close(((logits + gumbel) / layer.temperature[1].detach()).softmax(-1), alphas)


def test_members_are_concatenated() -> None:
    data = load("digits", "test")[:5]
    model = DeepEnsemble.of(lambda: SequenceClassifier(STTauLSTM(8, 6, 3), 10), 2)
    assert features(model, data).shape == (5, 12)
