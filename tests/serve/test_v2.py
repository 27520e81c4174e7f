from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import sttau
from sttau.files import MODEL_FILE
from tests.serve.conftest import series

pytest.importorskip("fastapi")


def _infer(client: Any, *inputs: dict[str, Any], model: str = "series", **more: Any) -> Any:
    return client.post(f"/v2/models/{model}/infer", json={"inputs": list(inputs)} | more)


def test_health_and_metadata_are_those_of_the_protocol(client: Any) -> None:
    assert client.get("/v2").json()["name"] == "sttau"
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2/models/series/ready").json() == {"name": "series", "ready": True}
    found = client.get("/v2/models/series").json()
    assert {"name", "versions", "platform", "inputs", "outputs"} == set(found)
    assert found["inputs"][0] == {"name": "input", "datatype": "FP32", "shape": [-1, -1, 2]}
    assert client.get("/v2/models/none").status_code == 404


def test_outputs_are_those_of_predict_with_lengths_and_chosen_names(client: Any, models: Path) -> None:
    x, _ = series(3)
    tensor = {"name": "input", "shape": [3, 4, 2], "datatype": "FP32", "data": x.flatten().tolist()}
    lengths = {"name": "lengths", "shape": [3], "datatype": "INT64", "data": [4, 2, 1]}
    chosen: dict[str, Any] = {
        "outputs": [{"name": "mean"}, {"name": "label"}],
        "parameters": {"samples": 6, "seed": 2},
        "id": "a",
    }
    found = _infer(client, tensor, lengths, **chosen).json()
    expected = sttau.predict(sttau.load(models / "series" / MODEL_FILE), x, torch.tensor([4, 2, 1]), 6, 2)
    assert found["id"] == "a"
    assert [output["name"] for output in found["outputs"]] == ["mean", "label"]
    assert found["outputs"][0]["shape"] == [3, 2]
    assert found["outputs"][0]["data"] == expected.mean.flatten().tolist()
    assert found["outputs"][1]["data"] == [("no", "yes")[n] for n in expected.label.tolist()]


def test_texts_and_regression_have_their_own_tensors(client: Any) -> None:
    texts = {"name": "input", "shape": [2], "datatype": "BYTES", "data": ["01", "1"]}
    assert _infer(client, texts, model="strings").json()["outputs"][0]["shape"] == [2, 2]
    values = {"name": "input", "shape": [1, 2, 1], "datatype": "FP64", "data": [[[0.5], [1]]]}
    assert [o["name"] for o in _infer(client, values, model="values").json()["outputs"]] == [
        "mean", "total", "aleatoric", "epistemic",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"shape": [1, 2, 3]},
        {"shape": [1, -2, 2]},
        {"shape": []},
        {"shape": [0, 2, 2]},
        {"shape": [2**31, 2**31, 2**31]},
        {"datatype": "BYTES"},
        {"datatype": "FP16"},
        {"data": [1, 2, 3, "4"]},
        {"data": [1, 2, 3, None]},
        {"data": [1, 2, 3, True]},
        {"data": [1, 2, 3, 10**400]},
        {"data": {"a": 1}},
        {"data": [1, 2]},
    ],
)
def test_tensors_that_do_not_fit_are_refused_with_a_sentence(client: Any, change: dict[str, Any]) -> None:
    tensor = {"name": "input", "shape": [1, 2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]}
    assert _infer(client, tensor).status_code == 200
    response = _infer(client, tensor | change)
    assert response.status_code == 422
    assert list(response.json()) == ["error"]


def test_unknown_outputs_are_refused(client: Any) -> None:
    tensor = {"name": "input", "shape": [1, 2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]}
    assert "the outputs are" in _infer(client, tensor, outputs=[{"name": "x"}]).json()["error"]
