"""``sttau data``. Downloads are tested in tests/data/test_get.py, with a publisher on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from sttau.data import DATASETS
from tests.cli.invocation import check_failure, invoke


@pytest.fixture
def _no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STTAU_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("STTAU_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("_no_files")
def test_list_shows_every_data_set_and_its_location() -> None:
    shown = invoke("data", "list")
    assert shown.exit_code == 0
    rows = {line.split()[1]: line for line in shown.output.splitlines() if line.startswith("│")}
    assert list(rows) == list(DATASETS)
    assert "23,000" in rows["imdb"]
    assert "not downloaded" in rows["imdb"]
    assert "needs an account" in rows["bih"]
    assert "included in sttau" in rows["digits"]
    assert max(map(len, shown.output.splitlines())) <= 80


@pytest.mark.usefixtures("_no_files")
@pytest.mark.parametrize("name", DATASETS)
def test_info_shows_license_citation_and_origin(name: str) -> None:
    shown = invoke("data", "info", name)
    assert shown.exit_code == 0
    source = DATASETS[name].source
    for word in (source.title, source.license, source.citation, source.homepage, source.content):
        assert word in shown.output
    for form in source.forms:
        assert all(url in shown.output for url in form.urls)


@pytest.mark.parametrize("command", ["info", "get"])
def test_an_unknown_data_set_is_refused(command: str) -> None:
    check_failure(invoke("data", command, "mnist"), "name must be one of bih", code=1)


@pytest.mark.usefixtures("_no_files")
def test_get_explains_what_to_do_if_a_download_needs_an_account() -> None:
    shown = invoke("data", "get", "bih")
    assert shown.exit_code == 1
    assert "mitbih_train.csv" in shown.stderr
    assert "--path FOLDER" in shown.stderr


def test_get_succeeds_at_once_for_an_included_data_set() -> None:
    shown = invoke("data", "get", "digits")
    assert shown.exit_code == 0
    assert "digits is ready" in shown.output
    assert "CC BY 4.0" in shown.output
