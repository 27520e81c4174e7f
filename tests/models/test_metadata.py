from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from sttau import DeepEnsemble, SequenceClassifier, SequenceRegressor, load
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


def test_names_of_classes_features_and_tokens_are_saved_with_the_model(tmp_path: Path) -> None:
    from sttau.data import load as load_data

    model = SequenceClassifier(nn.GRU(4, 8), 2, nn.Embedding(3, 4))
    model.set_metadata(load_data("tomita1", "train"))
    again = load(model.save(tmp_path / "model.safetensors"))
    assert again.vocabulary == ("^", "0", "1")
    assert again.class_names == ("reject", "accept")
    assert again.feature_names == ()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: SequenceClassifier(nn.GRU(4, 8), 2, nn.Embedding(4, 4)), "vocabulary of the data has 3 entries.* 4"),
        (lambda: SequenceClassifier(nn.GRU(4, 8), 3, nn.Embedding(3, 4)), "class_names of the data has 2 entries.* 3"),
        (lambda: SequenceClassifier(nn.GRU(4, 8), 2), "vocabulary of the data has 3 entries.* none"),
        (lambda: SequenceRegressor(nn.GRU(4, 8), embedding=nn.Embedding(3, 4)), "class_names .* has none"),
    ],
)
def test_data_that_does_not_fit_the_model_is_not_remembered(model: Any, message: str) -> None:
    from sttau.data import load as load_data

    made = model()
    with pytest.raises(ValueError, match=message):
        made.set_metadata(load_data("tomita1", "train"))
    assert made.class_names == ()
