"""A small part of the faults, and the outcomes of all of them: nothing silent, nothing leaked, nothing lost."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.faults import conditions
from tests.faults.harness import OUTCOMES, Part, read_damaged, run
from tests.faults.kills import KINDS
from tests.faults.mutations import FAULTS, damage
from tests.faults.processes import Outcome
from tests.faults.readers import READERS
from tests.faults.requests import REQUESTS
from tests.faults.table import make_table

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_refused_or_read_and_nothing_else(name: str, tmp_path: Path) -> None:
    counts, found = read_damaged(READERS[name], 40, random.Random(f"{name} 1"), tmp_path)
    assert found == []
    assert counts["refused"] > 0 or name in ("training log", "earlier results")  # of which whole lines are read
    assert counts["files"] == 40 == sum(counts.values()) - 40


@pytest.mark.parametrize("name", REQUESTS)
def test_damaged_requests_are_answered_or_refused_with_a_sentence(name: str, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    counts, found = read_damaged(REQUESTS[name], 40, random.Random(f"{name} 1"), tmp_path)
    assert found == []
    assert counts["refused"] > 0


def test_a_reader_that_leaks_or_takes_anything_is_noticed(tmp_path: Path) -> None:
    leaky = READERS["PA"]._replace(read=lambda path: json.loads(path.read_bytes()))
    counts, found = read_damaged(leaky, 40, random.Random(0), tmp_path)
    assert counts["leaked"] == len(found) > 0
    careless = READERS["model"]._replace(read=lambda path: path.read_bytes()[-4:])
    counts, found = read_damaged(careless, 40, random.Random(0), tmp_path)
    assert counts["silent"] == len(found) > 0


def test_every_fault_changes_the_content() -> None:
    content = b'{"number": 12, "word": "abc"}' * 20
    for fault in FAULTS:
        assert any(fault(content, random.Random(seed)) != content for seed in range(5))
    assert damage(b"", random.Random(0)) != b""


@pytest.mark.slow
def test_killed_trainings_ranks_and_writers_and_full_disks_lose_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.harness", "--kills", "10", "--runs", "1", "--files", "0"]
    command += ["--seed", "1", "--progress", str(tmp_path / "progress.jsonl"), "--out", str(tmp_path / "outcomes.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = json.loads((tmp_path / "outcomes.json").read_text("utf-8"))
    assert outcomes["problems"] == []
    for name in (*KINDS, "one of two ranks"):
        assert outcomes["kills"][name]["kills"] >= 1
        assert outcomes["kills"][name]["same"] >= 1
    assert all(outcomes["conditions"][name]["runs"] == 1 for name in conditions.CONDITIONS)


def test_a_writer_that_is_not_atomic_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "write_atomically", Path.write_bytes)
    assert any(conditions.two_writers(random.Random(seed), tmp_path)[1] for seed in range(20))


def test_an_interrupted_harness_continues_and_counts_every_unit_once(tmp_path: Path) -> None:
    seen: list[float] = []

    def unit(chance: random.Random, folder: Path) -> Outcome:
        if len(seen) == 2:
            seen.append(-1)
            raise KeyboardInterrupt
        seen.append(chance.random())
        return Counter(runs=1), ["bad"] if folder.exists() and len(seen) == 1 else []

    part = Part("group", "name", unit, "runs", 4)
    with pytest.raises(KeyboardInterrupt):
        run(part, 3, tmp_path / "progress.jsonl")
    assert run(part, 3, tmp_path / "progress.jsonl") == (Counter(runs=4), ["name, unit 0: bad"])
    assert len(seen) == len(set(seen)) == 5


def test_the_outcomes_that_are_committed_are_of_all_parts_and_without_problems() -> None:
    outcomes = json.loads(OUTCOMES.read_text("utf-8"))
    assert set(outcomes["files"]) == set(READERS)
    assert set(outcomes["requests"]) == set(REQUESTS)
    assert set(outcomes["conditions"]) == set(conditions.CONDITIONS)
    assert set(KINDS) < set(outcomes["kills"])
    assert outcomes["problems"] == []
    assert not [name for part in outcomes["kills"].values() for name in part if name == "other"]


def test_the_table_of_the_documentation_is_that_of_the_outcomes() -> None:
    outcomes = json.loads(OUTCOMES.read_text("utf-8"))
    assert make_table(outcomes) in (ROOT / "docs" / "reliability.md").read_text("utf-8")
