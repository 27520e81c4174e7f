"""How improbable a text is under an n-gram model of the training texts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sttau.checks import as_integer
from sttau.models import Predictor
from sttau.models.base import UNKNOWN
from sttau.ood.detector import Detector

Integers = npt.NDArray[np.int64]
_DISCOUNT = 0.75


class TokenDensity(Detector):
    """Mean surprise per token, in nats, under an n-gram model of the training texts.

    It reads the input alone, not the network, and so sees another source of texts where a network that was trained to
    classify does not. The n-gram model is interpolated, with absolute discounting (Ney et al., 1994). An unknown word
    costs log ``unknown_words`` more than its token, as if that many unknown words were equally probable. The mean does
    not grow with the length of a text, though it varies more in short ones. Counts are kept with the model: about 12
    bytes per distinct n-gram.

    Args:
        order: Largest number of consecutive tokens that are counted.
        unknown_words: Number of words that the vocabulary is assumed to lack.
        samples: Unused; there is nothing to sample.
        seed: Unused.

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

    def __init__(self, order: int = 3, unknown_words: float = 1e5, samples: int = 10, seed: int = 0) -> None:
        super().__init__(samples, seed)
        self.order = as_integer("order", order, 1)
        if not (math.isfinite(unknown_words) and unknown_words >= 1):
            raise ValueError(f"unknown_words must be at least 1, got {unknown_words}")
        self.unknown_words = float(unknown_words)

    def settings(self) -> dict[str, Any]:
        """Return the order, and the number of unknown words."""
        return {"order": self.order, "unknown_words": self.unknown_words}

    def check(self, model: Predictor) -> None:
        """Refuse models of features, and orders whose n-grams cannot be numbered."""
        if not model.reads_tokens:
            raise ValueError("token-density needs a model of token ids; this one reads features")
        if _vocabulary(model) ** self.order >= 2**63:
            raise ValueError(f"order={self.order} is too large for {_vocabulary(model):,} tokens; use a smaller order")

    def _fit(self, model: Predictor, inputs: Tensor, lengths: Tensor | None, labels: Tensor | None) -> None:
        tokens, size = _rows(inputs, lengths), _vocabulary(model)
        self.tensors = {}
        for order in range(1, self.order + 1):
            grams, counts = np.unique(np.concatenate([_grams(row, order, size) for row in tokens]), return_counts=True)
            self.tensors[f"grams{order}"] = torch.from_numpy(grams)
            self.tensors[f"counts{order}"] = torch.from_numpy(counts.astype(np.int32))

    def _score(self, model: Predictor, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        size, penalty = _vocabulary(model), math.log(self.unknown_words)
        tables = [self._table(order, size) for order in range(1, self.order + 1)]
        scores = []
        for row in _rows(inputs, lengths):
            surprise = -np.log(_probabilities(row, tables, size)) + penalty * (row == UNKNOWN)
            scores.append(float(surprise.mean()))
        return torch.tensor(scores, dtype=torch.float64)

    def _table(self, order: int, size: int) -> _Table:
        grams, counts = (self.tensors[f"{name}{order}"].cpu().numpy() for name in ("grams", "counts"))
        contexts, place = np.unique(grams // size, return_inverse=True)
        return _Table(grams, counts, contexts, np.bincount(place, counts), np.bincount(place))


class _Table:
    """N-grams of one order in ascending order, their contexts, and the counts and distinct n-grams of each context."""

    def __init__(self, grams: Integers, counts: Any, contexts: Integers, totals: Any, kinds: Any) -> None:
        self.grams, self.counts, self.contexts, self.totals, self.kinds = grams, counts, contexts, totals, kinds

    def interpolate(self, grams: Integers, size: int, lower: Any) -> Any:
        """The probability of the last tokens given those before them, from that of the order below."""
        place = np.searchsorted(self.grams, grams).clip(max=len(self.grams) - 1)
        count = np.where(self.grams[place] == grams, self.counts[place], 0)
        context = np.searchsorted(self.contexts, grams // size).clip(max=len(self.contexts) - 1)
        seen = self.contexts[context] == grams // size
        total, kinds = self.totals[context], self.kinds[context]
        known = (np.maximum(count - _DISCOUNT, 0) + _DISCOUNT * kinds * lower) / total
        return np.where(seen, known, lower)


def _probabilities(row: Integers, tables: list[_Table], size: int) -> Any:
    """The probability of every token given those before it."""
    p = np.full(len(row), 1 / size)
    for order, table in enumerate(tables, 1):
        if len(row) >= order:
            p[order - 1 :] = table.interpolate(_grams(row, order, size), size, p[order - 1 :])
    return p


def _grams(row: Integers, order: int, size: int) -> Integers:
    """All n-grams of a text, as numbers in base ``size``."""
    numbers = np.zeros(max(0, len(row) - order + 1), dtype=np.int64)
    for place in range(order):
        numbers = numbers * size + row[place : place + len(numbers)]
    return numbers


def _rows(inputs: Tensor, lengths: Tensor | None) -> list[Integers]:
    """The tokens of every text, without padding."""
    tokens = inputs.cpu().numpy().astype(np.int64)
    return list(tokens) if lengths is None else [row[:end] for row, end in zip(tokens, lengths.tolist(), strict=True)]


def _vocabulary(model: Predictor) -> int:
    embedding = model.members[0].embedding
    assert embedding is not None
    return int(embedding.num_embeddings)


DETECTOR = TokenDensity
