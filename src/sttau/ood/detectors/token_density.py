"""How improbable a text is under an n-gram model of the training texts."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sttau.checks import as_integer
from sttau.models import Predictor
from sttau.models.base import UNKNOWN
from sttau.ood.detector import Detector

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_DISCOUNT = 0.75


class TokenDensity(Detector):
    """Mean surprise per token, in nats, under an n-gram model of the training texts.

    It reads the input alone, not the network, and so sees another source of texts where a network that was trained to
    classify does not. The n-gram model is interpolated, with absolute discounting (Ney et al., 1994). It knows where a
    text begins, and n-grams of the first tokens have counts of their own, interpolated with those of whole texts.
    From the surprise of each token that of the word alone is subtracted, so that the score is a log-likelihood ratio
    (Ren et al., 2019): a text of rare words is not OOD if they are as probable in their contexts as in training texts.
    An unknown word costs log ``unknown_words`` more than its token, as if that many unknown words were equally
    probable. The mean does not grow with the length of a text, though it varies more in short ones. It is for texts
    from their beginning: a passage from elsewhere looks unusual, unless ``beginning`` is None. Counts are kept with the
    model: about 12 bytes per distinct n-gram.

    Args:
        order: Largest number of consecutive tokens that are counted.
        unknown_words: Number of words that the vocabulary is assumed to lack.
        samples: Unused; there is nothing to sample.
        seed: Unused.
        beginning: Number of first tokens with counts of their own. With None there are none, and the place in the text
            is not known.
        relative: Whether the surprise of the words alone is subtracted.

    Example:
        >>> from torch import nn
        >>> from sttau import SequenceClassifier
        >>> model = SequenceClassifier(nn.LSTM(4, 4), num_classes=2, embedding=nn.Embedding(10, 4))
        >>> train = torch.tensor([[2, 3, 4, 5]] * 20)
        >>> detector = TokenDensity(order=2).fit(model, train)
        >>> known, shuffled = detector.score(model, [[2, 3, 4, 5], [5, 2, 4, 3]])
        >>> bool(known < shuffled)
        True
    """

    name = "token-density"
    largest = None
    absent: ClassVar[dict[str, Any]] = {"beginning": None, "relative": False}  # before it knew of beginnings

    def __init__(
        self,
        order: int = 3,
        unknown_words: float = 100.0,
        samples: int = 10,
        seed: int = 0,
        beginning: int | None = 32,
        relative: bool = True,
    ) -> None:
        super().__init__(samples, seed)
        self.order = as_integer("order", order, 1)
        if not (math.isfinite(unknown_words) and unknown_words >= 1):
            raise ValueError(f"unknown_words must be at least 1, got {unknown_words}")
        self.unknown_words = float(unknown_words)
        self.beginning = None if beginning is None else as_integer("beginning", beginning, 1)
        self.relative = relative

    def settings(self) -> dict[str, Any]:
        """Return the order, the number of unknown words, that of first tokens, and whether the score is relative."""
        return {
            "order": self.order,
            "unknown_words": self.unknown_words,
            "beginning": self.beginning,
            "relative": self.relative,
        }

    def check(self, model: Predictor) -> None:
        """Refuse models of features, and orders whose n-grams cannot be numbered."""
        if not model.reads_tokens:
            raise ValueError("token-density needs a model of token ids; this one reads features")
        if self._base(model) ** self.order >= 2**63:
            raise ValueError(f"order={self.order} is too large for {_vocabulary(model):,} tokens; use a smaller order")

    def _base(self, model: Predictor) -> int:
        """The number of different tokens in n-grams: with what stands before the first one of a text."""
        return _vocabulary(model) + (self.beginning is not None)

    def _parts(self) -> dict[str, int | None]:
        """The suffixes of the tables of an order, and how many first tokens each of them is about."""
        return {"": None} if self.beginning is None else {"": None, "_beginning": self.beginning}

    def _grams(self, row: Integers, order: int, base: int) -> Integers:
        """The n-grams of a text: that of every token, or without beginnings of those that have enough before them."""
        if self.beginning is not None:
            row = np.concatenate([np.full(order - 1, base - 1), row])
        numbers = np.zeros(max(0, len(row) - order + 1), dtype=np.int64)
        for place in range(order):
            numbers = numbers * base + row[place : place + len(numbers)]
        return numbers

    def _fit(self, model: Predictor, inputs: Tensor, lengths: Tensor | None, labels: Tensor | None) -> None:
        tokens, base = _rows(inputs, lengths), self._base(model)
        self.tensors = {}
        for order in range(1, self.order + 1):
            for part, end in self._parts().items():
                found = np.concatenate([self._grams(row[:end], order, base) for row in tokens])
                grams, counts = np.unique(found, return_counts=True)
                self.tensors[f"grams{order}{part}"] = torch.from_numpy(grams)
                self.tensors[f"counts{order}{part}"] = torch.from_numpy(counts.astype(np.int32))

    def _score(self, model: Predictor, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        base, penalty = self._base(model), math.log(self.unknown_words)
        orders = range(1, self.order + 1)
        tables = [
            (order, end, self._table(order, part, base)) for order in orders for part, end in self._parts().items()
        ]
        scores = []
        for row in _rows(inputs, lengths):
            chances, alone = self._probabilities(row, tables, base, _vocabulary(model))
            surprise = penalty * (row == UNKNOWN) - np.log(chances / alone if self.relative else chances)
            scores.append(float(surprise.mean()))
        return torch.tensor(scores, dtype=torch.float64)

    def _probabilities(
        self, row: Integers, tables: list[tuple[int, int | None, _Table]], base: int, size: int
    ) -> tuple[Floats, Floats]:
        """The probability of every token given those before it, and that of the word alone in whole texts."""
        p = np.full(len(row), 1 / size)
        alone = p
        for order, end, table in tables:
            grams = self._grams(row, order, base)
            begin = len(row) - len(grams)  # tokens with too few before them keep the probability of the order below
            grams = grams[:end]
            place = slice(begin, begin + len(grams))
            p = p.copy()
            p[place] = table.interpolate(grams, base, p[place])
            if order == 1 and end is None:
                alone = p
        return p, alone

    def _table(self, order: int, part: str, base: int) -> _Table:
        grams, counts = (self.tensors[f"{name}{order}{part}"].cpu().numpy() for name in ("grams", "counts"))
        contexts, place = np.unique(grams // base, return_inverse=True)
        return _Table(grams, counts, contexts, np.bincount(place, counts), np.bincount(place))


class _Table:
    """N-grams of one order in ascending order, their contexts, and the counts and distinct n-grams of each context."""

    def __init__(self, grams: Integers, counts: Any, contexts: Integers, totals: Any, kinds: Any) -> None:
        self.grams, self.counts, self.contexts, self.totals, self.kinds = grams, counts, contexts, totals, kinds

    def interpolate(self, grams: Integers, base: int, lower: Floats) -> Floats:
        """The probability of the last tokens given those before them, from that of the table below."""
        place = np.searchsorted(self.grams, grams).clip(max=len(self.grams) - 1)
        count = np.where(self.grams[place] == grams, self.counts[place], 0)
        context = np.searchsorted(self.contexts, grams // base).clip(max=len(self.contexts) - 1)
        seen = self.contexts[context] == grams // base
        total, kinds = self.totals[context], self.kinds[context]
        known = (np.maximum(count - _DISCOUNT, 0) + _DISCOUNT * kinds * lower) / total
        return np.where(seen, known, lower)


def _rows(inputs: Tensor, lengths: Tensor | None) -> list[Integers]:
    """The tokens of every text, without padding."""
    tokens = inputs.cpu().numpy().astype(np.int64)
    return list(tokens) if lengths is None else [row[:end] for row, end in zip(tokens, lengths.tolist(), strict=True)]


def _vocabulary(model: Predictor) -> int:
    embedding = model.members[0].embedding
    assert embedding is not None
    return int(embedding.num_embeddings)


DETECTOR = TokenDensity
