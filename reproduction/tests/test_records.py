from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from sttau_reproduction.records import append_records, read_records


@pytest.mark.parametrize("name", ["notes.jsonl", "notes.jsonl.gz"])
def test_records_are_appended_and_those_before_stay_as_they_are(tmp_path: Path, name: str) -> None:
    path = tmp_path / "deep" / name
    append_records([{"date": "2026-11-15", "τ": 1.5}], path)
    before = path.read_bytes()
    append_records([{"n": 2}, {"n": 3}], path)
    assert path.read_bytes().startswith(before)
    assert read_records(path) == [{"date": "2026-11-15", "τ": 1.5}, {"n": 2}, {"n": 3}]


def test_a_compressed_file_holds_the_same_lines(tmp_path: Path) -> None:
    records = [{"question": "Does it help?", "seed": seed} for seed in range(100)]
    for name in ("plain.jsonl", "small.jsonl.gz"):
        append_records(records, tmp_path / name)
    lines = (tmp_path / "plain.jsonl").read_bytes()
    assert [json.loads(line) for line in lines.splitlines()] == records
    assert gzip.decompress((tmp_path / "small.jsonl.gz").read_bytes()) == lines
    assert (tmp_path / "small.jsonl.gz").stat().st_size < len(lines) / 5
