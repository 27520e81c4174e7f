from __future__ import annotations

import os
from pathlib import Path

import pytest

from sttau.files import write_atomically


@pytest.mark.parametrize("where", ["write", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = write_atomically(tmp_path / "file", b"old")

    def half(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError("disk full")

    def fail(source: object, target: object) -> None:
        raise OSError("disk full")

    if where == "write":
        monkeypatch.setattr(Path, "write_bytes", half)
    else:
        monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new content")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
