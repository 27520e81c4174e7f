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


def test_columns_may_have_other_names_than_in_training(tmp_path: Path) -> None:
    path = write_series(tmp_path / "data.csv", 40)
    model = sttau.create_model(read(path, target="state", id="machine", time="hour"), hidden_size=8)
    model.set_metadata(read(path, target="state", id="machine", time="hour"))
    model.save(tmp_path / "model.safetensors")
    wanted = invoke("evaluate", tmp_path, path)
    lines = path.read_text().splitlines()
    assert {"machine", "hour", "state"} <= set(lines[0].split(","))
    lines[0] = lines[0].replace("machine", "unit").replace("hour", "clock").replace("state", "trend")
    (tmp_path / "renamed.csv").write_text("\n".join(lines) + "\n")
    names = ["--id", "unit", "--time", "clock", "--target", "trend"]
    found = invoke("evaluate", tmp_path, tmp_path / "renamed.csv", *names)
    assert found.exit_code == 0, found.output
    shown = [line for line in wanted.output.splitlines() if "error %" in line]
    assert shown
    assert shown == [line for line in found.output.splitlines() if "error %" in line]
    check_failure(invoke("evaluate", tmp_path, tmp_path / "renamed.csv", *names[:2], *names[4:]), "hour", 1)
