"""Text as token ids: a small tokenizer, vocabularies, and padding.

A token is a run of letters and digits, or a single other sign that is not white space. Letters are made lower case
and the line break of web pages, ``<br />``, counts as white space. So “It's GREAT!<br />” is ``it ' s great !``.
Nothing is stemmed or left out, and nothing has to be downloaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

PADDING, UNKNOWN = "<pad>", "<unk>"
START = "^"  # begins every string of a formal language, so that the empty string is a sequence too
#: To be raised whenever the same text gives other tokens: what was cached before is then made again.
TOKENIZER_VERSION = 1

_TOKEN = re.compile(r"[^\W_]+|[^\w\s]|_")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def tokenize(text: str) -> list[str]:
    """Return the tokens of a text.

    Example:
        >>> tokenize("It's GREAT!<br />10/10")
        ['it', "'", 's', 'great', '!', '10', '/', '10']
    """
    if "<" in text:
        text = _BREAK.sub(" ", text)
    return _TOKEN.findall(text.lower())


def split_words(text: str) -> list[tuple[str, str]]:
    """Return the tokens of a text as they are written, each with the white space before it.

    Where lower case changes the tokens, as it does for a few letters, they are returned in lower case.

    Example:
        >>> split_words("It's GREAT!")
        [('', 'It'), ('', "'"), ('', 's'), (' ', 'GREAT'), ('', '!')]
    """
    written = _BREAK.sub(" ", text)
    found = list(_TOKEN.finditer(written))
    tokens = tokenize(text)
    if [match.group().lower() for match in found] != tokens:
        return [(" " if place else "", token) for place, token in enumerate(tokens)]
    ends = [0, *(match.end() for match in found)]
    return [(written[end : match.start()], match.group()) for end, match in zip(ends, found, strict=False)]


class TokenTable(NamedTuple):
    """Many texts as numbers, one after the other: what vocabularies are counted on and sequences cut from."""

    numbers: npt.NDArray[np.int32]  # (tokens,) positions in words
    lengths: npt.NDArray[np.int64]  # (texts,)
    words: list[str]  # in the order they first came up


def tabulate(texts: Iterable[str]) -> TokenTable:
    """Tokenize many texts at once.

    Example:
        >>> table = tabulate(["a b a", "b c"])
        >>> table.numbers.tolist(), table.lengths.tolist(), table.words
        ([0, 1, 0, 1, 2], [3, 2], ['a', 'b', 'c'])
    """
    known = _Numbering()
    rows = [np.fromiter(map(known.__getitem__, tokens), np.int32, len(tokens)) for tokens in map(tokenize, texts)]
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    numbers = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int32)
    return TokenTable(numbers, lengths, list(known))


class _Numbering(dict[str, int]):
    """A dictionary that gives every new word the next number."""

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


def build_vocabulary(texts: Iterable[str], size: int = 5000) -> tuple[str, ...]:
    """Return padding, the unknown token, and the most frequent tokens, ``size`` in all; ties in alphabetical order.

    Example:
        >>> build_vocabulary(["good good film", "bad film"], size=4)
        ('<pad>', '<unk>', 'film', 'good')
    """
    table = tabulate(texts)
    return choose_words(table.words, np.bincount(table.numbers, minlength=len(table.words)), size)


def choose_words(words: Sequence[str], counts: npt.NDArray[Any], size: int) -> tuple[str, ...]:
    """Return the vocabulary for words that were counted."""
    if size < 3:
        raise ValueError(f"size must be at least 3: padding, the unknown token and one word; got {size}")
    ranked = sorted((-int(count), word) for word, count in zip(words, counts, strict=True) if count > 0)
    return PADDING, UNKNOWN, *(word for _, word in ranked[: size - 2])


def encode(texts: Sequence[str] | str, vocabulary: Sequence[str] | None) -> tuple[Tensor, Tensor]:
    """Convert texts, or strings of a formal language, to token ids.

    A vocabulary that begins with the start token ``^`` is that of a formal language: each character is a token, and the
    start token is put in front.

    Args:
        texts: One text or several.
        vocabulary: Token of each id, as in ``SequenceDataset.vocabulary``.

    Returns:
        Token ids (texts, time), int32, zero beyond each length; and the lengths (texts,).

    Example:
        >>> ids, lengths = encode(["good film", "good grief, good"], ("<pad>", "<unk>", "film", "good"))
        >>> ids.tolist(), lengths.tolist()
        ([[3, 2, 0, 0], [3, 1, 1, 3]], [2, 4])
        >>> encode("0110", ("^", "0", "1"))[0].tolist()
        [[0, 1, 2, 2, 1]]
    """
    if vocabulary is None or len(vocabulary) == 0:
        raise ValueError(
            "vocabulary is missing: pass that of the training data (data.vocabulary), or keep it in the model with "
            "model.set_metadata(data)"
        )
    texts = [texts] if isinstance(texts, str) else texts
    _check_texts(texts)
    if len(texts) == 0:
        raise ValueError("texts are empty; expected at least one")
    if vocabulary[0] == START:
        return _encode_symbols(texts, vocabulary)
    table = tabulate(texts)
    if 0 in table.lengths:
        where = int(np.flatnonzero(table.lengths == 0)[0])
        raise ValueError(f"texts must have at least one word each, but text {where} is {texts[where]!r}; leave it out")
    return pad(number_words(table.words, vocabulary)[table.numbers], table.lengths)


def _check_texts(texts: Any) -> None:
    """Raise, with the place, where there is something other than strings."""
    if not isinstance(texts, Iterable) or isinstance(texts, bytes):
        raise TypeError(f"texts must be a string or a list of strings, got {type(texts).__name__}")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts must be strings, but text {number} is {text!r}; leave it out, or pass str(…) of it")


def _encode_symbols(strings: Sequence[str], vocabulary: Sequence[str]) -> tuple[Tensor, Tensor]:
    ids = {symbol: number for number, symbol in enumerate(vocabulary)}
    for string in strings:
        unknown = [symbol for symbol in string if symbol not in ids]
        if unknown:
            raise ValueError(f"string {string!r} has the symbol {unknown[0]!r}, which is not in {tuple(vocabulary)}")
    numbers = [number for string in strings for number in (0, *(ids[symbol] for symbol in string))]
    return pad(np.array(numbers), np.array([len(string) + 1 for string in strings]))


def number_words(words: Sequence[str], vocabulary: Sequence[str]) -> npt.NDArray[Any]:
    """Return the id of each word, that of the unknown token where the vocabulary does not have it."""
    ids = {word: number for number, word in enumerate(vocabulary)}
    missing = [word for word in words if word not in ids]
    if missing and UNKNOWN not in ids:
        raise ValueError(
            f"the vocabulary of {len(vocabulary)} tokens has no {missing[0]!r} and no {UNKNOWN!r} to stand for it; "
            "make one with sttau.data.build_vocabulary"
        )
    unknown = ids.get(UNKNOWN, 0)
    kind = np.int16 if len(vocabulary) <= np.iinfo(np.int16).max else np.int32
    return np.array([ids.get(word, unknown) for word in words], dtype=kind)


def pad(numbers: npt.NDArray[Any], lengths: npt.NDArray[Any]) -> tuple[Tensor, Tensor]:
    """Cut numbers that follow one another into rows, zero beyond each length: (rows, longest) int32, and the lengths.

    Example:
        >>> pad(np.array([7, 8, 9]), np.array([1, 2]))[0].tolist()
        [[7, 0], [8, 9]]
    """
    rows = np.zeros((len(lengths), int(lengths.max(initial=0))), dtype=np.int32)  # half the memory of int64
    ends = np.cumsum(lengths)
    for row, end, length in zip(rows, ends.tolist(), lengths.tolist(), strict=True):
        row[:length] = numbers[end - length : end]
    return torch.from_numpy(rows), torch.from_numpy(lengths.astype(np.int64))


def find_repeats(table: TokenTable) -> npt.NDArray[np.int64]:
    """Return for each text the position of the first one with the same tokens: its own, where it is the first.

    Example:
        >>> find_repeats(tabulate(["a b", "c", "A  b"])).tolist()
        [0, 1, 0]
    """
    first: dict[bytes, int] = {}
    ends = np.cumsum(table.lengths)
    starts = (ends - table.lengths).tolist()
    return np.array(
        [
            first.setdefault(table.numbers[start:end].tobytes(), row)
            for row, (start, end) in enumerate(zip(starts, ends.tolist(), strict=True))
        ],
        dtype=np.int64,
    )
