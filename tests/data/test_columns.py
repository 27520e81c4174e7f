from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sttau.data.columns import join, read_blocks
from sttau.errors import DataError

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
