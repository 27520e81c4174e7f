"""Small models in a folder, and a client of a server that serves them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import sttau
from sttau.data import from_arrays
from sttau.data.schema import Schema
from sttau.files import EXAMPLES_FILE, MODEL_FILE
from sttau.models.metadata import Metadata


def series(count: int = 40, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Series of four steps of two features; the label is the sign of the sum."""
    x = torch.randn(count, 4, 2, generator=torch.Generator().manual_seed(seed))
    return x, (x.sum((1, 2)) > 0).long()


def table(count: int = 40, labels: bool = True) -> str:
    """The same as a long table; every tenth series has no label."""
    x, y = series(count)
    lines = ["series,time,a,b,label"]
    for number in range(count):
        name = "" if not labels or number % 10 == 9 else ("no", "yes")[int(y[number])]
        lines += [f"s{number},{t},{a:.4f},{b:.4f},{name}" for t, (a, b) in enumerate(x[number].tolist())]
    return "\n".join(lines) + "\n"


def make_series_model(seed: int = 0) -> sttau.SequenceClassifier:
    torch.manual_seed(seed)
    model = sttau.SequenceClassifier(sttau.STTauLSTM(2, 8, num_states=4), 2)
    schema = Schema("long", id="series", time="time", target="label", task="classification")
    model.set_metadata(Metadata(("no", "yes"), ("a", "b"), None, schema))
    x, y = series(60, seed=1)
    sttau.calibrate(model, from_arrays(x.numpy(), y.numpy()), samples=4)
    return model


def make_language_model() -> sttau.SequenceClassifier:
    torch.manual_seed(0)
    model = sttau.SequenceClassifier(sttau.STTauGRU(4, 8, num_states=5, mode="exact"), 2, nn.Embedding(3, 4))
    schema = Schema("strings", target="label", text="text", task="classification")
    model.set_metadata(Metadata(("reject", "accept"), (), ("^", "0", "1"), schema))
    return model


def make_regressor() -> sttau.SequenceRegressor:
    torch.manual_seed(0)
    model = sttau.SequenceRegressor(sttau.STTauLSTM(1, 8, num_states=4), 1)
    model.set_metadata(
        Metadata((), ("x",), None, Schema("long", id="series", time="time", target="y", task="regression"))
    )
    return model


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models."""
    folder = tmp_path_factory.mktemp("models")
    for name, model in (
        ("series", make_series_model()),
        ("strings", make_language_model()),
        ("values", make_regressor()),
    ):
        model.save(folder / name / MODEL_FILE)
    (folder / "series" / EXAMPLES_FILE).write_text(table())
    (folder / "strings" / EXAMPLES_FILE).write_text("text,label\n0110,accept\n10,reject\n111,accept\n")
    return folder


def load_model(models: Path, name: str) -> Any:
    return sttau.load(models / name / MODEL_FILE)


@pytest.fixture(scope="session")
def client(models: Path) -> Iterator[Any]:
    """A client of a server with these models."""
    pytest.importorskip("fastapi")
    testclient = pytest.importorskip("starlette.testclient")
    from sttau.serve import Settings, create_app

    app = create_app([models], Settings(max_steps=200, max_sequences=50, max_samples=40, max_bytes=1 << 16))
    with testclient.TestClient(app) as made:
        yield made
