"""Conformal prediction on arrays: sets and intervals that hold the target with a chosen probability.

Scores of labeled data that was not trained on (the calibration data) become a threshold; a new prediction holds every
class, or every value, whose score is at most the threshold. If new data comes from the same source, it holds the
target with at least the chosen probability, whatever the model (Vovk et al., 2005). :func:`sttau.calibrate` keeps the
scores in the model, for ``prediction_set`` and ``interval`` of its predictions.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from sttau.checks import as_numbers, as_tensor, check_labels, check_level, check_probabilities

#: Score of a class: ``lac``, 1 - its probability; ``aps``, the probability of all classes that are more probable.
Score = Literal["lac", "aps"]


def conformal_quantile(scores: Any, level: float) -> float:
    """Return the ⌈(n + 1) level⌉-th smallest score; infinity where there are too few, and -infinity for a level of 0.

    A new score from the same source is at most this value with probability at least ``level`` (Vovk et al., 2005).

    Args:
        scores: (calibration examples,) scores.
        level: Probability.

    Example:
        >>> conformal_quantile(torch.arange(1.0, 10.0), 0.8), conformal_quantile(torch.arange(1.0, 10.0), 0.95)
        (8.0, inf)
    """
    values = as_numbers("scores", scores)
    if not 0 <= level <= 1:
        raise ValueError(f"level must be a probability from 0 to 1, for instance 0.9, got {level}")
    rank = math.ceil((len(values) + 1) * level - 1e-9)
    if rank < 1:
        return -math.inf
    return math.inf if rank > len(values) else float(values.sort().values[rank - 1])


def quantile_per_class(scores: Any, labels: Any, num_classes: int, level: float) -> Tensor:
    """Return the threshold of each class, (classes,), from the examples of that class (Mondrian prediction).

    The level then holds for every class, not only on average; a class with fewer than level / (1 - level) examples is
    in every set.

    Args:
        scores: (examples,) scores of the true classes.
        labels: (examples,) true classes.
        num_classes: Number of classes.
        level: Probability.

    Example:
        >>> quantile_per_class([0.1, 0.2, 0.3, 0.9], [0, 0, 0, 1], 2, level=0.75)
        tensor([0.3000,    inf], dtype=torch.float64)
    """
    values, y = as_numbers("scores", scores).to(torch.float64), as_tensor("labels", labels)
    y = check_labels(y, len(values), num_classes).to(values.device)
    return torch.tensor([conformal_quantile(values[y == number], level) for number in range(num_classes)]).double()


def quantile_per_output(scores: Any, level: float) -> Tensor:
    """Return the threshold of each output, or horizon, (outputs,), from (examples, outputs) scores.

    Example:
        >>> quantile_per_output([[1.0, 10.0], [3.0, 30.0], [2.0, 20.0]], level=0.5)
        tensor([ 2., 20.], dtype=torch.float64)
    """
    values = as_numbers("scores", scores)
    return torch.tensor([conformal_quantile(column, level) for column in values.unbind(-1)], dtype=torch.float64)


def class_scores(probabilities: Any, score: Score = "lac", uniform: Any = None) -> Tensor:
    """Return the score of every class, (predictions, classes) in float64.

    ``lac`` (Sadinle et al., 2019) gives the smallest sets on average. ``aps`` (Romano et al., 2020) gives larger sets
    to difficult inputs and smaller ones to easy inputs, so that the level holds more evenly.

    Args:
        probabilities: (predictions, classes).
        score: ``lac`` or ``aps``.
        uniform: (predictions,) draws from [0, 1] by which ``aps`` is randomized; without them it is conservative.

    Example:
        >>> class_scores([[0.25, 0.75]]).tolist(), class_scores([[0.25, 0.75]], "aps").tolist()
        ([[0.75, 0.25]], [[1.0, 0.75]])
    """
    p = check_probabilities("probabilities", probabilities).to(torch.float64)
    if score not in get_args(Score):
        raise ValueError(f"score must be one of {', '.join(map(repr, get_args(Score)))}, got {score!r}")
    if score == "lac":
        return 1 - p
    ordered, order = p.sort(dim=-1, descending=True, stable=True)
    above = ordered.cumsum(-1) - ordered
    share = 1.0 if uniform is None else as_numbers("uniform", uniform).to(p)[:, None]
    return torch.empty_like(p).scatter_(-1, order, above + share * ordered)


def label_scores(probabilities: Any, labels: Any, score: Score = "lac", uniform: Any = None) -> Tensor:
    """Return the scores of the true classes, (predictions,): those of calibration data.

    Args:
        probabilities: (predictions, classes).
        labels: (predictions,) true classes.
        score: ``lac`` or ``aps``.
        uniform: (predictions,) draws from [0, 1] for ``aps``.

    Example:
        >>> scores = label_scores([[0.9, 0.1], [0.4, 0.6], [0.7, 0.3]], [0, 1, 1])
        >>> (class_scores([[0.45, 0.55]]) <= conformal_quantile(scores, 0.75)).tolist()
        [[True, True]]
    """
    every = class_scores(probabilities, score, uniform)
    y = check_labels(as_tensor("labels", labels).to(every.device), *every.shape)
    return every.gather(1, y[:, None])[:, 0]


def residual_scores(mean: Any, scale: Any, targets: Any) -> Tensor:
    """Return |target - mean| / scale, (predictions, outputs): the interval is mean ± threshold · scale.

    Args:
        mean: (predictions, outputs).
        scale: (predictions, outputs) predicted standard deviations; 1 for intervals of one width.
        targets: (predictions, outputs).

    Example:
        >>> residual_scores([[1.0]], [[2.0]], [[4.0]])
        tensor([[1.5000]], dtype=torch.float64)
    """
    center, spread, y = _columns(mean=mean, scale=scale, targets=targets)
    return (y - center).abs() / spread.clamp_min(torch.finfo(torch.float32).tiny)


def quantile_scores(low: Any, high: Any, targets: Any) -> Tensor:
    """Return how far targets lie outside predicted quantiles, (predictions, outputs); negative inside.

    Conformalized quantile regression (Romano et al., 2019): the interval is low - threshold … high + threshold. For the
    quantiles of a Monte Carlo prediction see :func:`sttau.metrics.quantile`.

    Args:
        low: (predictions, outputs) lower quantiles.
        high: (predictions, outputs) upper quantiles.
        targets: (predictions, outputs).

    Example:
        >>> quantile_scores([[0.0], [0.0]], [[1.0], [1.0]], [[1.5], [0.25]]).flatten().tolist()
        [0.5, -0.25]
    """
    below, above, y = _columns(low=low, high=high, targets=targets)
    return torch.maximum(below - y, y - above)


def _columns(**given: Any) -> list[Tensor]:
    """(predictions, outputs) in float64, all of one shape; (predictions,) is one output, a number is everywhere."""
    values = {name: as_numbers(name, value).double() for name, value in given.items()}
    values = {name: value[:, None] if value.dim() == 1 else value for name, value in values.items()}
    shapes = {name: tuple(value.shape) for name, value in values.items() if value.dim() > 0}
    if len(set(shapes.values())) > 1 or any(len(shape) != 2 for shape in shapes.values()):
        described = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"{', '.join(given)} must have one shape, (predictions, outputs), got {described}")
    return list(values.values())


class AdaptiveConformal:
    """A level that follows a stream whose distribution changes (Gibbs & Candès, 2021).

    After every target, the level rises by ``rate`` times the wanted coverage if the target was missed, and falls
    slightly if it was held. Over T targets the coverage differs from the wanted one by at most about 1 / (rate · T),
    whatever the data.

    Args:
        coverage: Desired fraction of targets in the sets.
        rate: Step of the level; larger values follow faster and vary more.

    Example:
        >>> adaptive = AdaptiveConformal(coverage=0.9, rate=0.05)
        >>> adaptive.update(covered=False)
        >>> round(adaptive.level, 3)  # for p.prediction_set(adaptive.level), or p.interval(adaptive.level)
        0.945
    """

    def __init__(self, coverage: float = 0.9, rate: float = 0.01) -> None:
        check_level("coverage", coverage, 0.9)
        if not (rate > 0 and math.isfinite(rate)):
            raise ValueError(f"rate must be positive, for instance 0.01, got {rate}")
        self.coverage, self.rate = float(coverage), float(rate)
        self._level = self.coverage

    def __repr__(self) -> str:
        return f"{type(self).__name__}(coverage={self.coverage:g}, rate={self.rate:g}, level={self.level:.4f})"

    @property
    def level(self) -> float:
        """The level for the next prediction, in [0, 1]; 1 holds everything and 0 nothing."""
        return min(max(self._level, 0.0), 1.0)

    def update(self, covered: bool) -> None:
        """Adapt the level after a target is known.

        Args:
            covered: Whether the set or interval of the last prediction held it.
        """
        self._level += self.rate * (self.coverage - float(covered))

    def state_dict(self) -> dict[str, float]:
        """Return all values, for :meth:`load_state_dict`."""
        return {"coverage": self.coverage, "rate": self.rate, "level": self._level}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Continue from what :meth:`state_dict` returned."""
        self.coverage, self.rate, self._level = (float(state[name]) for name in ("coverage", "rate", "level"))


__all__ = [
    "AdaptiveConformal",
    "Score",
    "class_scores",
    "conformal_quantile",
    "label_scores",
    "quantile_per_class",
    "quantile_per_output",
    "quantile_scores",
    "residual_scores",
]
