"""One set of fabricated results, and one report of it, for all tests of a process."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from reproduction.tests.classification.fabricated import fabricate
from sttau.jobs import Result, read_results
from sttau_reproduction import pages
from sttau_reproduction.classification import report


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fabricate(tmp_path_factory.mktemp("paper"))


@pytest.fixture(scope="session")
def written(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The files of a report, without data at hand, with small pictures, which are drawn faster."""
    out = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STTAU_DATA", str(out / "data"))
        patch.setenv("STTAU_CACHE", str(out / "cache"))
        patch.setattr(report, "save_figure", partial(pages.save_figure, dpi=40))
        return report.write_report(folder, out)


@pytest.fixture(scope="session")
def results(folder: Path) -> list[Result]:
    return read_results(folder / "results.jsonl.gz")


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STTAU_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("STTAU_CACHE", str(tmp_path / "cache"))
