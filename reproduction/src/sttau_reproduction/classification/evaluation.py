"""Evaluation of a trained network: all metrics, and the predictions that are kept.

Probabilities are (samples, sequences, classes): those of single Monte Carlo samples or of the members of an ensemble;
one sample for deterministic networks. A prediction is their mean. Errors, calibration errors and areas are in percent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sttau.calibration import TemperatureScaling, to_logits
from sttau.data import SequenceDataset
from sttau.data.text import encode, tokenize
from sttau.inference import features, predict
from sttau.layers import SAMPLED_MODES, VariationalDropoutLSTM
from sttau.metrics import (
    area_under_risk_coverage,
    brier_score,
    calibration_error,
    calibration_error_intervals,
    classwise_calibration_error,
    detection,
    negative_log_likelihood,
    prediction_error,
)
from sttau.models import Predictor
from sttau.ood import SCORES, FeatureDistance, max_probability_score
from sttau.training import Update
from sttau_reproduction.classification.dropout_sweep import METRICS, RATES, key
from sttau_reproduction.classification.figures import SENTENCES
from sttau_reproduction.classification.predictions import Arrays
from sttau_reproduction.classification.splits import Splits, lengths_of, predict_probabilities

_RESAMPLES = 1000
_OVER_RUNS = ("variance", "mutual-information")  # scores that a single run has not
_AREAS = ("aupr", "auroc", "fpr95")
_FITTED = 5000  # training sequences that distances are taken from
_NORMAL = 0  # the class of a normal heartbeat


class Evaluation(NamedTuple):
    """What comes out: metrics, and arrays for figures."""

    metrics: dict[str, float]
    arrays: Arrays


def draws(model: Predictor) -> bool:
    """Whether two predictions with different seeds differ."""
    return model.resolve_mode(None) in SAMPLED_MODES


def measure(probabilities: Tensor, labels: Tensor) -> dict[str, float]:
    """The eight metrics of Tables 1 and 3.

    Args:
        probabilities: (sequences, classes).
        labels: (sequences,) true classes.

    Example:
        >>> found = measure(torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.tensor([0, 1]))
        >>> found["pe"], round(found["ece"], 3)
        (50.0, 45.0)
    """
    p = probabilities
    likely = p.clamp_min(torch.finfo(torch.float32).tiny)  # one that underflowed is no impossibility
    wrong = (p.argmax(-1) != labels).to(torch.float64)
    return {
        "pe": 100 * prediction_error(p, labels),
        "ece": 100 * calibration_error(p, labels),
        "mce": 100 * calibration_error(p, labels, norm="maximum"),
        "adaptive_ece": 100 * calibration_error(p, labels, binning="mass"),
        "classwise_ece": 100 * classwise_calibration_error(p, labels),
        "nll": negative_log_likelihood(likely, labels),
        "brier": brier_score(p, labels),
        "aurc": 100 * area_under_risk_coverage(max_probability_score(p), wrong),
    }


def detect(familiar: Tensor, ood: Tensor) -> dict[str, float]:
    """Areas and error rates of OOD detection by each score.

    Args:
        familiar: (samples, sequences, classes) probabilities of in-distribution sequences.
        ood: (samples, others, classes) probabilities of OOD sequences.

    Example:
        >>> found = detect(torch.tensor([[[0.9, 0.1], [0.8, 0.2]]]), torch.tensor([[[0.5, 0.5], [0.85, 0.15]]]))
        >>> found["max_probability_auroc"], "variance_auroc" in found
        (75.0, False)
    """
    metrics = {}
    for name, score in SCORES.items():
        if len(familiar) > 1 or name not in _OVER_RUNS:
            found = detection(score(familiar), score(ood))
            for what in _AREAS:
                metrics[f"{name.replace('-', '_')}_{what}"] = 100 * getattr(found, what)
    return metrics


def detect_by_distance(model: Predictor, splits: Splits, inside: dict[str, Tensor], samples: int) -> dict[str, float]:
    """The same for the distance of what the network has made of a sequence from what it made of training data."""
    if not inside:
        return {}

    def read(data: SequenceDataset, rows: Tensor) -> Tensor:
        lengths = lengths_of(data)
        return features(
            model, data.inputs[rows.to(data.inputs.device)], None if lengths is None else lengths[rows], samples
        )

    train = splits.train
    rows = torch.randperm(len(train), generator=torch.Generator().manual_seed(0))[:_FITTED]
    distance = FeatureDistance().fit(read(train, rows), train.labels[rows])
    metrics: dict[str, float] = {}
    for out, data in splits.ood.items():
        found = detection(
            distance.score(read(splits.test, inside[out])), distance.score(read(data, torch.arange(len(data))))
        )
        metrics |= {f"{out}_feature_distance_{what}": 100 * getattr(found, what) for what in _AREAS}
    return metrics


def choose_in_distribution(sequences: int, ood: dict[str, SequenceDataset]) -> dict[str, Tensor]:
    """As many rows of the test data as there are OOD sequences, a seeded choice, for each OOD data set."""
    return {
        out: torch.randperm(sequences, generator=torch.Generator().manual_seed(place))[: len(data)].sort().values
        for place, (out, data) in enumerate(ood.items())
    }


def evaluate(
    model: Predictor,
    splits: Splits,
    log: Sequence[Update],
    *,
    samples: int,
    runs: int,
    first: bool,
    reads: bool,
    sweeps: bool = True,
) -> Evaluation:
    """Evaluate a trained network on everything.

    Args:
        model: Network to evaluate.
        splits: Data of the experiment.
        log: Log of its training.
        samples: Monte Carlo samples per prediction.
        runs: Number of predictions with different seeds, where they differ.
        first: Whether it is the network's first seed, of which more is kept.
        reads: Whether predictions after every step are kept too.
        sweeps: Whether a first seed with variational dropout is evaluated under other rates too.
    """
    test, labels = splits.test, splits.test.labels
    runs = runs if draws(model) else 1
    validation = predict_probabilities(model, splits.validation, samples)
    held_out, answered = splits.validation.labels, validation.mean(0)
    scaling = TemperatureScaling().fit(to_logits(validation), held_out)
    inside = choose_in_distribution(len(test), splits.ood)
    every: list[dict[str, float]] = []
    arrays: Arrays = {}
    metrics: dict[str, float] = {}
    for run in range(runs):
        drawn = predict_probabilities(model, test, samples, run)
        p = drawn.mean(0)
        scaled = measure(scaling.probabilities(to_logits(drawn)), labels)
        found = measure(p, labels) | {f"scaled_{name}": value for name, value in scaled.items()}
        for out, data in splits.ood.items():
            rows, ood = inside[out], predict_probabilities(model, data, samples, run)
            found |= {f"{out}_{name}": value for name, value in detect(drawn[:, rows], ood).items()}
            found[f"{out}_accuracy"] = 100 * (1 - prediction_error(p[rows], labels[rows]))
            if run == 0:
                arrays |= _ood_arrays(out, rows, drawn[:, rows], ood)
        every.append(found)
        if run == 0:
            arrays |= {"probabilities": _floats(p), "labels": labels.numpy().astype(np.uint8)}
            for norm, interval in calibration_error_intervals(p, labels, resamples=_RESAMPLES).items():
                name = {"expected": "ece", "maximum": "mce"}[norm]
                metrics |= {f"{name}_low": 100 * interval.low, f"{name}_high": 100 * interval.high}
    metrics |= _over_runs(every) | detect_by_distance(model, splits, inside, samples)
    metrics |= {
        f"validation_{name}": value for name, value in measure(answered, held_out).items() if name in _VALIDATED
    }
    metrics |= {
        "scaling_temperature": scaling.temperature,
        "parameters": float(sum(p.numel() for p in model.parameters() if p.requires_grad)),
        **_history(model, log),
    }
    if first:
        metrics |= sweep(model, test, samples) if sweeps else {}
        arrays |= {
            "validation_probabilities": _floats(answered),
            "validation_labels": held_out.numpy().astype(np.uint8),
            "scaling_temperature": np.array(scaling.temperature),
        }
        if model.members[0].layer.num_states is not None:
            arrays["tau"] = np.array([(u.number, u.temperature[0]) for u in log], dtype=np.float32)
        if reads:
            arrays |= read_along(model, splits, torch.from_numpy(arrays["probabilities"]), samples)
    return Evaluation(metrics, arrays if first else {})


_VALIDATED = ("pe", "ece", "nll")


def _over_runs(every: Sequence[dict[str, float]]) -> dict[str, float]:
    """Means over prediction runs, and standard deviations where there are several."""
    names = every[0]
    metrics = {name: mean(found[name] for found in every) for name in names}
    if len(every) > 1:
        metrics |= {f"{name}_std": stdev(found[name] for found in every) for name in names}
    return metrics


def _history(model: Predictor, log: Sequence[Update]) -> dict[str, float]:
    """How training went: updates made, the update whose weights were taken, and where τ ended up."""
    found = {"updates": float(log[-1].number)}
    validated = [(u.validation, u.number) for u in log if u.validation is not None]
    if validated:
        found["best_update"] = float(min(validated)[1])  # of equals the first was taken
    layer = model.members[0].layer
    if getattr(layer, "learn_temperature", False):
        found["tau"] = float(layer.temperature.detach().flatten()[0])
    return found


def _ood_arrays(out: str, rows: Tensor, familiar: Tensor, ood: Tensor) -> Arrays:
    arrays: Arrays = {f"inside_{out}": rows.numpy().astype(np.int32), out: _floats(ood.mean(0))}
    if len(familiar) > 1:
        arrays[f"inside_{out}_variance"] = _floats(SCORES["variance"](familiar))
        arrays[f"{out}_variance"] = _floats(SCORES["variance"](ood))
    return arrays


def sweep(model: Predictor, test: SequenceDataset, samples: int) -> dict[str, float]:
    """Errors under other dropout rates at prediction time; nothing for a network that is trained without dropout."""
    layer = model.members[0].layer
    if len(model.members) > 1 or not isinstance(layer, VariationalDropoutLSTM):
        return {}
    metrics: dict[str, float] = {}
    with _rate_put_back(layer):
        for rate in RATES:
            layer.dropout = rate
            found = measure(predict_probabilities(model, test, samples).mean(0), test.labels)
            metrics |= {key(rate, name): found[name] for name in METRICS}
    return metrics


@contextmanager
def _rate_put_back(layer: VariationalDropoutLSTM) -> Iterator[None]:
    rate = layer.dropout
    try:
        yield
    finally:
        layer.dropout = rate


def read_along(model: Predictor, splits: Splits, probabilities: Tensor, samples: int) -> Arrays:
    """What the network thinks after every step of a few sequences.

    Of features, a normal test sequence that it reads rightly and one that it reads wrongly, by their row numbers; of
    words, sentences of our own.

    Returns:
        ``reading`` (samples, examples, time, classes), and ``reading_rows`` or ``reading_words``.
    """
    test, arrays = splits.test, {}
    if test.vocabulary is None:
        right = probabilities.argmax(-1) == test.labels
        fine = torch.nonzero(right & (test.labels == _NORMAL)).flatten()
        wrong = torch.nonzero(~right).flatten()
        chosen = [int(rows[0]) if len(rows) else other for rows, other in ((fine, 0), (wrong, len(test) - 1))]
        rows = torch.tensor(chosen)
        inputs, lengths = test.inputs[rows.to(test.inputs.device)], lengths_of(test.select(rows))
        arrays["reading_rows"] = rows.numpy().astype(np.int32)
    else:
        inputs, lengths = encode(SENTENCES, test.vocabulary)
        words = [tokenize(sentence) for sentence in SENTENCES]
        arrays["reading_words"] = np.array([line + [""] * (inputs.shape[1] - len(line)) for line in words])
    answer = predict(model, inputs, lengths, samples, per_step=True, keep_samples=True)
    return arrays | {"reading": _floats(answer.samples)}


def _floats(values: Tensor) -> npt.NDArray[Any]:
    return values.cpu().numpy().astype(np.float32)
