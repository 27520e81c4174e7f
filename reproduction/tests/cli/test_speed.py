from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sttau import bench as speed
from sttau_reproduction.cli import app
from sttau_reproduction.speed import automata, baselines


def test_the_baselines_are_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = (speed.Shape("lstm", 2, 5, 3, 8, 2),)
    monkeypatch.setattr(baselines.measure_baselines, "__defaults__", (few, "cpu"))
    options = ["--out", str(tmp_path), "--device", "cpu", "--seconds", "0.0001"]
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["speed", "baselines", *options])
    assert shown.exit_code == 0, shown.output
    assert all(method in shown.output for method in ("ensemble", "bayes", "dropout"))
    assert (tmp_path / "baselines.jsonl").read_text("utf-8").count("\n") == 4
    assert "| LSTM B2 T5 F3 d8 k2 | bayes |" in (tmp_path / "baselines.md").read_text("utf-8")


def test_compiled_networks_are_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = (automata.Alphabet(3, 4, 8, 4, 5, 6),)
    monkeypatch.setattr(automata.measure_compiled, "__defaults__", (small,))
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(
        app, ["speed", "automata", "--out", str(tmp_path), "--seconds", "0.0001"]
    )
    assert shown.exit_code == 0, shown.output
    assert "3 tokens, k4 d8, B5 T6" in shown.output
    assert (tmp_path / "automata.jsonl").read_text("utf-8").count("\n") == 3


def test_an_unknown_device_is_named() -> None:
    shown = CliRunner().invoke(app, ["speed", "baselines", "--device", "tpu"])
    assert shown.exit_code == 2
    assert "--device tpu is not available" in shown.output
