from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import sttau
from sttau import (
    BayesLSTM,
    DeepEnsemble,
    SequenceClassifier,
    SequenceRegressor,
    Stream,
    STTauGRU,
    STTauLSTM,
    VariationalDropoutLSTM,
)
from sttau.data import load
from sttau.models import Missing, Preprocessing, SequenceModel, TargetScaling

LAYERS: dict[str, Callable[[int], nn.Module]] = {
    "st-tau lstm": lambda width: STTauLSTM(width, 6, num_states=4, readout="cell"),
    "st-tau gru, two layers": lambda width: STTauGRU(width, 6, num_states=4, num_layers=2),
    "bayes": lambda width: BayesLSTM(width, 6),
    "dropout": lambda width: VariationalDropoutLSTM(width, 6, dropout=0.3),
    "lstm": lambda width: nn.LSTM(width, 6),
    "gru": lambda width: nn.GRU(width, 6, num_layers=2),
}


def data() -> torch.Tensor:
    x = torch.randn(3, 8, 2, generator=torch.Generator().manual_seed(0))
    x[1, 0, 1] = x[1, 4, 0] = x[1, 5, 0] = torch.nan
    return x


def make(layer: Callable[[int], nn.Module], missing: Missing = "elapsed", patch: int = 3) -> SequenceClassifier:
    torch.manual_seed(2)
    preprocessing = Preprocessing.fitted(data(), missing=missing, patch_size=patch)
    return SequenceClassifier(layer(preprocessing.output_size), 3, preprocessing=preprocessing)


def assert_streams(model: Any, x: torch.Tensor, mode: Any = None) -> None:
    every = sttau.predict(model, x, samples=4, seed=5, mode=mode, per_step=True, ids=torch.arange(len(x)))
    stream = Stream(model, len(x), 4, 5, mode)
    for time in range(x.shape[1]):
        now = stream.step(x[:, time])
        assert (now.mode, now.num_samples) == (every.mode, every.num_samples)
        for name in ("mean", "aleatoric", "epistemic"):
            torch.testing.assert_close(getattr(now, name), getattr(every, name)[:, time], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("patch", [1, 3])
def test_a_stream_predicts_what_predict_does_after_every_step(name: str, patch: int) -> None:
    assert_streams(make(LAYERS[name], patch=patch), data())


def test_a_stream_of_an_ensemble_and_of_a_regressor() -> None:
    members: list[SequenceModel] = [make(LAYERS["st-tau lstm"]) for _ in range(2)]
    with torch.no_grad():
        members[1].head.weight.neg_()
    assert_streams(DeepEnsemble(members), data())
    scaling = TargetScaling.fitted(torch.randn(9, 2) * 30)
    assert_streams(SequenceRegressor(STTauGRU(2, 6, 4), 2, True, target_scaling=scaling), data().nan_to_num(0))


@pytest.mark.parametrize("patch", [1, 3])
def test_an_exact_stream(patch: int) -> None:
    model = make(lambda width: STTauGRU(width, 6, num_states=4), patch=patch)
    assert_streams(model, data(), "exact")
    other = make(lambda width: STTauGRU(width, 6, num_states=4), patch=patch)
    assert_streams(DeepEnsemble([model, other]), data(), "exact")


def test_a_stream_of_words() -> None:
    strings = load("tomita2", "train")
    model = SequenceClassifier(STTauGRU(4, 6, num_states=4), 2, nn.Embedding(3, 4))
    model.set_metadata(strings)
    one, stream = Stream(model), Stream(model)
    for word in ("^", "1", "0"):
        by_word = stream.step(word)
        by_id = one.step(model.vocabulary.index(word))  # type: ignore[union-attr]
        assert torch.equal(by_word.mean, by_id.mean)
    with pytest.raises(ValueError, match="'7' is not in the vocabulary"):
        stream.step("7")


def test_a_stream_continues_from_its_saved_state() -> None:
    for model in (make(LAYERS["bayes"]), make(lambda width: STTauGRU(width, 6, num_states=4))):
        mode: Any = "exact" if isinstance(model.layer, STTauGRU) else None
        x, stream, other = data(), Stream(model, 3, mode=mode), Stream(model, 3, mode=mode)
        for time in range(5):
            stream.step(x[:, time])
        other.load_state_dict(stream.state_dict())
        assert other.steps == 5
        for time in range(5, 8):
            assert torch.equal(stream.step(x[:, time]).mean, other.step(x[:, time]).mean)


def test_reset_begins_new_sequences() -> None:
    x, stream = data(), Stream(make(LAYERS["st-tau lstm"]), 3)
    first = stream.step(x[:, 0]).mean
    stream.step(x[:, 1])
    stream.reset()
    assert torch.equal(stream.step(x[:, 0]).mean, first)


def test_the_training_flag_of_the_model_is_left_unchanged() -> None:
    model = make(LAYERS["st-tau lstm"]).train()
    Stream(model, 3).step(data()[:, 0])
    assert model.training


def test_bad_arguments_are_named() -> None:
    model = make(LAYERS["lstm"], missing="error")
    with pytest.raises(ValueError, match="streams must be at least 1"):
        Stream(model, 0)
    with pytest.raises(ValueError, match="samples must be at least 1"):
        Stream(model, samples=0)
    with pytest.raises(ValueError, match="seed must be an integer"):
        Stream(model, seed=1.9)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ids must be 2 integers"):
        Stream(model, 2, ids=[1, 2, 3])
    with pytest.raises(ValueError, match="one row for each of the 3 streams, got 2"):
        Stream(model, 3).step(torch.zeros(2, 2))
    with pytest.raises(ValueError, match="NaN or infinity"):
        Stream(model).step([0.0, float("nan")])
    both = SequenceClassifier(nn.LSTM(2, 4, bidirectional=True), 2)
    with pytest.raises(ValueError, match="reads in one direction"):
        Stream(both)
    halves = SequenceClassifier(STTauLSTM(2, 4, num_states=4), 2, head="halves")
    with pytest.raises(ValueError, match="needs mode='exact'"):
        Stream(halves)


@pytest.mark.parametrize("other", [{"streams": 2, "samples": 20}, {"seed": 1}, {"ids": [3, 2, 1, 0]}, {"mode": "hard"}])
def test_a_state_of_a_stream_with_other_arguments_is_refused(other: dict[str, Any]) -> None:
    """Regression: four streams of ten samples were continued as two of twenty."""
    model = make(LAYERS["st-tau lstm"])
    given: dict[str, Any] = {"streams": 4, "samples": 10}
    stream = Stream(model, **given)
    stream.step(torch.zeros(4, 2))
    with pytest.raises(ValueError, match="of a stream with other arguments: streams, samples, seed, ids or mode"):
        Stream(model, **(given | other)).load_state_dict(stream.state_dict())
