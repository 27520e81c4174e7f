from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sttau.jobs import Cell, Outcome
from sttau_reproduction.automata import work
from sttau_reproduction.automata.declaration import QUICK, Plan
from sttau_reproduction.cli import app


def test_a_quick_run_has_a_plan_and_a_folder_of_its_own_and_failures_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Path, Plan]] = []

    def run(folder: Path, plan: Plan, *_: Any) -> Outcome:
        asked.append((folder, plan))
        return Outcome([], [(Cell("automata", "tomita1", "st-tau", 0), "too hot")] if plan == QUICK else [])

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(work, "run", run)
    quick, whole = (CliRunner(env={"COLUMNS": "200"}).invoke(app, ["automata", *more]) for more in (["--quick"], []))
    assert asked == [
        (Path("reproduction/results/automata-quick"), QUICK),
        (Path("reproduction/results/automata"), Plan()),
    ]
    assert (quick.exit_code, whole.exit_code) == (1, 0)
    assert "failed: too hot" in quick.output
    assert "automata/results.jsonl.gz" in whole.output
