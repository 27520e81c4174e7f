"""Validation: how well a model does on held-out data while it is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from sttau.checks import as_integer
from sttau.inference.inputs import as_examples
from sttau.inference.predict import predict
from sttau.metrics import METRICS, negative_log_likelihood, prediction_error
from sttau.metrics.inputs import MEAN
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
) -> Measure:
    """Return a function that evaluates the current model, for the argument ``validation`` of ``fit``.

    Args:
        model: A classifier or regressor, or an ensemble.
        data: A :class:`~sttau.data.SequenceDataset`, or inputs with ``targets`` and ``lengths``.
        targets: (sequences,) labels, or (sequences, outputs) values.
        lengths: (sequences,) valid steps.
        metrics: Functions of ``predict(…).mean`` and targets, by name. By default ``nll`` (negative log-likelihood in
            nats) and ``error`` (share of wrong predictions) for a classifier; ``mse``, ``mae``, ``crps`` and, with a
            variance head, ``nll`` (of the mixture of all samples) for a regressor.
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
    chosen = _default_metrics(model) if metrics is None else {name: _of_mean(own) for name, own in metrics.items()}
    if not chosen:
        raise ValueError("metrics must name at least one function")
    return Measure(model, inputs, targets.cpu(), lengths, chosen, samples, seed)


@dataclass(frozen=True)
class Measure:
    """The evaluation of a model as it then is, by name of the metric."""

    model: Predictor
    inputs: Tensor
    targets: Tensor
    lengths: Tensor | None
    metrics: Mapping[str, Callable[[Any, Tensor], float]]
    samples: int
    seed: int

    def __call__(self) -> dict[str, float]:
        """Predict, and return all metrics."""
        keep = self.model.task == "regression"
        p = predict(self.model, self.inputs, self.lengths, self.samples, self.seed, keep_samples=keep).cpu()
        return {name: float(metric(p, self.targets)) for name, metric in self.metrics.items()}

    def check_metric(self, name: str | None) -> None:
        """Raise an error if there is no metric of this name; None stands for the only one."""
        if name in self.metrics or (name is None and len(self.metrics) == 1):
            return
        without = name == "nll" and self.model.task == "regression"
        raise ValueError(
            f"metric must be one of {', '.join(self.metrics)}, which the validation returns; got {name!r}"
            + (". The likelihood of a regressor needs variance=True" if without else "")
        )


def as_validation(model: Predictor, given: Any) -> Callable[[], float | Mapping[str, float]]:
    """Return the function that ``fit`` calls: the given one, or the evaluation on the given data."""
    if callable(given):
        return given  # type: ignore[no-any-return]
    try:
        return validation(model, given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"validation: {error}") from error


def _default_metrics(model: Predictor) -> dict[str, Callable[[Any, Tensor], float]]:
    if model.task == "classification":
        return {"nll": _of_mean(partial(negative_log_likelihood, clip=True)), "error": _of_mean(prediction_error)}
    rows = [metric for metric in METRICS.values() if metric.per_example is not None and metric.direction == "min"]
    suited = [metric for metric in rows if metric.per_example.task == "regression"]  # type: ignore[union-attr]
    has_density = all(getattr(member, "variance", False) for member in model.members)
    return {
        metric.column: _of_mean(metric.function) if metric.inputs is MEAN else _of_distribution(metric.function)
        for metric in suited
        if metric.column != "nll" or has_density
    }


def _of_mean(metric: Metric) -> Callable[[Any, Tensor], float]:
    return lambda p, targets: metric(p.mean, targets)


def _of_distribution(metric: Callable[[Tensor, Tensor, Tensor], float]) -> Callable[[Any, Tensor], float]:
    """A metric of the mixture of all samples; in exact mode, of the Gaussian with its mean and variance."""
    return lambda p, targets: (
        metric(p.mean, p.variance, targets) if p.samples is None else metric(p.samples, p.sample_variance, targets)
    )
