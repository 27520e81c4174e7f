from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from sttau.errors import ResultsError
from sttau.jobs import Result, earlier_results, read_results, write_results


def _result(seed: int) -> Result:
    return Result("quickstart", "digits", "st-tau", 10, seed, {"pe": 1.5}, {"updates": 3}, 0.1)


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    results = [_result(0), _result(1)]
    assert read_results(write_results(results, tmp_path / "deep" / "results.jsonl")) == results


def test_results_are_compressed_where_the_name_says_so(tmp_path: Path) -> None:
    results = [_result(seed) for seed in range(50)]
    plain, small = (write_results(results, tmp_path / name) for name in ("results.jsonl", "results.jsonl.gz"))
    assert read_results(small) == results
    assert gzip.decompress(small.read_bytes()) == plain.read_bytes()
    assert small.stat().st_size < plain.stat().st_size / 10
    assert write_results(results, tmp_path / "again.jsonl.gz").read_bytes() == small.read_bytes()


@pytest.mark.parametrize(
    "change", [lambda c: b"", lambda c: c[:-9], lambda c: b"x" + c, lambda c: c[:30] + b"????" + c[34:]]
)
def test_a_damaged_compressed_file_is_named(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    path = write_results([_result(seed) for seed in range(5)], tmp_path / "results.jsonl.gz")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ResultsError, match=r"results\.jsonl\.gz is not valid: .* Compute the results again"):
        read_results(path)
    assert earlier_results(path) == []
    assert not path.exists()


def test_a_line_holds_every_field_of_the_contract(tmp_path: Path) -> None:
    line = json.loads(write_results([_result(0)], tmp_path / "results.jsonl").read_text("utf-8"))
    contract = {
        "experiment",
        "data",
        "method",
        "states",
        "seed",
        "metrics",
        "settings",
        "versions",
        "hardware",
        "seconds",
    }
    assert set(line) == contract
    assert {"torch", "numpy", "sttau", "python"} <= set(line["versions"])


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = write_results([_result(0)], tmp_path / "results.jsonl")
    before = path.read_text("utf-8")
    broken = Result("x", "x", "x", None, 0, {"pe": 1.0}, {"bad": object()}, 0.0)
    with pytest.raises(TypeError):
        write_results([_result(1), broken], path)
    assert path.read_text("utf-8") == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_repeated_line_is_no_additional_seed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_results([_result(0), _result(1)], tmp_path / "results.jsonl")
    path.write_bytes(path.read_bytes() * 2 + b"\n  \n")
    assert read_results(path) == [_result(0), _result(1)]
    assert "results.jsonl: line 3 repeats line 1 and is left out" in caplog.text


def test_two_different_results_of_one_cell_are_refused(tmp_path: Path) -> None:
    path = write_results([_result(0), replace(_result(0), metrics={"pe": 2.0})], tmp_path / "results.jsonl")
    with pytest.raises(ResultsError, match=r"results.jsonl: lines 1 and 2 are different results of the same cell"):
        read_results(path)


WRONG = {
    "truncated": (b'{"experiment": "quick', "JSONDecodeError"),
    "not text": (b"\xff\xfe\x00", "UnicodeDecodeError"),
    "unrelated": (b'{"loss": 0.5, "number": 3}', "experiment is None"),
    "a list": (b"[1, 2]", "a result is a JSON object, not list"),
    "a word as metric": (json.dumps(asdict(_result(2)) | {"metrics": {"pe": "low"}}).encode(), "metric pe is 'low'"),
    "a word as seed": (json.dumps(asdict(_result(2)) | {"seed": "2"}).encode(), "seed is '2'"),
    "deep": (b"[" * 100_000, "RecursionError"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_line_that_is_no_result_is_named(tmp_path: Path, kind: str) -> None:
    line, message = WRONG[kind]
    path = write_results([_result(0)], tmp_path / "results.jsonl")
    path.write_bytes(path.read_bytes() + b"\n" + line)
    with pytest.raises(ResultsError, match=rf"results.jsonl, line 3 is not valid: .*{message}.*Remove the line"):
        read_results(path)


def test_whole_lines_of_a_damaged_file_are_kept_and_the_file_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "results.jsonl"
    assert earlier_results(path) == []
    write_results([_result(0), _result(1)], path)
    assert earlier_results(path) == [_result(0), _result(1)]
    damaged = path.read_bytes()[:-20]
    path.write_bytes(damaged)
    assert earlier_results(path) == [_result(0)]
    assert (tmp_path / "results.jsonl.damaged").read_bytes() == damaged
    assert not path.exists()
    assert "line 2 is not valid" in caplog.text
