"""What was saved is what is loaded."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from sttau import (
    BayesLSTM,
    SequenceClassifier,
    SequenceRegressor,
    STTauGRU,
    STTauLSTM,
    VariationalDropoutLSTM,
    load,
    predict,
)
from sttau.errors import ModelFileError
from sttau.layers import RecurrentLayer
from sttau.models import SequenceModel
from tests.models.small_models import (
    batch_for,
    both_inputs,
    every_layer,
    layer_of,
    rewrite,
    saved_config,
    saved_tensors,
    table,
)


def assert_same_model(again: SequenceModel, model: SequenceModel) -> None:
    """Same kind, same configuration, the same bits in every tensor, eval mode."""
    assert type(again) is type(model)
    assert type(again.layer) is type(model.layer)
    assert repr(again) == repr(model)
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in model.named_parameters()]
    found = again.state_dict()
    assert list(found) == list(model.state_dict())
    for name, value in model.state_dict().items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value)
    assert not again.training


@every_layer
@pytest.mark.parametrize("kind", [SequenceClassifier, SequenceRegressor])
@both_inputs
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_what_was_saved_is_what_is_loaded(
    name: str,
    kind: type[SequenceClassifier | SequenceRegressor],
    tokens: bool,
    dtype: torch.dtype,
    tmp_path: Path,
) -> None:
    layer = layer_of(name, num_layers=2, bidirectional=True)
    model: SequenceClassifier | SequenceRegressor = kind(layer, 2, embedding=table(tokens)).to(dtype)
    path = model.save(tmp_path / "model.safetensors")
    again = load(path)
    assert_same_model(again, model)
    assert saved_config(again.save(tmp_path / "again.safetensors")) == saved_config(path)
    x = batch_for(tokens)
    before: Any = predict(model, x, [4, 2, 1])
    after: Any = predict(again, x, [4, 2, 1])
    assert after.mode == before.mode
    for field in ("mean", "variance", "aleatoric", "epistemic", "total"):
        assert torch.equal(getattr(after, field), getattr(before, field))


@pytest.mark.parametrize(
    "model",
    [
        SequenceClassifier(STTauGRU(2, 4, 3, mode="exact", initial="first", temperature=0.3), 5),
        SequenceClassifier(STTauGRU(2, 4, 3, mode="hard", readout="cell", bias=False), 5),
        SequenceClassifier(STTauLSTM(2, 4, 3, peephole=True, learn_temperature=False, batch_first=True), 5),
        SequenceClassifier(STTauLSTM(2, 4, 3, mode="deterministic", num_layers=3, dropout=0.25), 5),
        SequenceRegressor(STTauGRU(2, 4, 3), 3, variance=True, embedding=nn.Embedding(5, 2, padding_idx=4)),
        SequenceClassifier(nn.LSTM(2, 4, num_layers=2, bias=False, dropout=0.5, batch_first=True), 5),
        SequenceClassifier(nn.GRU(2, 4, bidirectional=True), 5, nn.Embedding(5, 2)),
        SequenceClassifier(BayesLSTM(2, 4, rho=-2.0, mean=0.01, prior_scale=0.5, prior_mixture=(0.25, 0.1)), 5),
        SequenceClassifier(VariationalDropoutLSTM(2, 4, dropout=0.3, input_dropout=0.0, num_layers=2), 5),
    ],
    ids=lambda model: str(model.layer),
)
def test_every_option_of_a_model_is_saved(model: SequenceModel, tmp_path: Path) -> None:
    path = model.save(tmp_path / "model.safetensors")
    again = load(path)
    assert_same_model(again, model)
    assert saved_config(again.save(tmp_path / "again.safetensors")) == saved_config(path)
    if isinstance(model.layer, RecurrentLayer):
        assert again.layer.config() == model.layer.config()
    if model.embedding is not None:
        assert again.embedding.padding_idx == model.embedding.padding_idx


def test_a_temperature_that_was_learnt_is_what_is_loaded(tmp_path: Path) -> None:
    layer = STTauGRU(2, 4, 3)
    with torch.no_grad():
        layer.get_parameter("log_temperature_l0").fill_(-0.7)
    again = load(SequenceClassifier(layer, 3).save(tmp_path / "model"))
    assert again.layer.temperature.item() == pytest.approx(math.exp(-0.7), rel=1e-6)


def test_saving_makes_the_folder_and_returns_the_path(tmp_path: Path) -> None:
    wish = tmp_path / "new" / "folder" / "model.safetensors"
    path = SequenceClassifier(STTauGRU(2, 4, 3), 3).save(str(wish))
    assert path == wish
    assert [file.name for file in path.parent.iterdir()] == ["model.safetensors"]


def test_a_saved_file_holds_json_and_numbers_and_nothing_else(file: Path) -> None:
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    assert json.loads(header.pop("__metadata__")["sttau"])["format"] == "sttau.model"
    spans = sorted(tuple(entry["data_offsets"]) for entry in header.values())
    assert spans[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert 8 + size + spans[-1][1] == len(content)
    assert all(entry["dtype"] == "F32" for entry in header.values())
    assert sum(4 * math.prod(entry["shape"]) for entry in header.values()) == spans[-1][1]


def test_a_save_that_fails_half_way_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = file.read_bytes()

    def half(self: Path, content: bytes) -> int:
        with self.open("wb") as opened:
            opened.write(content[: len(content) // 2])
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(OSError, match="No space left"):
        SequenceClassifier(STTauGRU(2, 4, 3), 3).save(file)
    assert file.read_bytes() == old
    assert list(file.parent.iterdir()) == [file]


def test_a_saved_file_has_the_permissions_of_any_other(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(b"")
    assert file.stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_neither_saved_nor_loaded(file: Path, value: float, tmp_path: Path) -> None:
    rewrite(file, saved_config(file), saved_tensors(file) | {"head.bias": torch.tensor([0, 0, value])})
    with pytest.raises(ModelFileError, match=r"the weights in .*model.safetensors are not finite: head.bias"):
        load(file)
    model = SequenceClassifier(STTauGRU(2, 4, 3), 3)
    nn.init.constant_(model.get_parameter("layer.weight_hh_l0"), value)
    with pytest.raises(ValueError, match=r"cannot be saved: it has weights that are not finite, layer.weight_hh_l0"):
        model.save(tmp_path / "diverged.safetensors")
    assert not (tmp_path / "diverged.safetensors").exists()


def test_the_default_device_does_not_matter_where_a_device_is_named(file: Path) -> None:
    with torch.device("meta"):
        model = load(file)
    assert model.device.type == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(ValueError, match="device 'cuda' is not available: PyTorch finds no GPU on this machine"):
        load(file, "cuda")
    with pytest.raises(ValueError, match="device must be the name of a device, such as 'cpu' or 'cuda', got 'gpu'"):
        load(file, "gpu")


def test_a_file_is_read_whatever_the_size_of_its_header(file: Path) -> None:
    """The first bytes of a safetensors file are its header's size, and may look like those of a pickle."""
    tensors, config = saved_tensors(file), saved_config(file)
    seen = set()
    for spaces in range(0, 256, 8):  # a header is padded to a multiple of 8
        rewrite(file, config, tensors, spaces)
        seen.add(file.read_bytes()[0])
        assert torch.equal(load(file).head.weight, tensors["head.weight"])
    assert 0x80 in seen


class OwnGRU(STTauGRU):
    """A layer that no file can name."""


class OwnClassifier(SequenceClassifier):
    """A model that no file can name."""


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SequenceClassifier(OwnGRU(2, 4, 3), 3), "a model on OwnGRU.* cannot be saved: only BayesLSTM, GRU"),
        (OwnClassifier(STTauGRU(2, 4, 3), 3), "OwnClassifier cannot be saved"),
    ],
    ids=["layer", "model"],
)
def test_what_cannot_be_loaded_cannot_be_saved(model: SequenceModel, message: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=message):
        model.save(tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []
