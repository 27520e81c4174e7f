"""A small part of the faults, and the outcomes of all of them: nothing silent, nothing leaked, nothing lost."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.faults.harness import OUTCOMES, read_damaged
from tests.faults.mutations import FAULTS, damage
from tests.faults.readers import READERS


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_refused_or_read_and_nothing_else(name: str, tmp_path: Path) -> None:
    counts, found = read_damaged(name, READERS[name], 40, 1, tmp_path)
    assert found == []
    assert counts["refused"] > 0 or name == "training log"  # of which whole lines are read
    assert sum(counts.values()) == 40


def test_a_reader_that_leaks_or_takes_anything_is_noticed(tmp_path: Path) -> None:
    leaky = READERS["PA"]._replace(read=lambda path: json.loads(path.read_bytes()))
    counts, found = read_damaged("leaky", leaky, 40, 0, tmp_path)
    assert counts["leaked"] == len(found) > 0
    careless = READERS["model"]._replace(read=lambda path: path.read_bytes()[-4:])
    counts, found = read_damaged("careless", careless, 40, 0, tmp_path)
    assert counts["silent"] == len(found) > 0


def test_every_fault_changes_the_content() -> None:
    content = b'{"number": 12, "word": "abc"}' * 20
    for fault in FAULTS:
        assert any(fault(content, random.Random(seed)) != content for seed in range(5))
    assert damage(b"", random.Random(0)) != b""


def test_the_outcomes_that_are_committed_are_of_all_readers_and_without_problems() -> None:
    outcomes = json.loads(OUTCOMES.read_text("utf-8"))
    assert set(outcomes["files"]) == set(READERS)
    assert outcomes["problems"] == []
    assert "other" not in outcomes["killed trainings"]
