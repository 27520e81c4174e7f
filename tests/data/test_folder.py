"""A folder of files is read as one table."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sttau.data import read, read_chunks
from sttau.data.folder import table_files
from sttau.errors import DataError

_ROWS = ["a,1,0.5,u", "a,2,1.5,u", "b,1,2.5,v", "b,2,3.5,v", "c,1,4.5,u"]
_HEADER = "id,time,mv,label"


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    path = tmp_path / "whole.csv"
    path.write_text("\n".join([_HEADER, *_ROWS]) + "\n")
    return path


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, rows in (("1.csv", _ROWS[:3]), ("2.csv", _ROWS[3:])):  # series b goes on in the second file
        (folder / name).write_text("\n".join([_HEADER, *rows]) + "\n")
    (folder / "_SUCCESS").write_text("")
    return folder


@pytest.mark.parametrize("mapped", [False, True])
def test_a_folder_is_read_as_its_files_joined(whole: Path, parts: Path, tmp_path: Path, mapped: bool) -> None:
    one = read(whole)
    two = read(parts, memory_map=tmp_path / "map" if mapped else None)
    assert torch.equal(one.inputs, two.inputs)
    assert torch.equal(one.labels, two.labels)
    assert one.ids == two.ids
    assert two.name == "parts"
    assert "2 files, 5 rows" in two.provenance


def test_chunks_of_a_folder_go_across_its_files(whole: Path, parts: Path) -> None:
    train = read(whole)
    chunks = list(read_chunks(parts, like=train, rows=2))
    assert [id_ for chunk in chunks for id_ in chunk.ids or ()] == ["a", "b", "c"]
    assert torch.cat([chunk.lengths for chunk in chunks]).tolist() == [2, 2, 1]


def test_files_with_other_columns_are_named(parts: Path) -> None:
    (parts / "3.csv").write_text("id,time,kv,label\nd,1,2,u\n")
    with pytest.raises(DataError, match=r"3\.csv and 1\.csv .* only one of them has column 'kv'"):
        read(parts)


def test_files_with_another_decimal_separator_are_named(parts: Path) -> None:
    (parts / "3.csv").write_text("id;time;mv;label\nd;1;2,5;u\n")
    with pytest.raises(DataError, match=r"3\.csv and 1\.csv write decimals differently"):
        read(parts)


def test_a_fault_in_a_part_names_the_part(parts: Path) -> None:
    (parts / "3.csv").write_text(f"{_HEADER}\nd,1,2\n")
    with pytest.raises(DataError, match=r"3\.csv has 3 cells in line 2"):
        read(parts)


def test_folders_that_are_no_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file at"):
        table_files(tmp_path / "nothing")
    with pytest.raises(DataError, match="a folder without files"):
        table_files(tmp_path)
    (tmp_path / "1.csv").write_text("id,mv\na,1\n")
    (tmp_path / "notes.md").write_text("notes")
    with pytest.raises(DataError, match=r"several formats \(\.csv, \.md\)"):
        table_files(tmp_path)
    (tmp_path / "notes.md").unlink()
    (tmp_path / "1.csv").rename(tmp_path / "1.npz")
    with pytest.raises(DataError, match=r"1\.npz must end"):
        read(tmp_path)
