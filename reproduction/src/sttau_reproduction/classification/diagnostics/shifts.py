"""Metrics under other weights of the test sequences: other class frequencies, and resampled patients.

No new prediction is needed: a metric is a function of weighted rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from sttau.data.heartbeats import INTER_PATIENT, PUBLISHED
from sttau.data.source import data_folders, find
from sttau.metrics import METRICS
from sttau_reproduction.classification.diagnostics.corruptions import SEVERITIES
from sttau_reproduction.resampling import RESAMPLES, central_interval, resample_groups

#: Metrics, and the factors that they are shown with.
SHOWN: Mapping[str, float] = {"pe": 100.0, "ece": 100.0, "nll": 1.0}


def weighted_metrics(probabilities: Tensor, labels: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """Error and ECE in percent and NLL, (rounds,) each.

    Args:
        probabilities: (sequences, classes).
        labels: (sequences,) true classes.
        weights: (rounds, sequences).

    Example:
        >>> p, labels = torch.tensor([[0.9, 0.1], [0.8, 0.2]]), torch.tensor([0, 1])
        >>> weighted_metrics(p, labels, torch.tensor([[1.0, 1.0], [3.0, 1.0]]))["pe"].tolist()
        [50.0, 25.0]
    """
    likely = probabilities.clamp_min(torch.finfo(torch.float32).tiny)
    found = {}
    for name, factor in SHOWN.items():
        metric = METRICS[name].per_example
        assert metric is not None
        weighted = metric.weighted(metric.rows(likely if name == "nll" else probabilities, labels))
        found[name] = factor * weighted(weights.double())
    return found


def class_shift(labels: Tensor, classes: int, severity: int) -> Tensor:
    """(sequences,) weights under which class frequencies move from those of the data to others, reached at severity 5.

    Of several classes all are equally frequent in the end; of two the second is nine times as frequent as the first.

    Example:
        >>> class_shift(torch.tensor([0, 0, 0, 1, 2]), 3, 5).tolist()
        [0.5555555555555556, 0.5555555555555556, 0.5555555555555556, 1.6666666666666665, 1.6666666666666665]
    """
    share = torch.bincount(labels, minlength=classes).double() / len(labels)
    end = torch.tensor([0.1, 0.9] if classes == 2 else [1 / classes] * classes, dtype=torch.float64)
    wanted = (1 - severity / 5) * share + severity / 5 * end
    return (wanted / share.clamp_min(1 / len(labels)))[labels]


def measure_class_shift(probabilities: Tensor, labels: Tensor) -> dict[str, float]:
    """Metrics under each severity of a shift in class frequencies, as ``classes_{severity}_{metric}``."""
    weights = torch.stack([class_shift(labels, probabilities.shape[1], severity) for severity in SEVERITIES])
    found = weighted_metrics(probabilities, labels, weights)
    return {
        f"classes_{severity}_{name}": float(values[place])
        for name, values in found.items()
        for place, severity in enumerate(SEVERITIES)
    }


def records_of(data: str, ids: Sequence[str] | None) -> Tensor | None:
    """(sequences,) number of the record, one patient each, that a test heartbeat is from; None where it is not known.

    Beats of ``bih_inter_patient`` are named by their records. The published files of ``bih`` do not tell; the compact
    form of them, made from the records, has ``record_test``.
    """
    if data == INTER_PATIENT.name and ids is not None:
        return torch.tensor([int(name.partition("/")[0]) for name in ids])
    there = find(PUBLISHED, data_folders()) if data == PUBLISHED.name else None
    for path in () if there is None else there[1]:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                if "record_test" in arrays:
                    return torch.from_numpy(arrays["record_test"].astype(np.int64))
    return None


def patient_intervals(probabilities: Tensor, labels: Tensor, records: Tensor) -> dict[str, float]:
    """95 % intervals of the metrics when patients are resampled, and when single heartbeats are."""
    found = {"patients": float(len(records.unique()))}
    for name, groups in (("patient", records), ("beat", torch.arange(len(records)))):
        drawn: dict[str, list[Tensor]] = {key: [] for key in SHOWN}
        weights = resample_groups(groups, RESAMPLES if name == "patient" else RESAMPLES // 5)
        for part in weights.split(50):
            for key, values in weighted_metrics(probabilities, labels, part).items():
                drawn[key].append(values)
        for key, parts in drawn.items():
            low, high = central_interval(torch.cat(parts))
            found |= {f"{name}_{key}_low": low, f"{name}_{key}_high": high}
    return found
