from __future__ import annotations

import re
from pathlib import Path

import sttau

ROOT = Path(__file__).parents[1]


def test_the_citation_and_the_changelog_name_the_version() -> None:
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    assert citation is not None
    assert citation[1] == sttau.__version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == sttau.__version__


def test_the_version_is_written_in_no_project_file() -> None:
    for name in ("pyproject.toml", "reproduction/pyproject.toml"):
        assert not re.search(r"^version *=", (ROOT / name).read_text("utf-8"), re.MULTILINE), name
