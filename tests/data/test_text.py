from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sttau.data import build_vocabulary, encode, tokenize
from sttau.data.text import find_repeats, tabulate


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("  \n\t ", []),
        ("A fine film.", ["a", "fine", "film", "."]),
        ("one<br />two<BR>three<br/>four", ["one", "two", "three", "four"]),
        ("don't 10/10!!", ["don", "'", "t", "10", "/", "10", "!", "!"]),
        ("Amélie — naïve", ["amélie", "—", "naïve"]),
        ("snake_case <b>", ["snake", "_", "case", "<", "b", ">"]),
        ("映画 №1", ["映画", "№", "1"]),
    ],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


@given(st.text())
def test_tokens_hold_every_sign_that_is_not_white_space(text: str) -> None:
    tokens = tokenize(text.replace("<", " "))
    assert "".join(tokens) == "".join(text.replace("<", " ").lower().split())
    assert all(token and not token.isspace() for token in tokens)


@given(st.lists(st.text(alphabet="abc <br/>.", max_size=20), max_size=8))
def test_a_table_of_texts_is_the_texts(texts: list[str]) -> None:
    table = tabulate(texts)
    ends = table.lengths.cumsum().tolist()
    for text, end, length in zip(texts, ends, table.lengths.tolist(), strict=True):
        assert [table.words[number] for number in table.numbers[end - length : end]] == tokenize(text)
    first = find_repeats(table)
    assert [tokenize(texts[place]) for place in first.tolist()] == list(map(tokenize, texts))
    assert all(place <= row for row, place in enumerate(first.tolist()))


def test_a_vocabulary_holds_the_most_frequent_tokens_and_two_of_its_own() -> None:
    assert build_vocabulary(["b a c", "b a", "b"], size=4) == ("<pad>", "<unk>", "b", "a")
    assert build_vocabulary(["z y"], size=100) == ("<pad>", "<unk>", "y", "z")
    with pytest.raises(ValueError, match="size must be at least 3"):
        build_vocabulary(["a"], size=2)


def test_encoding_knows_one_text_and_many_and_pads_with_zero() -> None:
    vocabulary = ("<pad>", "<unk>", "film", "fine")
    ids, lengths = encode("a fine film", vocabulary)
    assert (ids.tolist(), lengths.tolist(), ids.dtype) == ([[1, 3, 2]], [3], torch.int32)
    ids, lengths = encode(["Film", "FINE film!"], vocabulary)
    assert (ids.tolist(), lengths.tolist()) == ([[2, 0, 0], [3, 2, 1]], [1, 3])


@pytest.mark.parametrize(
    ("texts", "vocabulary", "message"),
    [
        (["fine", " "], ("<pad>", "<unk>"), "text 1 is ' '; leave it out"),
        ([], ("<pad>", "<unk>"), "texts are empty"),
        ("2", ("^", "0", "1"), "has the symbol '2', which is not in"),
        ("2", ("<pad>", "0"), "has no '2' and no '<unk>' to stand for it"),
    ],
)
def test_what_cannot_be_encoded_is_refused(texts: list[str] | str, vocabulary: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(texts, vocabulary)


def test_a_large_vocabulary_keeps_its_numbers() -> None:
    vocabulary = ("<pad>", "<unk>", *map(str, range(40_000)))
    assert encode("39999", vocabulary)[0].tolist() == [[40_001]]


@pytest.mark.parametrize("vocabulary", [("<pad>", "<unk>", "film"), ("^", "0", "1")])
def test_what_is_no_text_is_refused_with_its_place(vocabulary: tuple[str, ...]) -> None:
    for texts in (None, 5, b"film"):
        with pytest.raises(TypeError, match="texts must be a string or a list of strings, got"):
            encode(texts, vocabulary)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="texts must be strings, but text 1 is None"):
        encode(["0", None], vocabulary)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="vocabulary is missing"):
        encode("film", ())
