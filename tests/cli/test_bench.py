from __future__ import annotations

from pathlib import Path

import pytest

from sttau import bench as speed
from tests.cli.invocation import check_failure, invoke


def test_results_table_and_figure_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "CPU_SHAPES", (speed.Shape("lstm", 2, 5, 3, 8, 2),))
    shown = invoke("bench", "--out", tmp_path, "--device", "cpu", "--seconds", "0.0001")
    assert shown.exit_code == 0, shown.output
    assert "LSTM B2 T5 F3 d8 k2" in shown.output
    assert (tmp_path / "results.jsonl").read_text("utf-8").count("\n") == 3
    assert "| LSTM B2 T5 F3 d8 k2 |" in (tmp_path / "table.md").read_text("utf-8")
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")


def test_a_device_that_is_not_available_is_refused() -> None:
    check_failure(invoke("bench", "--device", "tpu"), "--device tpu is not available", code=2)
