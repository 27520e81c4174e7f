from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
import torch

from sttau.data import SequenceDataset, read, read_chunks
from sttau.data.chunks import _cuts
from sttau.errors import DataError


def write(folder: Path, rows: list[str], name: str = "t.csv", header: str = "id,t,x,color,label") -> Path:
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return path


LENGTHS = [3, 1, 7, 2, 2, 5, 1, 1, 9, 4]
ROWS = [
    f"s{series},{length - step},{series + step**2 / 8},{'red' if step % 2 else 'blue'},{series % 2}"
    for series, length in enumerate(LENGTHS)
    for step in range(length)
]


def same_series(whole: SequenceDataset, chunks: list[SequenceDataset]) -> None:
    assert [name for chunk in chunks for name in chunk.ids or ()] == list(whole.ids or ())
    assert torch.equal(torch.cat([chunk.lengths for chunk in chunks]), whole.lengths)
    assert torch.equal(torch.cat([chunk.labels for chunk in chunks]), whole.labels)
    places = iter(range(len(whole)))
    for chunk in chunks:
        assert (chunk.class_names, chunk.feature_names) == (whole.class_names, whole.feature_names)
        for row in range(len(chunk)):
            assert torch.equal(chunk[row].inputs, whole[next(places)].inputs)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 100, None])
@pytest.mark.parametrize("form", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_chunks_hold_the_same_series_as_the_whole_file(tmp_path: Path, form: str, rows: int | None) -> None:
    train = read(write(tmp_path, ROWS))
    path = tmp_path / f"new{form}"
    names = ["id", "t", "x", "color", "label"]
    cells = [row.split(",") for row in ROWS]
    if form == ".parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(
            pyarrow.table(dict(zip(names, map(list, zip(*cells, strict=True)), strict=True))), path
        )
    elif form == ".jsonl":
        path.write_text("\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in cells), "utf-8")
    else:
        path.write_text("\n".join(("\t" if form == ".tsv" else ",").join(row) for row in [names, *cells]), "utf-8")
    same_series(read(path, like=train), list(read_chunks(path, like=train, rows=rows)))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_wide_tables_texts_and_strings_are_read_in_chunks(tmp_path: Path, rows: int) -> None:
    wide = write(tmp_path, ["1,2,3,u", "4,5,,v", "7,8,9,u"], header="x0,x1,x2,label")
    data = read(wide)
    same_series(data, list(read_chunks(wide, like=data, rows=rows)))
    texts = write(tmp_path, ["a fine film,u", "dull,v", "so so,u"], "texts.csv", header="text,label")
    data = read(texts)
    same_series(data, list(read_chunks(texts, like=data, rows=rows)))
    strings = write(tmp_path, ["\t0", "b\t1"], "words.txt", header="ab\t1")
    data = read(strings)
    same_series(data, list(read_chunks(strings, like=data, rows=rows)))


def test_a_series_in_two_places_is_refused_with_the_remedy(tmp_path: Path) -> None:
    train = read(write(tmp_path, ROWS))
    apart = write(tmp_path, [*ROWS, "s1,9,1,red,1"], "new.csv")
    message = r"new\.csv has rows of series 's1' in several places, again in row 36; .*Sort it by 'id'"
    for rows in (2, 100):
        with pytest.raises(DataError, match=message):
            list(read_chunks(apart, like=train, rows=rows))


def test_faults_are_named_by_their_row_in_the_file(tmp_path: Path) -> None:
    train = read(write(tmp_path, ROWS))
    broken = list(ROWS)
    broken[20] = "s6,1,fast,red,0"
    chunks = read_chunks(write(tmp_path, broken, "new.csv"), like=train, rows=4)
    with pytest.raises(DataError, match="has 'fast' as 'x' in row 21; expected a number"):
        list(chunks)
    with pytest.raises(DataError, match=r"new\.csv holds no rows"):
        list(read_chunks(write(tmp_path, [], "new.csv"), like=train))
    with pytest.raises(FileNotFoundError, match="no file at"):
        read_chunks(tmp_path / "none.csv", like=train)
    with pytest.raises(ValueError, match="rows must be at least 1, got 0"):
        read_chunks(tmp_path / "new.csv", like=train, rows=0)


def test_padding_within_a_chunk_is_bounded() -> None:
    lengths = [1] * 50 + [1000] + [1] * 50
    cuts = list(_cuts(lengths, 4 * sum(lengths)))
    assert [number for first, last in cuts for number in range(first, last)] == list(range(len(lengths)))
    assert all(max(lengths[first:last]) * (last - first) <= 4 * sum(lengths) for first, last in cuts)
    assert list(_cuts([100, 1], 10)) == [(0, 1), (1, 2)]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    train = read(write(tmp_path, ROWS))

    def peak(series: int) -> int:
        rows = [f"s{number},{step},{number + step},red,1" for number in range(series) for step in range(10)]
        path = write(tmp_path, rows, "large.csv")
        del rows
        tracemalloc.start()
        count = sum(len(chunk) for chunk in read_chunks(path, like=train, rows=500))
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == series
        return highest

    small, large = peak(200), peak(1600)  # 4 and 32 chunks
    assert large < 1.5 * small
