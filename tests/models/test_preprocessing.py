from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import sttau
from sttau import SequenceClassifier, SequenceRegressor, STTauGRU, STTauLSTM
from sttau.models import Missing, Preprocessing, TargetScaling


def series(sequences: int = 6, time: int = 11, features: int = 3) -> torch.Tensor:
    return torch.randn(sequences, time, features, generator=torch.Generator().manual_seed(0))


def classifier(preprocessing: Preprocessing) -> SequenceClassifier:
    torch.manual_seed(1)
    return SequenceClassifier(
        STTauLSTM(preprocessing.output_size, 8, num_states=4), num_classes=3, preprocessing=preprocessing
    )


def test_features_are_scaled_by_the_valid_steps_alone() -> None:
    x, lengths = series(), torch.tensor([11, 3, 5, 11, 1, 7])
    filled = x.clone()
    for row, length in enumerate(lengths):
        filled[row, length:] = 1e9
    fitted = Preprocessing.fitted(filled, lengths)
    valid = torch.cat([x[row, :length] for row, length in enumerate(lengths)])
    torch.testing.assert_close(fitted.offset, valid.mean(0))
    torch.testing.assert_close(fitted.scale, valid.std(0, correction=0))


def test_a_prediction_does_not_depend_on_the_units_of_a_feature() -> None:
    x = series()
    pascal = x.clone()
    pascal[:, :, 1] = 101_325 + 700 * x[:, :, 1]
    first, second = (
        sttau.predict(classifier(Preprocessing.fitted(data)), data, mode="deterministic").mean for data in (x, pascal)
    )
    torch.testing.assert_close(first, second, atol=1e-3, rtol=0)


def test_a_constant_feature_warns_and_is_only_centered() -> None:
    x = series()
    x[:, :, 2] = 5.0
    with pytest.warns(UserWarning, match="features 2 are constant"):
        fitted = Preprocessing.fitted(x)
    assert fitted.scale[2] == 1
    assert bool((fitted(x)[0][:, :, 2] == 0).all())


def test_missing_values_are_carried_forward_with_a_mask() -> None:
    nan = torch.nan
    x = torch.tensor([[[nan], [2.0], [nan], [nan], [4.0]]])
    fitted = Preprocessing.fitted(x, scale=False)
    assert fitted.missing == "mask"
    assert fitted.channels(x)[0].tolist() == [[0, 0], [2, 1], [2, 0], [2, 0], [4, 1]]
    elapsed = Preprocessing(1, missing="elapsed").channels(x)[0, :, 2]
    torch.testing.assert_close(elapsed, torch.tensor([1.0, 0.0, 1.0, 2.0, 0.0]).log1p())


def test_missing_values_are_refused_unless_the_model_reads_them() -> None:
    x = series()
    x[1, 4, 0] = torch.nan
    with pytest.raises(ValueError, match=r"sequence 1 at step 4; .*missing=\"mask\""):
        sttau.predict(classifier(Preprocessing(3)), x)
    assert bool(sttau.predict(classifier(Preprocessing.fitted(x)), x).mean.isfinite().all())
    x[1, 4, 0] = torch.inf
    with pytest.raises(ValueError, match="NaN or infinity"):
        sttau.predict(classifier(Preprocessing(3, missing="mask")), x)


def test_patches_join_steps_and_fill_the_last_with_zeros() -> None:
    x = torch.arange(1.0, 11.0).view(1, 5, 2)
    features, lengths = Preprocessing(2, patch_size=3)(x, torch.tensor([4]))
    assert features.tolist() == [[[1, 2, 3, 4, 5, 6], [7, 8, 0, 0, 0, 0]]]
    assert lengths is not None
    assert lengths.tolist() == [2]


@pytest.mark.parametrize("missing", ["error", "mask", "elapsed"])
def test_a_saved_model_predicts_the_same(missing: Missing, tmp_path: Path) -> None:
    x = series()
    if missing != "error":
        x[0, 3, 1] = torch.nan
    model = classifier(Preprocessing.fitted(x, missing=missing, patch_size=4))
    again = sttau.load(model.save(tmp_path / "model.safetensors"))
    assert again.members[0].preprocessing is not None
    assert repr(again.members[0].preprocessing) == repr(model.preprocessing)
    assert torch.equal(sttau.predict(again, x).mean, sttau.predict(model, x).mean)


def test_the_layer_must_read_what_the_preprocessing_gives() -> None:
    with pytest.raises(ValueError, match="gives 12 features per step, but the layer's input_size is 3"):
        SequenceClassifier(nn.LSTM(3, 8), 2, preprocessing=Preprocessing(3, patch_size=4))
    with pytest.raises(ValueError, match="preprocessing is for features"):
        SequenceClassifier(nn.LSTM(3, 8), 2, nn.Embedding(5, 3), preprocessing=Preprocessing(3))
    with pytest.raises(ValueError, match="head='halves' reads single steps"):
        SequenceClassifier(STTauGRU(6, 8, num_states=4), 2, head="halves", preprocessing=Preprocessing(3, patch_size=2))


@pytest.mark.parametrize(("name", "value"), [("num_features", 0), ("patch_size", 0), ("missing", "zero")])
def test_bad_arguments_are_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=name):
        Preprocessing(**{"num_features": 2, name: value})  # type: ignore[arg-type]


def test_a_regressor_trains_on_patches() -> None:
    x = series(32, 20, 1)
    y = x.sum((1, 2))
    model = SequenceRegressor(nn.GRU(5, 16), preprocessing=Preprocessing.fitted(x, patch_size=5))
    before = sttau.predict(model, x).mean[:, 0]
    sttau.fit(model, x, y, updates=150, learning_rate=0.01, batch_size=32)
    after = sttau.predict(model, x).mean[:, 0]
    assert (after - y).square().mean() < 0.2 * (before - y).square().mean()


@pytest.mark.parametrize("variance", [False, True])
def test_targets_in_other_units_train_the_same_network(variance: bool, tmp_path: Path) -> None:
    x = series(32, 6, 1)
    y = x.sum((1, 2))
    made = []
    for unit in (1.0, 1000.0):
        torch.manual_seed(3)
        scaling = TargetScaling.fitted(100 * (unit > 1) + unit * y)
        model = SequenceRegressor(STTauGRU(1, 8, num_states=4), variance=variance, target_scaling=scaling)
        sttau.fit(model, x, 100 * (unit > 1) + unit * y, updates=20, learning_rate=0.01)
        made.append(model)
    one, other = (sttau.predict(model, x) for model in made)
    torch.testing.assert_close(other.mean, 100 + 1000 * one.mean, rtol=1e-2, atol=10.0)
    torch.testing.assert_close(other.aleatoric, 1e6 * one.aleatoric, rtol=5e-2, atol=1e-6)
    again = sttau.load(made[1].save(tmp_path / "model.safetensors"))
    assert torch.equal(sttau.predict(again, x).mean, other.mean)
