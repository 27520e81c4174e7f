"""Files that clients send: read as the model's training data were, predicted, and evaluated."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import torch

from sttau.data import SequenceDataset, read
from sttau.errors import DataError
from sttau.evaluation import evaluate
from sttau.inference import Prediction, predict
from sttau.metrics import reliability_curve, risk_coverage_curve
from sttau.models import Predictor
from sttau.predictions import prediction_rows
from sttau.serve.bodies import Sampling, TooLargeError, plain
from sttau.serve.settings import Settings

ENDINGS = (".csv", ".tsv", ".jsonl", ".txt")
_POINTS = 400  # of a curve


def read_upload(model: Predictor, content: bytes, name: str, settings: Settings) -> SequenceDataset:
    """Return the series of a file that a client sent.

    Args:
        model: Model with the schema of its training data.
        content: Content of the file.
        name: Name of the file, whose ending is its format.
        settings: Limits.
    """
    if model.schema is None:
        raise DataError("the model reads no files: it does not know the columns of its training data")
    ending = Path(name).suffix.lower()
    if ending not in ENDINGS:
        raise DataError(f"the name of the file must end in {', '.join(ENDINGS)}")
    with tempfile.TemporaryDirectory(prefix="sttau-") as folder:
        path = Path(folder) / f"file{ending}"
        path.write_bytes(content)
        try:
            data = read(path, like=model, max_bytes=64 * settings.max_bytes)
        except (OSError, ValueError, TypeError) as error:
            raise DataError(hide_paths(str(error), folder)) from None
    steps = data.inputs.shape[1] if len(data) else 0
    if len(data) > settings.max_sequences:
        raise TooLargeError(f"a file must have at most {settings.max_sequences} series, got {len(data)}")
    if steps > settings.max_steps:
        raise TooLargeError(f"a series must have at most {settings.max_steps} steps, got {steps}")
    return data


def hide_paths(message: str, folder: str = "") -> str:
    """Return a message without the names of folders.

    Example:
        >>> hide_paths("/tmp/sttau-x/file.csv: no rows", "/tmp/sttau-x"), hide_paths("see /etc/passwd: no")
        ('file.csv: no rows', 'see passwd: no')
    """
    text = message.replace(f"{folder}/", "") if folder else message
    return re.sub(r"(?<![\w/])(?:/[\w.\-]+)+/(?=[\w.\-])", "", text)


def predict_data(
    model: Predictor, data: SequenceDataset, sampling: Sampling, level: float, settings: Settings
) -> dict[str, Any]:
    """Return what was understood of some data, and its predictions as a table."""
    check_work(data, sampling, settings)
    found = predict(model, data, samples=sampling.samples, seed=sampling.seed, mode=sampling.mode)
    names = list(data.ids) if data.ids is not None else [str(number) for number in range(1, len(data) + 1)]
    rows = prediction_rows(found, names, level)
    return plain({"summary": data.summary(), "columns": list(rows[0]) if rows else [], "rows": rows})


def check_work(data: SequenceDataset, sampling: Sampling, settings: Settings) -> None:
    """Refuse what would take too long."""
    if sampling.samples > settings.max_samples:
        raise TooLargeError(f"samples must be at most {settings.max_samples}, got {sampling.samples}")
    if not len(data):
        raise DataError("the file has no series")
    work = data.inputs.shape[1] * sampling.samples
    if work > settings.max_sequence_work or work * len(data) > settings.max_work:
        raise TooLargeError("the file is too large for one request: send fewer series, or fewer samples")


def evaluate_data(model: Predictor, data: SequenceDataset, sampling: Sampling, settings: Settings) -> dict[str, Any]:
    """Return metrics with intervals, and the curves that show how sure to be.

    Series without a known target are not evaluated; they are shown as a group of their own, in the histogram of
    uncertainty.
    """
    check_work(data, sampling, settings)
    known = data.labels >= 0 if data.class_names else ~data.labels.reshape(len(data), -1).isnan().any(1)
    if not bool(known.any()):
        raise DataError("the file has no series with a known target; add the column of targets")
    unknown = data.select(~known) if not bool(known.all()) else None
    result = evaluate(model, data.select(known), sampling.samples, sampling.seed)
    header, rows = result.table()
    class_header, class_rows = result.class_table()
    labels = data.labels[known]
    answer: dict[str, Any] = {
        "data": data.name,
        "count": result.count,
        "metrics": {"header": header, "rows": rows},
        "classes": {"header": class_header, "rows": class_rows},
        "abstention": None if model.decisions is None else _threshold(model.decisions.abstention),
        "ood_threshold": None if model.decisions is None else _threshold(model.decisions.ood),
    }
    prediction = result.prediction
    if isinstance(prediction, Prediction):
        labels = labels.long()
        wrong = (prediction.label != labels).double()
        answer |= {
            "reliability": _reliability(prediction, labels),
            "per_class": [
                _reliability(prediction, labels, number) | {"name": name}
                for number, name in enumerate(row[0] for row in class_rows)
            ],
            "sets": _set_sizes(prediction, labels),
            "entropies": {
                "in_distribution": _values(prediction.total),
                "unknown": [] if unknown is None else _values(_total(model, unknown, sampling)),
            },
        }
    else:
        wrong = (prediction.mean - labels.double().reshape(len(labels), -1)).square().mean(-1)
    return plain(answer | {"risk_coverage": _risk_coverage(prediction, wrong)})


def _threshold(threshold: Any) -> float | None:
    return None if threshold is None else float(threshold.value)


def _total(model: Predictor, data: SequenceDataset, sampling: Sampling) -> torch.Tensor:
    found: Any = predict(model, data, samples=sampling.samples, seed=sampling.seed)
    return found.total  # type: ignore[no-any-return]


def _values(values: torch.Tensor) -> list[float]:
    return [round(value, 5) for value in values.double().tolist()]


def _reliability(prediction: Prediction, labels: torch.Tensor, number: int | None = None) -> dict[str, Any]:
    """Accuracy against confidence in ten bins: of all predictions, or of those of one class."""
    mean, truth = prediction.mean, labels
    if number is not None:
        rows = prediction.label == number
        mean, truth = mean[rows], labels[rows]
    if not len(truth):
        return {"count": [], "confidence": [], "accuracy": []}
    curve = reliability_curve(mean, truth)
    return {name: getattr(curve, name).tolist() for name in ("count", "confidence", "accuracy")}


def _risk_coverage(prediction: Any, losses: torch.Tensor) -> dict[str, Any]:
    curve = risk_coverage_curve(prediction.uncertainty, losses)
    order = prediction.uncertainty.sort().values
    chosen = torch.linspace(0, len(order) - 1, min(_POINTS, len(order))).round().long().unique()
    ranks = (torch.as_tensor(curve.coverage) * len(order)).round().long() - 1
    places = torch.searchsorted(ranks, chosen).clamp(max=len(ranks) - 1).unique()
    return {
        "coverage": torch.as_tensor(curve.coverage)[places].tolist(),
        "risk": torch.as_tensor(curve.risk)[places].tolist(),
        "threshold": order[ranks[places]].tolist(),
    }


def _set_sizes(prediction: Prediction, labels: torch.Tensor) -> list[dict[str, float]]:
    """Mean size and coverage of conformal sets at several levels."""
    if prediction.decisions is None:
        return []
    found = []
    for level in (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99):
        sets = prediction.prediction_set(level)
        held = sets.gather(1, labels[:, None])
        found.append(
            {"level": level, "size": float(sets.sum(1).double().mean()), "coverage": float(held.double().mean())}
        )
    return found
