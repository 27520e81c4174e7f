from __future__ import annotations

import torch
from torch import nn

from sttau import DeepEnsemble, SequenceClassifier, STTauGRU, STTauLSTM
from sttau.inference import features


def test_features_are_the_output_of_the_cell_whatever_the_head_reads() -> None:
    x = torch.randn(5, 7, 3)
    model = SequenceClassifier(STTauLSTM(3, 8, num_states=4, mode="deterministic"), num_classes=2)
    before = model.layer.readout
    found = features(model, x)
    assert model.layer.readout == before == "state"  # a live model is not changed
    other = SequenceClassifier(STTauLSTM(3, 8, num_states=4, mode="deterministic", readout="cell"), num_classes=2)
    other.load_state_dict(model.state_dict())
    assert torch.allclose(found, features(other, x), atol=1e-6)


def test_features_do_not_depend_on_the_batch_or_the_padding() -> None:
    x, lengths = torch.randn(6, 9, 3), torch.tensor([9, 2, 5, 9, 1, 7])
    model = SequenceClassifier(STTauGRU(3, 8, num_states=4), num_classes=2)
    whole = features(model, x, lengths, samples=4, seed=3)
    for row, length in enumerate(lengths.tolist()):
        assert torch.allclose(whole[row], features(model, x[row : row + 1, :length], samples=4, seed=3)[0], atol=1e-6)


def test_features_of_an_ensemble_are_those_of_its_members_side_by_side() -> None:
    x = torch.randn(4, 5, 3)
    ensemble = DeepEnsemble.of(lambda: SequenceClassifier(nn.LSTM(3, 6), num_classes=2), size=3)
    joined = torch.cat([features(member, x) for member in ensemble.members], dim=-1)
    assert torch.equal(features(ensemble, x), joined)
    first = ensemble.members[0].layer.rnn
    assert isinstance(first, nn.LSTM)
    assert torch.allclose(joined[:, :6], first(x.transpose(0, 1))[0][-1], atol=1e-6)
