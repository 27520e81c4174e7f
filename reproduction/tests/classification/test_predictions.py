"""Predictions and their summaries."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from sttau.metrics import calibration_error, reliability_curve, risk_coverage_curve
from sttau_reproduction.classification.predictions import (
    Summary,
    predictions_path,
    read_predictions,
    read_summaries,
    reduce_predictions,
    shorten_predictions,
    write_arrays,
    write_summaries,
)

RESULTS = Path(__file__).parents[2] / "results" / "paper"


def _arrays(sequences: int = 3000, classes: int = 3) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    source = np.random.default_rng(0)
    logits = source.normal(size=(sequences, classes)).astype(np.float32)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return {"probabilities": p, "labels": source.integers(classes, size=sequences)}


def _same(one: Summary, other: Summary) -> bool:
    pairs = ((getattr(one, field.name), getattr(other, field.name)) for field in fields(Summary))
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)


def test_a_summary_gives_what_the_predictions_give() -> None:
    arrays = _arrays()
    p, labels = arrays["probabilities"], arrays["labels"]
    summary = reduce_predictions(arrays)
    wrong = p.argmax(1) != labels
    assert summary.wrong.tolist() == wrong.tolist()
    assert summary.calibration.tolist() == [calibration_error(p, labels), calibration_error(p, labels, norm="maximum")]
    curve = reliability_curve(p, labels)
    for name in ("edges", "confidence", "accuracy", "count"):
        np.testing.assert_array_equal(getattr(summary.reliability, name), getattr(curve, name))
    whole = risk_coverage_curve(1 - p.max(1), wrong.astype(float))
    assert float(summary.area) == whole.area
    assert len(summary.risk) == len(summary.coverage) == 334
    np.testing.assert_allclose(np.interp(summary.coverage, whole.coverage, whole.risk), summary.risk, atol=1e-6)
    assert (summary.coverage[0], summary.coverage[-1]) == (1 / 3000, 1)


def test_samples_of_a_reading_become_mean_and_quantiles() -> None:
    samples = np.random.default_rng(1).random((11, 2, 4, 3)).astype(np.float32)
    summary = reduce_predictions(_arrays(20) | {"reading": samples, "reading_rows": np.array([3, 7])})
    np.testing.assert_allclose(summary.reading[0], samples.mean(0), rtol=1e-6)
    np.testing.assert_allclose(summary.reading[1:], np.quantile(samples, [0.1, 0.9], axis=0), rtol=1e-6)
    assert summary.reading_labels.tolist() == _arrays(20)["labels"][[3, 7]].tolist()


def test_summaries_are_written_read_and_kept_where_predictions_are_gone(tmp_path: Path) -> None:
    for name in ("lstm", "dropout"):
        write_arrays(_arrays(), predictions_path(tmp_path / "predictions", "bih", name))
    write_summaries(tmp_path)
    predictions_path(tmp_path / "predictions", "bih", "lstm").unlink()
    write_arrays(_arrays(40), predictions_path(tmp_path / "predictions", "bih", "dropout"))
    write_summaries(tmp_path)
    found = read_summaries(tmp_path)
    assert {name: int(summary.sequences) for name, summary in found.items()} == {
        ("bih", "lstm"): 3000,
        ("bih", "dropout"): 40,
    }
    assert _same(found["bih", "lstm"], reduce_predictions(_arrays()))


def test_a_shortened_file_has_test_data_alone_and_every_metric(tmp_path: Path) -> None:
    arrays = _arrays() | {"validation_labels": np.zeros(9)}
    whole = reduce_predictions(arrays)
    path = write_arrays(arrays, predictions_path(tmp_path, "bih", "lstm"))
    size = path.stat().st_size
    short = read_predictions(shorten_predictions(path).parent, "bih", "lstm")
    assert set(short) == {"probabilities", "labels"}
    assert path.stat().st_size < size
    np.testing.assert_allclose(short["probabilities"], arrays["probabilities"], atol=2**-25)
    found = reduce_predictions(short)
    assert found.wrong.tolist() == whole.wrong.tolist()
    for name in ("calibration", "chance", "bins"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), atol=1e-7, equal_nan=True)


@pytest.mark.parametrize(("data", "network"), [("bih", "lstm"), ("imdb", "state-regularized")])
def test_the_committed_summaries_follow_from_the_committed_predictions(data: str, network: str) -> None:
    arrays = read_predictions(RESULTS / "predictions", data, network)
    assert _same(reduce_predictions(arrays), read_summaries(RESULTS)[data, network])
