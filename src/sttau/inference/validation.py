"""How well a model does on validation data: what training asks from time to time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor

from sttau.checks import as_tensor
from sttau.inference.predict import predict
from sttau.models import SequenceClassifier, SequenceModel

#: Of predictions (sequences, …) and targets; every function of ``sttau.calibration`` that takes these two is one.
Metric = Callable[[Tensor, Tensor], float]


def validation(
    model: SequenceModel,
    inputs: Any,
    targets: Any,
    lengths: Any = None,
    *,
    metrics: Mapping[str, Metric] | None = None,
    samples: int = 10,
    seed: int = 0,
) -> Callable[[], dict[str, float]]:
    """Return a function that measures the model as it then is; hand it to ``training.fit`` as ``validate``.

    Args:
        model: a classifier or regressor.
        inputs: (sequences, time, features), or (sequences, time) token ids.
        targets: labels (sequences,), or numbers (sequences, outputs).
        lengths: (sequences,) valid steps.
        metrics: functions of ``predict(…).mean`` and targets, by name. By default ``nll`` (negative log-likelihood in
            nats) and ``error`` (share of wrong answers) for a classifier, ``mse`` for a regressor.
        samples: Monte-Carlo runs a sequence.
        seed: of their noise, which is the same every time.

    Example:
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> model = SequenceClassifier(STTauGRU(2, 8, num_states=3), num_classes=2)
        >>> measure = validation(model, torch.randn(6, 5, 2), torch.tensor([0, 1, 0, 1, 0, 1]))
        >>> sorted(measure())
        ['error', 'nll']
    """
    inputs = as_tensor("inputs", inputs)
    targets = model.check_targets(as_tensor("targets", targets), len(inputs)).cpu()
    chosen = dict(_usual(model) if metrics is None else metrics)
    if not chosen:
        raise ValueError("metrics must name at least one function")

    def measure() -> dict[str, float]:
        mean = predict(cast(SequenceClassifier, model), inputs, lengths, samples, seed).mean.cpu()
        return {name: float(metric(mean, targets)) for name, metric in chosen.items()}

    return measure


def _usual(model: SequenceModel) -> dict[str, Metric]:
    if isinstance(model.members[0], SequenceClassifier):
        return {"nll": _nll, "error": _error}
    return {"mse": _mse}


def _nll(mean: Tensor, targets: Tensor) -> float:
    tiny = torch.finfo(mean.dtype).tiny
    return -float(mean.gather(1, targets[:, None]).clamp_min(tiny).log().mean())


def _error(mean: Tensor, targets: Tensor) -> float:
    return float((mean.argmax(1) != targets).double().mean())


def _mse(mean: Tensor, targets: Tensor) -> float:
    return float((mean - targets).square().mean())
