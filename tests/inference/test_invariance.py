"""The prediction of a sequence has the same bits whatever it is predicted with, as docs/reliability.md promises.

``python -m tests.inference.test_invariance`` counts the comparisons and writes ``invariance.json``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import sttau
from sttau.models import Predictor

COUNTS = Path(__file__).with_name("invariance.json")
SAMPLES = 7

#: Models of which the promise is made: float32, sampled, with at least 4 rows at a time.
PROMISED: dict[str, Callable[[], Predictor]] = {
    "ST-τ LSTM": lambda: sttau.SequenceClassifier(sttau.STTauLSTM(3, 16, 5), 4),
    "ST-τ LSTM, hard": lambda: sttau.SequenceClassifier(sttau.STTauLSTM(3, 16, 5, mode="hard"), 4),
    "ST-τ GRU": lambda: sttau.SequenceClassifier(sttau.STTauGRU(3, 16, 5), 4),
    "Bayesian LSTM": lambda: sttau.SequenceClassifier(sttau.BayesLSTM(3, 16), 4),
    "variational dropout": lambda: sttau.SequenceClassifier(sttau.VariationalDropoutLSTM(3, 16), 4),
}
OTHERS: dict[str, Callable[[], Predictor]] = {
    "nn.LSTM, one row at a time too": lambda: sttau.SequenceClassifier(nn.LSTM(3, 16, batch_first=True), 4),
    "nn.GRU, one row at a time too": lambda: sttau.SequenceClassifier(nn.GRU(3, 16, batch_first=True), 4),
    "ST-τ GRU, exact": lambda: sttau.SequenceClassifier(sttau.STTauGRU(3, 16, 5, mode="exact"), 4),
    "ST-τ LSTM, regressor with a variance": lambda: sttau.SequenceRegressor(sttau.STTauLSTM(3, 16, 5), 1),
    "ST-τ LSTM, float64": lambda: sttau.SequenceClassifier(sttau.STTauLSTM(3, 16, 5), 4).double(),
}


def compare(make: Callable[[], Predictor]) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield pairs of values that should have the same bits, with what was changed between them."""
    torch.manual_seed(0)
    model, batch = make(), 37
    x, lengths = torch.randn(batch, 9, 3, dtype=model.dtype), torch.randint(1, 10, (batch,))

    def fields(x: Tensor, lengths: Tensor, **options: Any) -> list[Tensor]:
        p = sttau.predict(model, x, lengths, samples=SAMPLES, seed=3, **options)
        return [p.mean, p.total, p.aleatoric, p.epistemic]

    whole = fields(x, lengths)
    for size in (1, 2, 3, 4, 5, 8, 16, 20, 36):
        order = torch.randperm(batch)
        padded = torch.cat([x, torch.randn(batch, size, 3, dtype=model.dtype)], dim=1)
        changed: dict[str, tuple[list[Tensor], Any]] = {
            "split": (fields(x[:size], lengths[:size]), slice(size)),
            "shuffle": (fields(x[order], lengths[order]), order),
            "padding": (fields(padded, lengths), slice(None)),
            "chunks": (fields(x, lengths, chunk_size=SAMPLES * size), slice(None)),
        }
        for name, (found, rows) in changed.items():
            for one, two in zip(found, whole, strict=True):
                yield name, one, two[rows]


def count(make: Callable[[], Predictor]) -> dict[str, float]:
    """Return the number of comparisons, of those with the same bits, and the largest difference."""
    counts, largest = Counter[str](), 0.0
    for _, one, two in compare(make):
        counts["comparisons"] += 1
        counts["same bits"] += torch.equal(one, two)
        largest = max(largest, float((one - two).abs().max()))
    return {**counts, "largest difference": largest}


@pytest.mark.parametrize("name", PROMISED)
def test_splitting_shuffling_padding_and_chunking_change_no_bit(name: str) -> None:
    assert [what for what, one, two in compare(PROMISED[name]) if not torch.equal(one, two)] == []


@pytest.mark.parametrize("name", OTHERS)
def test_where_bits_may_differ_it_is_by_rounding(name: str) -> None:
    for what, one, two in compare(OTHERS[name]):
        torch.testing.assert_close(one, two, rtol=0, atol=2e-6, msg=what)


def test_the_counts_that_are_committed_are_in_the_documentation() -> None:
    counts = json.loads(COUNTS.read_text("utf-8"))
    page = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text("utf-8")
    assert set(counts) == {*PROMISED, *OTHERS}
    for name, part in counts.items():
        row = f"| {name} | {part['comparisons']} | {part['same bits']} | {part['largest difference']:.0e} |"
        assert row in page
    assert all(counts[name]["comparisons"] == counts[name]["same bits"] for name in PROMISED)


if __name__ == "__main__":
    torch.set_num_threads(1)
    found = {name: count(make) for name, make in (PROMISED | OTHERS).items()}
    COUNTS.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
