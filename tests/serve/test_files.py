from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import sttau
from tests.serve.conftest import load_model, series, table


def test_files_are_predicted_and_what_was_understood_is_returned(client: Any, models: Path) -> None:
    answer = client.post("/api/file?model=series&name=new.csv", content=table(5, labels=False).encode())
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert "5 series of 4 steps" in found["summary"]
    assert [row["id"] for row in found["rows"]] == [f"s{n}" for n in range(5)]
    expected = sttau.predict(load_model(models, "series"), torch.tensor(series(5)[0].numpy().round(4)))
    assert found["rows"][3]["p_yes"] == pytest.approx(float(expected.mean[3, 1]), rel=1e-5)


@pytest.mark.parametrize(
    ("query", "content"),
    [
        ("name=a.exe", b"x"),
        ("name=../../a.csv", b"x"),
        ("name=a.csv", b""),
        ("name=a.csv", b"\x00\xff" * 100),
        ("name=a.csv", b"series,time,a,b\ns,0,1,x\n"),
        ("name=a.jsonl", b'{"series": 1}\n'),
        ("name=a.csv&samples=0", b"x"),
        ("name=a.csv&level=2", b"x"),
    ],
)
def test_bad_files_get_a_sentence_and_no_path(client: Any, query: str, content: bytes) -> None:
    response = client.post(f"/api/file?model=series&{query}", content=content)
    assert 400 <= response.status_code < 500
    assert "/tmp" not in response.text
    assert "sttau-" not in response.text
    assert response.json()["error"]


def test_evaluation_counts_labeled_examples_and_its_curves_agree_with_them(client: Any, models: Path) -> None:
    found = client.post("/api/evaluate?model=series").json()
    assert found["count"] == 36
    assert len(found["entropies"]["in_distribution"]) == 36
    assert len(found["entropies"]["unknown"]) == 4
    assert sum(found["reliability"]["count"]) == 36
    x, y = series(40)
    known = torch.arange(40) % 10 != 9
    p = sttau.predict(load_model(models, "series"), torch.tensor(x.numpy().round(4)))
    wrong = (p.label != y)[known]
    assert found["risk_coverage"]["coverage"][-1] == 1
    assert found["risk_coverage"]["risk"][-1] == pytest.approx(float(wrong.double().mean()))
    sizes = [one["size"] for one in found["sets"]]
    assert sizes == sorted(sizes)
    assert client.post("/api/evaluate?model=values").status_code == 404
