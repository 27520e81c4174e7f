"""Evaluating a model on labeled data: every metric with its interval, per class, and what abstention achieves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sttau.data import SequenceDataset
from sttau.errors import DataError
from sttau.inference import Prediction, RegressionPrediction, predict
from sttau.metrics import Interval
from sttau.metrics.calibration_error import ReliabilityCurve, reliability_curve
from sttau.metrics.conformal import LEVEL
from sttau.metrics.registry import COLUMNS
from sttau.metrics.rows import Rows, metric_rows
from sttau.metrics.statistics.intervals import metric_intervals
from sttau.models import Predictor
from sttau.models.decisions import clopper_pearson


class ClassScore(NamedTuple):
    """How well one class is predicted."""

    name: str
    support: int  # test sequences of this class
    recall: float  # share of them that is predicted as this class; NaN where there is none
    precision: float  # share of the predictions of this class that is right; NaN where there is none


class Acceptance(NamedTuple):
    """What remains when uncertain predictions are withheld."""

    coverage: float  # share of predictions that is accepted
    error: float  # error rate of the accepted ones (of a regressor: mean squared error); NaN where there is none
    wanted: str  # the goal of the threshold


@dataclass(frozen=True)
class Evaluation:
    """A model evaluated on labeled data.

    Attributes:
        data: Name of the data set.
        count: Number of sequences.
        metrics: Value and interval by column, in percent for columns in percent.
        classes: Score of every class; empty for regression.
        acceptance: Result of abstention; None for a model without a threshold.
        ood_rate: Share of the sequences that is called OOD; None for a model without a threshold.
        reliability: Confidence and accuracy of the predictions, in 10 bins; None for regression.
        prediction: The predictions, on the CPU.
    """

    data: str
    count: int
    metrics: dict[str, Interval]
    classes: list[ClassScore]
    acceptance: Acceptance | None
    ood_rate: float | None
    reliability: ReliabilityCurve | None
    prediction: Prediction | RegressionPrediction

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return header and rows of all metrics."""
        rows = []
        for name, interval in self.metrics.items():
            column = COLUMNS[name]
            shown = [f"{value:.{column.digits}f}" for value in (interval.value, interval.low, interval.high)]
            rows.append([column.heading, shown[0], f"{shown[1]} to {shown[2]}"])
        if self.acceptance is not None:
            kind = "error % when not abstaining" if self.classes else "squared error when not abstaining"
            error = 100 * self.acceptance.error if self.classes else self.acceptance.error
            rows.append(["accepted %", f"{100 * self.acceptance.coverage:.1f}", self.acceptance.wanted])
            rows.append([kind, "none accepted" if math.isnan(error) else f"{error:.3g}", ""])
        if self.ood_rate is not None:
            rows.append(["called OOD %", f"{100 * self.ood_rate:.1f}", ""])
        return ["metric", "value", "95 % interval"], rows

    def class_table(self) -> tuple[list[str], list[list[str]]]:
        """Return header and rows of all classes."""
        rows = [
            [one.name, f"{one.support:,}", f"{100 * one.recall:.1f}", f"{100 * one.precision:.1f}"]
            for one in self.classes
        ]
        return ["class", "support", "recall %", "precision %"], rows

    def reliability_table(self) -> tuple[list[str], list[list[str]]]:
        """Return header and rows of the reliability curve: confidence and accuracy in bins that hold predictions."""
        curve = self.reliability
        if curve is None:
            return [], []
        rows = [
            [f"{low:.1f} to {high:.1f}", f"{int(count):,}", f"{100 * confidence:.1f}", f"{100 * accuracy:.1f}"]
            for low, high, count, confidence, accuracy in zip(
                curve.edges[:-1], curve.edges[1:], curve.count, curve.confidence, curve.accuracy, strict=True
            )
            if count > 0
        ]
        return ["confidence", "count", "mean confidence %", "accuracy %"], rows


def evaluate(model: Predictor, data: SequenceDataset, samples: int = 10, seed: int = 0) -> Evaluation:
    """Evaluate a model on labeled data.

    Args:
        model: A classifier or regressor, or an ensemble.
        data: Test data with known targets.
        samples: Monte Carlo samples per member.
        seed: Seed of the sampling noise and of the bootstrap.

    Example:
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> from sttau.data import load
        >>> model = SequenceClassifier(STTauLSTM(8, 16, num_states=4), num_classes=10)
        >>> result = evaluate(model, load("digits", "test"))
        >>> result.count, sorted(result.metrics)
        (359, ['aurc', 'brier', 'ece', 'mce', 'nll', 'pe'])
    """
    unknown = data.labels < 0 if data.class_names else data.labels.isnan()
    if bool(unknown.any()):
        raise DataError(
            f"{data.name} has {int(unknown.sum()):,} sequences without a known target; evaluation needs all of them"
        )
    prediction: Any = predict(model, data, samples=samples, seed=seed, keep_samples=model.task == "regression").cpu()
    if model.task == "classification":
        labels = data.labels.long().cpu()
        rows = metric_rows("classification", prediction.mean, labels)
        losses = (prediction.label != labels).double()
    else:
        labels = data.labels.double().reshape(len(data), -1).cpu()
        rows = metric_rows("regression", *prediction.mixture(), labels)
        losses = (prediction.mean - labels).square().mean(-1)
    rows |= {} if model.decisions is None else set_rows(prediction, labels)
    intervals = metric_intervals({"": [rows]}, len(data), resamples=1000, level=0.95, seed=seed)
    metrics = {name: interval for (_, name), interval in intervals.items()}
    if model.task == "classification":
        metrics["pe"] = _error_interval(int(losses.sum()), len(data))
    return Evaluation(
        data=data.name,
        count=len(data),
        metrics=metrics,
        classes=_classes(prediction, labels, model.class_names) if model.task == "classification" else [],
        acceptance=_acceptance(model, prediction, losses),
        ood_rate=None if model.decisions is None or model.decisions.ood is None else _share(prediction.is_ood),
        reliability=reliability_curve(prediction.mean, labels) if model.task == "classification" else None,
        prediction=prediction,
    )


def _error_interval(errors: int, count: int, level: float = 0.95) -> Interval:
    """The exact interval of an error rate, in percent; a bootstrap without any error would end at 0."""
    one_sided = (1 + level) / 2
    low = 1 - clopper_pearson(count - errors, count, one_sided)
    return Interval(100 * errors / count, 100 * low, 100 * clopper_pearson(errors, count, one_sided), level)


def set_rows(prediction: Prediction | RegressionPrediction, targets: Tensor) -> Rows:
    """Return the rows of coverage and size of conformal sets, or intervals, of a calibrated model's predictions.

    Args:
        prediction: Predictions, on the CPU.
        targets: (sequences,) labels, or (sequences, outputs) values.
    """
    if isinstance(prediction, Prediction):
        sets = prediction.prediction_set(LEVEL)
        return metric_rows("sets", sets.gather(1, targets[:, None])[:, 0].double(), sets.sum(1))
    low, high = prediction.interval(LEVEL)
    held = ((targets >= low) & (targets <= high)).all(-1).double()
    return metric_rows("sets", held, (high - low).double().mean(-1))


def _share(mask: Tensor) -> float:
    return float(mask.double().mean())


def _acceptance(model: Predictor, prediction: Any, losses: Tensor) -> Acceptance | None:
    threshold = None if model.decisions is None else model.decisions.abstention
    if threshold is None:
        return None
    accepted = ~prediction.abstain
    return Acceptance(_share(accepted), float(losses[accepted].mean()), f"{threshold.goal} {threshold.wanted:g}")


def _classes(prediction: Prediction, labels: Tensor, names: tuple[str, ...]) -> list[ClassScore]:
    scores = []
    for number in range(prediction.mean.shape[-1]):
        true, predicted = labels == number, prediction.label == number
        right = float((true & predicted).sum())
        count, called = int(true.sum()), int(predicted.sum())
        scores.append(
            ClassScore(
                names[number] if names else str(number),
                count,
                right / count if count else torch.nan,
                right / called if called else torch.nan,
            )
        )
    return scores


__all__ = ["Acceptance", "ClassScore", "Evaluation", "evaluate"]
