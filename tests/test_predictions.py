from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import torch
from torch import nn

import sttau
from sttau.predictions import Writer, prediction_rows


def test_a_calibrated_classifier_has_decisions_and_a_set() -> None:
    x = torch.randn(40, 4, 2, generator=torch.Generator().manual_seed(0))
    model = sttau.SequenceClassifier(nn.GRU(2, 8), 3)
    sttau.calibrate(model, x, torch.arange(40) % 3)
    p = sttau.predict(model, x)
    rows = prediction_rows(p, [f"s{number}" for number in range(40)], level=0.8)
    assert [row["abstain"] for row in rows] == p.abstain.tolist()
    for row, inside in zip(rows, p.prediction_set(0.8).tolist(), strict=True):
        assert row["set"] == " | ".join(str(number) for number in range(3) if inside[number])


def test_a_calibrated_regressor_has_an_interval() -> None:
    x = torch.randn(40, 4, 2, generator=torch.Generator().manual_seed(0))
    model = sttau.SequenceRegressor(nn.GRU(2, 8), variance=True)
    sttau.calibrate(model, x, x.sum((1, 2)))
    p = sttau.predict(model, x)
    rows = prediction_rows(p, list(map(str, range(40))))
    low, high = p.interval(0.9)
    assert [row["low"] for row in rows] == pytest.approx(low[:, 0].tolist(), rel=1e-5)
    assert [row["high"] for row in rows] == pytest.approx(high[:, 0].tolist(), rel=1e-5)


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "out.jsonl"
    with Writer(str(path)) as writer:
        writer.write([{"a": 1}])
        writer.write([])
        writer.write([{"a": 2}])
        assert not path.exists()
    assert [json.loads(line)["a"] for line in path.read_text().splitlines()] == [1, 2]

    def interrupted() -> None:
        with Writer(str(path)) as writer:
            writer.write([{"a": 3}])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(path.read_text().splitlines()) == 2
    assert [found.name for found in path.parent.iterdir()] == ["out.jsonl"]


def test_an_unknown_ending_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must end in \.csv, \.tsv, \.jsonl or \.parquet"):
        Writer("out.xlsx")


@pytest.mark.parametrize(("json_lines", "expected"), [(False, "id,p\na,0.5\n"), (True, '{"id": "a", "p": 0.5}\n')])
def test_rows_are_written_to_an_open_stream_which_stays_open(json_lines: bool, expected: str) -> None:
    stream = io.StringIO()
    with Writer(stream, json_lines) as writer:
        writer.write([{"id": "a", "p": 0.5}])
    assert stream.getvalue() == expected


def test_rows_of_a_live_file_are_in_it_at_once_and_stay_after_an_interruption(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"

    def interrupted() -> None:
        with Writer(out, live=True) as writer:
            writer.write([{"id": "a", "label": "yes"}])
            assert out.read_text() == "id,label\na,yes\n"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert out.read_text() == "id,label\na,yes\n"
    with pytest.raises(ValueError, match=r"must end in \.csv, \.tsv or \.jsonl"):
        Writer(tmp_path / "out.parquet", live=True)
