from __future__ import annotations

from pathlib import Path

import pytest

from sttau.data import read
from sttau.errors import DataError


def write(folder: Path, text: str, name: str = "words.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_strings_of_a_language_are_read_line_by_line_with_the_empty_one(tmp_path: Path) -> None:
    train = read(write(tmp_path, "ab\taccept\n\treject\r\nb\taccept\n"))
    assert train.vocabulary == ("^", "a", "b")
    assert train.inputs.tolist() == [[0, 1, 2], [0, 0, 0], [0, 2, 0]]
    assert train.lengths.tolist() == [3, 1, 2]
    assert train.class_names == ("reject", "accept")  # acceptance is class 1, as extraction expects
    assert train.labels.tolist() == [1, 0, 1]
    new = read(write(tmp_path, "ba\n\n"), like=train)
    assert (new.inputs.tolist(), new.lengths.tolist(), new.labels.tolist()) == (
        [[0, 2, 1], [0, 0, 0]],
        [3, 1],
        [-1, -1],
    )


def test_what_is_wrong_with_strings_is_said_with_the_row(tmp_path: Path) -> None:
    train = read(write(tmp_path, "ab\t1\nb\t0\n"))
    with pytest.raises(DataError, match=r"words\.txt has the symbol 'c' in row 2, which training had not: a, b"):
        read(write(tmp_path, "ab\nac\n"), like=train)
    with pytest.raises(DataError, match=r"words\.txt has no column 'label', which training needs"):
        read(write(tmp_path, "ab\nac\n"))
    with pytest.raises(DataError, match="holds the symbol '\\^', which is the start token"):
        read(write(tmp_path, "a^\t1\nb\t0\n"))
    with pytest.raises(DataError, match="holds only empty strings"):
        read(write(tmp_path, "\t1\n\t0\n"))


def test_a_column_of_strings_in_a_table_and_sentences_in_a_text_file(tmp_path: Path) -> None:
    data = read(write(tmp_path, "word,label\nab,1\n,0\n", "t.csv"), text="word", layout="strings")
    assert (data.vocabulary, data.lengths.tolist()) == (("^", "a", "b"), [3, 1])
    assert read(write(tmp_path, "word\nba\n", "new.csv"), like=data).inputs.tolist() == [[0, 2, 1]]
    sentences = read(write(tmp_path, "a fine film\tgood\ndull\tbad\n"), layout="text")
    assert sentences.lengths.tolist() == [3, 1]
