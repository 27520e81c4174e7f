from __future__ import annotations

from pathlib import Path

import sttau
from sttau.data import read
from tests.cli.invocation import check_failure, invoke
from tests.cli.tables import write_series


def test_metrics_and_classes_are_shown_and_targets_are_needed(tmp_path: Path) -> None:
    path = write_series(tmp_path / "data.csv", 40)
    data = read(path, target="state", id="machine", time="hour")
    model = sttau.create_model(data, hidden_size=8)
    sttau.calibrate(model, data)
    model.save(tmp_path / "model.safetensors")
    shown = invoke("evaluate", tmp_path, path)
    assert shown.exit_code == 0, shown.output
    for text in ("error %", "AURC %", "accepted %", "falls", "rises", "95 % interval"):
        assert text in shown.output
    lines = [line.rsplit(",", 1)[0] for line in path.read_text().splitlines()]
    (tmp_path / "new.csv").write_text("\n".join(lines) + "\n")
    check_failure(invoke("evaluate", tmp_path, tmp_path / "new.csv"), "without a known target", 1)
