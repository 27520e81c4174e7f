from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sttau.files import set_aside, write_atomically


@pytest.mark.parametrize("where", ["write", "sync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    path = write_atomically(tmp_path / "file", b"old")

    def half(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError("disk full")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    if where == "write":
        monkeypatch.setattr(Path, "write_bytes", half)
    elif where == "sync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new content")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_content_is_on_the_disk_before_the_name_and_the_name_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    sync, replace = os.fsync, os.replace

    def note_sync(descriptor: int) -> None:
        seen.append("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        sync(descriptor)

    def note_replace(source: Path, target: Path) -> None:
        seen.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)
    write_atomically(tmp_path / "file", b"content")
    assert seen == ["sync file", "rename", "sync folder"]


def test_threads_that_write_one_file_never_tear_it(tmp_path: Path) -> None:
    contents = [bytes([letter]) * 200_000 for letter in b"abcd"]

    def write(content: bytes) -> set[bytes]:
        return {write_atomically(tmp_path / "file", content).read_bytes() for _ in range(20)}

    with ThreadPoolExecutor(4) as pool:
        seen = set[bytes]().union(*pool.map(write, contents))
    assert seen <= set(contents)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_files_set_aside_one_after_the_other_are_all_kept(tmp_path: Path) -> None:
    names = [set_aside(write_atomically(tmp_path / "file", content)).name for content in (b"1", b"2", b"3")]
    assert names == ["file.damaged", "file.damaged-2", "file.damaged-3"]
    assert [(tmp_path / name).read_bytes() for name in names] == [b"1", b"2", b"3"]


def test_the_error_of_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match=r"No space left on device: '.*model.safetensors'"):
        write_atomically(tmp_path / "model.safetensors", b"new")
