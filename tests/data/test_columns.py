from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sttau.data import read
from sttau.data.columns import join, read_blocks
from sttau.errors import DataError
from tests.data.tables import FORMS, LONG, write

CELLS = st.text(st.sampled_from("ab1.5 ;,\"\n\r'é"), max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(
    rows=st.lists(st.tuples(st.just("x"), CELLS, CELLS), min_size=1, max_size=8),
    end=st.sampled_from(["\n", "\r\n"]),
    size=st.integers(1, 9),
)
def test_cells_are_those_of_the_csv_module(tmp_path: Path, rows: list[tuple[str, ...]], end: str, size: int) -> None:
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator=end)
    table.writerows([("a", "b", "c"), *rows])
    expected = [tuple(row) for row in csv.reader(io.StringIO(text.getvalue(), newline=""))][1:]
    assume(all(len(row) == 3 for row in expected))  # the module's writer does not quote every "\r"
    path = tmp_path / "t.csv"
    path.write_bytes(text.getvalue().encode())
    blocks = list(read_blocks(path, lambda names: dict.fromkeys(names, True), size))
    read = join("t.csv", blocks)
    assert list(zip(*read.columns.values(), strict=True)) == expected
    assert sum(block.rows for block in blocks) == len(expected)


@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_row_with_too_few_cells_is_named_by_its_line(tmp_path: Path, quote: str, size: int) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"a,b\n1,2\n\n{quote}3{quote},4\n5\n6,7\n", "utf-8")
    with pytest.raises(DataError, match=r"t\.csv has 1 cells in line 5, but 2 columns \(a, b\)"):
        list(read_blocks(path, lambda names: dict.fromkeys(names, True), size))


def test_an_index_and_numbers_as_names_of_columns_are_a_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(",0,1,2\n0,5,6,7\n", "utf-8")
    block = next(read_blocks(path, lambda names: dict.fromkeys(names, False)))
    assert {name: list(column) for name, column in block.columns.items()} == {"0": [5.0], "1": [6.0], "2": [7.0]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"sequence,x,label\n1,2,3\n4,5\n", r"t\.csv has 2 cells in line 3, but 3 columns"),
        ("t.csv", b"x,x\n1,2\n", "has more than one column 'x'"),
        ("t.csv", b"sequence,x,label\n", "holds no rows"),
        ("t.csv", b"", "holds no rows"),
        ("t.csv", "text,label\ncaf\u00e9,1\n".encode("latin-1"), "is not text in UTF-8"),
        ("t.jsonl", b'{"x": 1}\n\n{"x": \n', "has no valid JSON in row 2"),
        ("t.jsonl", b"[1, 2]\n", "has a list in row 1; expected an object"),
        ("t.parquet", b"PAR1 and then nothing", "cannot be read as Parquet"),
        ("t.npz", b"PK nothing", r"cannot be read as a \.npz"),
        ("t.xlsx", b"", r"must end in \.csv, \.tsv, \.jsonl, \.parquet, \.txt or \.npz"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(path)


def test_without_pyarrow_the_extra_is_named_and_all_else_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [write(tmp_path / f"t{form}", LONG) for form in FORMS]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r'pip install "sttau\[parquet\]"'):
        read(paths[-1])
    assert all(len(read(path)) == 2 for path in paths[:-1])


def test_files_that_grow_when_they_are_read_are_refused(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "t.parquet"
    columns = {"id": np.zeros(200_000, np.int8), "x": np.zeros(200_000), "label": np.zeros(200_000, np.int8)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    assert path.stat().st_size < 20_000
    with pytest.raises(DataError, match=r"t\.parquet would take .* \(its columns\).*max_bytes="):
        read(path, max_bytes=1 << 20)
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(f'{{"k{number}": 1}}' for number in range(5000)), "utf-8")
    with pytest.raises(DataError, match=r"t\.jsonl has 5,000 different keys in 5,000 rows"):
        read(path)
