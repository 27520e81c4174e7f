"""ONNX files compute what ``predict`` does, under onnxruntime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import sttau
from sttau import DeepEnsemble, SequenceClassifier, SequenceRegressor
from sttau.export import to_onnx
from sttau.layers import (
    BayesLSTM,
    HeadDropoutLSTM,
    MinGRU,
    MinLSTM,
    SamplingFreeGRU,
    StateRegularizedGRU,
    StateRegularizedLSTM,
    STTauGRU,
    STTauLSTM,
    VariationalDropoutLSTM,
)
from sttau.layers.call import Call, Output
from sttau.layers.lstm_gru import GRULayer
from sttau.models import Preprocessing, TargetScaling

onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

#: Constructor of a layer for an input size, by what it shows. Together with the heads below: over 50 models.
LAYERS: dict[str, Any] = {
    "lstm": lambda n: nn.LSTM(n, 6),
    "lstm-deep-both-ways": lambda n: nn.LSTM(n, 5, num_layers=2, bidirectional=True, bias=False),
    "gru": lambda n: nn.GRU(n, 6, num_layers=2, batch_first=True),
    "gru-both-ways": lambda n: nn.GRU(n, 6, bidirectional=True),
    "bayes": lambda n: BayesLSTM(n, 5),
    "bayes-deep-both-ways": lambda n: BayesLSTM(n, 5, num_layers=2, bidirectional=True, bias=False),
    "dropout": lambda n: VariationalDropoutLSTM(n, 6, dropout=0.3),
    "dropout-deep-both-ways": lambda n: VariationalDropoutLSTM(n, 6, 2, dropout=0.3, bidirectional=True),
    "head-dropout": lambda n: HeadDropoutLSTM(n, 6, dropout=0.3, bidirectional=True),
    "min-gru": lambda n: MinGRU(n, 6, num_layers=2),
    "min-lstm": lambda n: MinLSTM(n, 6, bidirectional=True, bias=False),
    "sp-gru": lambda n: SamplingFreeGRU(n, 6, rho=-1.0),
    "sp-gru-deep-both-ways": lambda n: SamplingFreeGRU(n, 5, num_layers=2, bidirectional=True, bias=False),
    "state-regularized": lambda n: StateRegularizedLSTM(n, 6, 4, readout="cell"),
    "state-regularized-gru": lambda n: StateRegularizedGRU(n, 6, 4, num_layers=2),
    "st-tau": lambda n: STTauLSTM(n, 8, 5, readout="cell"),
    "st-tau-peephole": lambda n: STTauLSTM(n, 8, 5, peephole=True, temperature=0.7, initial="first"),
    "st-tau-deep-both-ways": lambda n: STTauLSTM(n, 8, 5, num_layers=2, bidirectional=True),
    "st-tau-gru": lambda n: STTauGRU(n, 8, 5),
    "st-tau-hard": lambda n: STTauLSTM(n, 8, 6, mode="hard"),
    "exact": lambda n: STTauGRU(n, 8, 6, mode="exact"),
    "exact-first": lambda n: STTauGRU(n, 8, 4, mode="exact", initial="first", bias=False),
}
HEADS = ("tokens", "features", "regression")


def model_of(layer: Any, head: str) -> Any:
    if head == "tokens":
        return SequenceClassifier(layer(4), 3, nn.Embedding(9, 4))
    if head == "features":
        return SequenceClassifier(layer(4), 3, preprocessing=Preprocessing(2, patch_size=2), logit_temperature=1.4)
    scaling = TargetScaling.fitted(2 + 0.9 * torch.randn(20, 2))
    return SequenceRegressor(
        layer(6), 2, variance=True, preprocessing=Preprocessing(2, "elapsed"), target_scaling=scaling
    )


def batch_of(model: Any) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.tensor([9, 4, 1, 7])
    if model.reads_tokens:
        return torch.randint(9, (4, 9)), lengths
    x = torch.randn(4, 9, model.num_features)
    if model.members[0].preprocessing is not None and model.members[0].preprocessing.missing != "error":
        x = torch.where(torch.rand_like(x) < 0.3, torch.nan, x)
    return x, lengths


def compare(model: Any, path: Path, mode: Any = None, samples: int = 3) -> float:
    """The largest difference between predict and onnxruntime, over all fields and two shapes of batches."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # several wait for each other in a loop
    session = onnxruntime.InferenceSession(to_onnx(model, path / "model.onnx", mode=mode), options)
    names = {one.name for one in session.get_inputs()} | {one.name for one in session.get_overridable_initializers()}
    largest = 0.0
    x, lengths = batch_of(model)
    for inputs, valid in ((x, lengths), (x[:1, :5], lengths[:1].clamp_max(5))):
        ids = torch.arange(len(inputs)) + 7
        expected = sttau.predict(model, inputs, valid, samples, 5, mode, ids=ids)
        given = {"inputs": inputs, "lengths": valid, "ids": ids, "samples": torch.tensor(samples)}
        given["seed"] = torch.tensor(5)
        found = session.run(None, {name: value.numpy() for name, value in given.items() if name in names})
        for one, value in zip(session.get_outputs(), found, strict=True):
            wanted = getattr(expected, one.name).numpy()
            assert value.shape == wanted.shape, one.name
            largest = max(largest, float(np.abs(value.astype(float) - wanted.astype(float)).max()))
    return largest


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("layer", LAYERS)
def test_onnxruntime_agrees_with_predict(layer: str, head: str, tmp_path: Path) -> None:
    """22 layers · 3 heads = 66 models with random weights."""
    torch.manual_seed(sum(map(ord, layer + head)))
    model = model_of(LAYERS[layer], head)
    assert compare(model, tmp_path) <= 1e-5


@pytest.mark.parametrize("layer", ["lstm", "st-tau", "exact", "bayes"])
@pytest.mark.parametrize("head", ["tokens", "regression"])
def test_an_ensemble_agrees_with_predict(layer: str, head: str, tmp_path: Path) -> None:
    model = DeepEnsemble.of(lambda: model_of(LAYERS[layer], head), size=3)
    assert compare(model, tmp_path) <= 1e-5


def test_a_layer_without_an_onnx_form_is_refused(tmp_path: Path) -> None:
    class Own(GRULayer):
        def __init__(self) -> None:
            super().__init__(2, 4, 1, True, False, 0.0, False)
            self.weight_ih_l0 = nn.Parameter(torch.zeros(12, 2))

        def _run(self, inputs: torch.Tensor, call: Call) -> Output:
            raise NotImplementedError

    with pytest.raises(ValueError, match="Own cannot be exported to ONNX"):
        to_onnx(SequenceClassifier(Own(), 2), tmp_path / "model.onnx")


def test_a_calibrated_model_decides_alike(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(2, 8, 4), 3, head="dense")
    x = torch.randn(60, 5, 2)
    sttau.calibrate(model, x, torch.randint(3, (60,)), coverage=0.5)
    session = onnxruntime.InferenceSession(to_onnx(model, tmp_path / "model.onnx"))
    given = {"inputs": x.numpy(), "lengths": np.full(60, 5), "ids": np.arange(60)}
    abstain, is_ood = session.run(["abstain", "is_ood"], given)
    expected = sttau.predict(model, x, ids=torch.arange(60))
    assert (abstain == expected.abstain.numpy()).all()
    assert (is_ood == expected.is_ood.numpy()).all()
    assert 0 < abstain.sum() < 60


def test_states_with_fixed_labels_are_exported(tmp_path: Path) -> None:
    for mode in ("soft", "hard", "exact"):
        model = SequenceClassifier(STTauGRU(4, 8, 6, mode=mode), 2, nn.Embedding(9, 4), head="halves")
        assert compare(model, tmp_path) <= 1e-5


def test_the_file_names_classes_and_tokens(tmp_path: Path) -> None:
    model = SequenceClassifier(STTauGRU(4, 8, 4), 2, nn.Embedding(3, 4))
    model.set_metadata(sttau.data.load("tomita1", "train"))
    session = onnxruntime.InferenceSession(to_onnx(model, tmp_path / "model.onnx"))
    properties = session.get_modelmeta().custom_metadata_map
    assert json.loads(properties["sttau.class_names"]) == ["reject", "accept"]
    assert json.loads(properties["sttau.vocabulary"]) == ["^", "0", "1"]
