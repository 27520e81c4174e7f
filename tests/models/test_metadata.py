from __future__ import annotations

from pathlib import Path

from torch import nn

from sttau import DeepEnsemble, SequenceClassifier, load
from sttau.models.metadata import Metadata


def test_notes_are_saved_with_the_model(tmp_path: Path) -> None:
    model = SequenceClassifier(nn.LSTM(1, 2), 2)
    model.set_note("policy", {"task": "cartpole-mdp", "horizon": 50})
    model.set_note("other", [1.5])
    again = load(model.save(tmp_path / "model.safetensors"))
    assert again.notes == {"policy": {"task": "cartpole-mdp", "horizon": 50}, "other": [1.5]}
    ensemble = DeepEnsemble([SequenceClassifier(nn.LSTM(1, 2), 2) for _ in range(2)])
    ensemble.set_note("other", 1)
    assert [member.notes for member in load(ensemble.save(tmp_path / "two.safetensors")).members] == [{"other": 1}] * 2


def test_metadata_without_content_is_an_empty_description() -> None:
    assert Metadata().config() == {}
    assert Metadata.from_config({}) == Metadata()
