"""Validation: how well a model does on held-out data while it is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from sttau.checks import as_integer
from sttau.inference.inputs import as_examples
from sttau.inference.predict import predict
from sttau.metrics import mean_squared_error, negative_log_likelihood, prediction_error
from sttau.models import Predictor

#: Function of predictions (sequences, …) and targets; every function of ``sttau.metrics`` that takes these two is one.
Metric = Callable[[Tensor, Tensor], float]


def validation(
    model: Predictor,
    data: Any,
    targets: Any = None,
    lengths: Any = None,
    *,
    metrics: Mapping[str, Metric] | None = None,
    samples: int = 10,
    seed: int = 0,
) -> Callable[[], dict[str, float]]:
    """Return a function that evaluates the model as it then is; ``fit`` takes it as ``validation``.

    Args:
        model: A classifier or regressor, or an ensemble.
        data: A :class:`~sttau.data.SequenceDataset`, or inputs with ``targets`` and ``lengths``.
        targets: (sequences,) labels, or (sequences, outputs) values.
        lengths: (sequences,) valid steps.
        metrics: Functions of ``predict(…).mean`` and targets, by name. By default ``nll`` (negative log-likelihood in
            nats) and ``error`` (share of wrong predictions) for a classifier, ``mse`` for a regressor.
        samples: Monte Carlo samples per member.
        seed: Seed of the sampling noise, which is the same at every validation.

    Example:
        >>> import torch
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> model = SequenceClassifier(STTauGRU(2, 8, num_states=3), num_classes=2)
        >>> measure = validation(model, torch.randn(6, 5, 2), torch.tensor([0, 1, 0, 1, 0, 1]))
        >>> sorted(measure())
        ['error', 'nll']
    """
    samples, seed = as_integer("samples", samples, 1), as_integer("seed", seed)
    inputs, targets, lengths = as_examples(model, data, targets, lengths)
    targets = targets.cpu()
    chosen = dict(_default_metrics(model) if metrics is None else metrics)
    if not chosen:
        raise ValueError("metrics must name at least one function")

    def measure() -> dict[str, float]:
        mean = predict(model, inputs, lengths, samples, seed).mean.cpu()
        return {name: float(metric(mean, targets)) for name, metric in chosen.items()}

    return measure


def as_validation(model: Predictor, given: Any) -> Callable[[], float | Mapping[str, float]]:
    """Return the function that ``fit`` calls: the given one, or the evaluation on the given data."""
    if callable(given):
        return given  # type: ignore[no-any-return]
    try:
        return validation(model, given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"validation: {error}") from error


def _default_metrics(model: Predictor) -> dict[str, Metric]:
    if model.task == "classification":
        return {"nll": partial(negative_log_likelihood, clip=True), "error": prediction_error}
    return {"mse": mean_squared_error}
