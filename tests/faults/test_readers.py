"""A reader is added to a copy of the list of readers."""

from __future__ import annotations

import random
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.extension import replace_once
from tests.faults import readers
from tests.faults.harness import read_damaged

NEW_READER = '''"""Durations in seconds, one per line."""

from pathlib import Path

from sttau.errors import DataError


def read_durations(path: Path) -> list[float]:
    """Return the numbers of a file."""
    try:
        return [float(line) for line in path.read_text("utf-8").splitlines()]
    except ValueError as error:
        raise DataError(f"{path.name} holds something else than numbers: {error}") from None
'''
ENTRY = '    "durations": Reader(lambda path: path.write_text("1.5\\n20\\n3\\n"), read_durations),\n'


def load_module(path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a file under its name for the time of a test."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("careful", [True, False], ids=["errors of the library", "any errors"])
def test_a_new_reader_is_one_module_its_import_and_one_line(
    careful: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are damaged like those of all others, and errors that are not the library's are noticed."""
    module, listed = tmp_path / "durations.py", tmp_path / "listed_readers.py"
    module.write_text(NEW_READER if careful else NEW_READER.replace("except ValueError", "except OSError"), "utf-8")
    listed.write_text(Path(readers.__file__).read_text("utf-8"), "utf-8")
    replace_once(listed, "import sttau\n", "import sttau\nfrom durations import read_durations\n")
    replace_once(listed, '    "model": Reader', ENTRY + '    "model": Reader')
    load_module(module, monkeypatch)
    reader = load_module(listed, monkeypatch).READERS["durations"]
    counts, found = read_damaged(reader, 40, random.Random(0), tmp_path)
    assert counts["files"] == 40
    assert (counts["refused"] > 0, counts["leaked"] > 0, bool(found)) == (careful, not careful, not careful)
