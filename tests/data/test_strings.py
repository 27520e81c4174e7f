from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from sttau.automata import read_strings
from sttau.data import load
from sttau.data.strings import as_dataset
from sttau.errors import DataError
from sttau.languages import accepts, tomita


def test_strings_give_the_data_set_of_the_registry() -> None:
    known = load("tomita3", "train")
    strings = [
        "".join("01"[t - 1] for t in row[1:n]) for row, n in zip(known.inputs.tolist(), known.lengths, strict=True)
    ]
    data = as_dataset(strings, accepts(tomita(3), strings), "01")
    assert torch.equal(data.inputs, known.inputs)
    assert torch.equal(data.lengths, known.lengths)
    assert torch.equal(data.labels, known.labels)
    assert data.vocabulary == known.vocabulary


def test_the_start_token_is_not_a_symbol() -> None:
    with pytest.raises(ValueError, match="start token"):
        as_dataset(["^"], torch.ones(1), "^a")


@pytest.mark.parametrize("separator", [" ", "\t", ",", "; "])
def test_strings_are_read_with_their_labels(separator: str, tmp_path: Path) -> None:
    file = tmp_path / "strings.txt"
    file.write_text(f"label{separator}string\n1{separator}abab\nreject{separator}b\n+\n0{separator.strip()}\n", "utf-8")
    data = read_strings(file)
    assert data.vocabulary == ("^", "a", "b")
    assert data.lengths.tolist() == [5, 2, 1, 1]
    assert data.labels.tolist() == [1, 0, 1, 0]
    assert read_strings(file, "abc").vocabulary == ("^", "a", "b", "c")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("aa\nbb\n", "has no labels"),
        ("", "has no labels"),
        ("1 a\nx b\n", r"line 2: the label 'x' must be one of 1, \+"),
        ("1 a\n0 b c\n", "line 2: the string 'b c' contains a separator"),
        ("1 \n", "only empty strings"),
    ],
)
def test_wrong_lines_are_named(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "strings.txt").write_text(text, "utf-8")
    with pytest.raises(DataError, match=problem):
        read_strings(tmp_path / "strings.txt")


@pytest.mark.parametrize("labels", [[1, 0], [[1], [0], [1]], [0.2, 1.0, 5.0]])
def test_labels_are_0_or_1_for_each_string(labels: Any) -> None:
    """Regression: fewer labels gave a shorter data set, and other values were rounded."""
    with pytest.raises(ValueError, match="labels must be 0 or 1, one for each of the 3 strings"):
        as_dataset(["0", "1", "00"], labels, "01")
