"""Trials on validation data."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from typer.testing import CliRunner

from reproduction.tests.classification.small_networks import PART, network
from sttau_reproduction.classification import trials
from sttau_reproduction.classification.networks import find
from sttau_reproduction.classification.splits import load_splits, predict_probabilities
from sttau_reproduction.classification.trained import read_network
from sttau_reproduction.cli import app
from sttau_reproduction.records import read_records

RESULTS = Path(__file__).parents[2] / "results" / "paper"


def test_what_is_given_takes_the_place_of_what_is_declared() -> None:
    given = {"settings": {"model": {"paths": 8}}, "training": {"updates": 10}, "seed": 3, "part": {"held_out": 100}}
    cell = trials.cell_of({"name": "more paths", "data": "imdb", "network": "st-tau-best", **given})
    declared = find("imdb", "st-tau-best")
    assert (cell.experiment, cell.method, cell.seed) == ("trial", "more paths", 3)
    assert cell.settings["settings"]["model"] == {**declared.settings["model"], "paths": 8}
    assert cell.settings["training"] == {**declared.training, "updates": 10}
    with pytest.raises(ValueError, match="a trial has name, data, network"):
        trials.cell_of({"name": "n", "data": "imdb", "network": "st-tau-best", "updates": 3})


def test_trials_are_evaluated_on_validation_data_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "find", lambda data, name: network(name))
    base: dict[str, Any] = {"data": "digits", "network": "st-tau-classes", "part": {**PART, "held_out": 20}}
    file = tmp_path / "trials.json"
    file.write_text(
        json.dumps(
            [
                {"name": "base", **base},
                {"name": "seed 1", **base, "seed": 1},
                {"name": "bad", **base, "settings": {"num_states": 1}},
            ]
        )
    )
    out = tmp_path / "out.jsonl"
    options = ["--question", "Why?", "--device", "cpu"]
    command = ["trials", str(file), "--out", str(out), *options]
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, command)
    assert shown.exit_code == 1, shown.output
    assert "bad on digits, seed 0 failed" in shown.output
    assert "num_states must be at least 2" in shown.output
    first, second = read_records(out)
    out.write_text(json.dumps(first) + "\n")  # the second was computed, but not recorded
    assert CliRunner().invoke(app, command).exit_code == 1
    assert read_records(out) == [first, second]  # and neither was computed again: seconds are the same
    assert (first["method"], second["method"], second["seed"]) == ("base", "seed 1", 1)
    assert {record["question"] for record in (first, second)} == {"Why?"}
    assert date.fromisoformat(first["date"]) <= date.today()
    data = load_splits("digits", base["part"], "cpu")
    assert (len(data.train), len(data.validation)) == (80, 80)
    cell = trials.cell_of({"name": "base", **base})
    model, log = read_network(tmp_path / "networks", cell, "cpu")
    command = ["curves", str(tmp_path / "networks"), "--out", str(tmp_path / "curves.jsonl"), "--question", "When?"]
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*command, "--trials", str(file)])
    assert shown.exit_code == 0, shown.output
    drawn = read_records(tmp_path / "curves.jsonl")
    assert [(row["method"], row["seed"], row["update"]) for row in drawn] == [
        ("base", 0, [4, 8, 12]),
        ("seed 1", 1, [4, 8, 12]),
    ]
    measured = [update.validation for update in log if update.validation is not None]
    assert drawn[0]["error"] == pytest.approx(measured, abs=1e-5)
    for name in ("loss", "gradient_norm"):
        between = [median(getattr(update, name) for update in log[end - 4 : end]) for end in (4, 8, 12)]
        assert drawn[0][name] == pytest.approx(between, rel=1e-3)
    wrong = predict_probabilities(model, data.validation).mean(0).argmax(-1) != data.validation.labels
    assert first["metrics"]["validation_pe"] == pytest.approx(100 * float(wrong.double().mean()))
    others = {name for name in first["metrics"] if not name.startswith("validation_")}
    assert others == {"scaling_temperature", "best_update", "tau"}


def test_every_committed_trial_and_curve_has_a_date_and_a_question() -> None:
    records = read_records(RESULTS / "trials.jsonl.gz")
    assert len(records) == 308
    drawn = read_records(RESULTS / "curves.jsonl.gz")
    assert len(drawn) == 181
    for record in (*records, *drawn):
        date.fromisoformat(record["date"])
        assert record["question"].endswith(("?", "before"))
    assert all("metrics" in record or "validation" in record for record in records)
