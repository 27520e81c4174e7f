"""Recalibrate the probabilities of a trained model with a few parameters fitted on validation data (Guo et al., 2017).

Logits are (predictions, classes), or (samples, predictions, classes) for a Monte Carlo prediction. In the latter case
each sample is scaled, its softmax is taken, and the probabilities are averaged; the fit maximizes the likelihood of
that average. Averaging first, or fitting the samples separately, would calibrate a different predictor.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sttau.checks import as_numbers, as_tensor, check_labels, check_probabilities
from sttau.inference import Prediction

if TYPE_CHECKING:
    from typing_extensions import Self

_GRID = 65  # temperatures evaluated before the golden-section search
_SECTIONS = 40  # steps of that search


def to_logits(prediction: Any) -> Tensor:
    """Return logits for scaling from a result of ``predict``: the logarithms of its probabilities.

    The softmax of log p is p, so they are equivalent to the network's own logits.

    Args:
        prediction: A :class:`~sttau.Prediction`, or probabilities, (predictions, classes) or
            (samples, predictions, classes). A prediction that averages several samples or ensemble members must have
            been made with ``keep_samples=True``: each of them is scaled, then they are averaged.

    Example:
        >>> to_logits([[0.5, 0.5], [1.0, 0.0]]).softmax(-1).round(decimals=6).tolist()
        [[0.5, 0.5], [1.0, 0.0]]
    """
    if isinstance(prediction, Prediction):
        if prediction.samples is None and prediction.num_samples > 1:
            raise ValueError(
                f"prediction is the mean of {prediction.num_samples} samples, which are scaled one by one, but does "
                "not hold them; call predict with keep_samples=True"
            )
        p = check_probabilities(
            "prediction", prediction.mean if prediction.samples is None else prediction.samples, (2, 3)
        )
    else:
        p = check_probabilities("probabilities", prediction, (2, 3))
    return p.clamp_min(torch.finfo(p.dtype).tiny).to(torch.float64).log()


class Scaling(ABC):
    """Base class: ``fit`` on validation data, then ``probabilities`` of new data."""

    def fit(self, logits: Any, labels: Any) -> Self:
        """Fit on validation data.

        Args:
            logits: (predictions, classes) or (samples, predictions, classes); see :func:`to_logits`.
            labels: (predictions,) true classes.
        """
        z = _checked(logits)
        self._fit(z, check_labels(as_tensor("labels", labels).to(z.device), z.shape[1], z.shape[2]))
        return self

    def probabilities(self, logits: Any) -> Tensor:
        """Return (predictions, classes) probabilities in float64, averaged over samples."""
        return self.log_probabilities(logits).exp()

    @abstractmethod
    def log_probabilities(self, logits: Any) -> Tensor:
        """Return (predictions, classes) log probabilities, finite where a probability would round to 0."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return the fitted parameters as JSON-compatible values, for :func:`restore_scaling`."""

    @abstractmethod
    def _fit(self, logits: Tensor, labels: Tensor) -> None: ...


class TemperatureScaling(Scaling):
    """Divide the logits by one parameter, the temperature T.

    On the data it is fitted on, the negative log-likelihood is never larger than before (T = 1). A single sample keeps
    its predicted class; the average of several samples may change it. T is searched between 1/100 and 100 times the
    mean range of a row of logits; at these limits the softmax is nearly a step function or nearly uniform.

    Args:
        temperature: Temperature T; set by ``fit``.

    Example:
        >>> logits, labels = torch.tensor([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 0.0]]), torch.tensor([0, 0, 1, 1])
        >>> scaling = TemperatureScaling().fit(logits, labels)  # odds of e⁴, but right 3 times out of 4
        >>> round(scaling.temperature, 3), [round(p, 3) for p in scaling.probabilities(logits)[0].tolist()]
        (3.641, [0.75, 0.25])
    """

    def __init__(self, temperature: float = 1.0) -> None:
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {temperature}")
        self.temperature = float(temperature)

    def log_probabilities(self, logits: Any) -> Tensor:
        """Return (predictions, classes) log of the mean over samples of softmax(logits / T)."""
        return _average(_checked(logits) / self.temperature)

    def state_dict(self) -> dict[str, Any]:
        """Return the temperature."""
        return {"type": "TemperatureScaling", "temperature": self.temperature}

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        def loss(log_t: float) -> float:
            return float(_loss(logits / math.exp(log_t), labels))

        spread = float((logits.amax(-1) - logits.amin(-1)).mean())
        best = (loss(0.0), 0.0)  # T = 1; only replaced by something better
        if spread > 0:
            # The loss is convex in 1/T for one sample, but not for the mean of several: a grid first, then a
            # golden-section search around its best point.
            middle, width = math.log(spread), 2 * math.log(100) / (_GRID - 1)
            grid = [middle + width * (i - (_GRID - 1) / 2) for i in range(_GRID)]
            seen = [best, *((loss(point), point) for point in grid)]
            best = min(seen, key=lambda pair: pair[0])
            best = min(best, _golden_section(loss, best[1] - width, best[1] + width), key=lambda pair: pair[0])
        self.temperature = math.exp(best[1])


class VectorScaling(Scaling):
    """Multiply the logits of each class by a weight and add a bias (Guo et al., 2017, §4.2).

    The fit starts from the best temperature and is never worse than it on the data it is fitted on. It overfits if
    there are few validation examples of a class; the predicted class may change.

    Args:
        weight: (classes,) weights; set by ``fit``.
        bias: (classes,) biases; set by ``fit``.

    Example:
        >>> logits, labels = torch.tensor([[4.0, 0.0], [4.0, 0.0], [0.0, 4.0], [4.0, 0.0]]), torch.tensor([0, 0, 1, 1])
        >>> [round(p, 2) for p in VectorScaling().fit(logits, labels).probabilities(logits)[0].tolist()]
        [0.67, 0.33]
    """

    def __init__(self, weight: Any = None, bias: Any = None) -> None:
        if (weight is None) != (bias is None):
            raise ValueError("weight and bias must be given together, one of each per class, or not at all")
        self.weight = None if weight is None else as_numbers("weight", weight).to(torch.float64)
        self.bias = None if bias is None else as_numbers("bias", bias).to(torch.float64)

    def log_probabilities(self, logits: Any) -> Tensor:
        """Return (predictions, classes) log of the mean over samples of softmax(weight ⊙ logits + bias)."""
        z = _checked(logits)
        if self.weight is None or self.bias is None:
            raise ValueError("this VectorScaling is not fitted; call fit with validation logits and labels first")
        _check_classes(z, len(self.weight))
        return _average(z * self.weight.to(z.device) + self.bias.to(z.device))

    def state_dict(self) -> dict[str, Any]:
        """Return weight and bias of the classes."""
        if self.weight is None or self.bias is None:
            raise ValueError("this VectorScaling is not fitted, so it has no state; call fit first")
        return {"type": "VectorScaling", "weight": self.weight.tolist(), "bias": self.bias.tolist()}

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        start = TemperatureScaling()
        start._fit(logits, labels)
        scale = 1 / start.temperature  # factors are relative to this, so the scale of the logits does not matter
        factor = torch.ones(logits.shape[-1], dtype=torch.float64, device=logits.device, requires_grad=True)
        bias = torch.zeros_like(factor, requires_grad=True)
        optimizer = torch.optim.LBFGS([factor, bias], max_iter=200, line_search_fn="strong_wolfe")
        best = (math.inf, factor, bias)

        def closure() -> float:
            nonlocal best
            optimizer.zero_grad()
            loss = _loss(logits * scale * factor + bias, labels)
            loss.backward()
            value = loss.item()
            if value < best[0]:
                best = (value, factor.detach().clone(), bias.detach().clone())
            return value

        with torch.enable_grad():
            optimizer.step(closure)
        self.weight, self.bias = (best[1] * scale).detach(), best[2].detach()


class IsotonicScaling(Scaling):
    """Map the averaged probability of each class by isotonic regression, then normalize the rows.

    One class against the rest (Zadrozny & Elkan, 2002), with scikit-learn. It needs more validation data than the other
    methods and can predict probabilities of exactly 0, with a log-likelihood of -inf for such a label. On the data it
    is fitted on, it cannot get worse for two classes; for more classes, normalization gives no such guarantee.

    Args:
        knots: Per class, the points between which its map is linear; set by ``fit``.

    Example:
        >>> logits, labels = torch.tensor([[4.0, 0.0], [3.0, 0.0], [0.0, 4.0], [4.0, 0.0]]), torch.tensor([0, 0, 1, 1])
        >>> [round(p, 3) for p in IsotonicScaling().fit(logits, labels).probabilities(logits)[:, 0].tolist()]
        [0.667, 0.667, 0.0, 0.667]
    """

    def __init__(self, knots: Any = None) -> None:
        self.knots: list[tuple[list[float], list[float]]] | None = (
            None if knots is None else [(list(map(float, x)), list(map(float, y))) for x, y in knots]
        )

    def log_probabilities(self, logits: Any) -> Tensor:
        """Return (predictions, classes) log of the mapped means over samples; -inf where a probability is 0."""
        z = _checked(logits)
        if self.knots is None:
            raise ValueError("this IsotonicScaling is not fitted; call fit with validation logits and labels first")
        _check_classes(z, len(self.knots))
        before = _average(z).exp()
        columns = before.cpu().numpy().T
        mapped = np.stack([np.interp(column, *knots) for column, knots in zip(columns, self.knots, strict=True)], -1)
        after = torch.as_tensor(mapped, device=z.device)
        total = after.sum(-1, keepdim=True)
        return torch.where(total > 0, after / total, before).log()  # a row mapped to zeros is left unchanged

    def state_dict(self) -> dict[str, Any]:
        """Return the points between which the map of each class is linear."""
        if self.knots is None:
            raise ValueError("this IsotonicScaling is not fitted, so it has no state; call fit first")
        return {"type": "IsotonicScaling", "knots": [[list(x), list(y)] for x, y in self.knots]}

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        from sklearn.isotonic import IsotonicRegression

        p, y = _average(logits).exp().cpu().numpy(), labels.cpu().numpy()
        self.knots = []
        for k in range(p.shape[1]):
            fitted = IsotonicRegression(y_min=0, y_max=1).fit(p[:, k], (y == k).astype(float))
            self.knots.append((fitted.X_thresholds_.tolist(), fitted.y_thresholds_.tolist()))


_SCALINGS: dict[str, type[Scaling]] = {
    "TemperatureScaling": TemperatureScaling,
    "VectorScaling": VectorScaling,
    "IsotonicScaling": IsotonicScaling,
}


def restore_scaling(state: dict[str, Any]) -> Scaling:
    """Restore a scaling from its ``state_dict``.

    Args:
        state: Result of ``state_dict``.

    Example:
        >>> restore_scaling(TemperatureScaling(1.5).state_dict()).temperature
        1.5
    """
    arguments = dict(state)
    kind = arguments.pop("type", None)
    if kind not in _SCALINGS:
        raise ValueError(f"state must name one of {', '.join(_SCALINGS)} as its type, got {kind!r}")
    return _SCALINGS[kind](**arguments)


def _checked(logits: Any) -> Tensor:
    """Return (samples, predictions, classes) in float64."""
    z = as_numbers("logits", logits).detach()
    if z.dim() not in (2, 3) or z.numel() == 0 or z.shape[-1] < 2:
        raise ValueError(
            "logits must be (predictions, classes) or (samples, predictions, classes), not empty, of at least 2 "
            f"classes, got shape {tuple(z.shape)}"
        )
    if not bool(z.isfinite().all()):
        raise ValueError("logits hold NaN or infinity; use to_logits to take logarithms of probabilities")
    z = z.to(torch.float64)
    return z if z.dim() == 3 else z[None]


def _check_classes(logits: Tensor, classes: int) -> None:
    if logits.shape[-1] != classes:
        raise ValueError(f"logits have {logits.shape[-1]} classes, but the scaling was fitted with {classes}")


def _average(logits: Tensor) -> Tensor:
    """Return the log of the mean over samples of the softmax."""
    return logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))


def _loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Negative log-likelihood of the averaged probability, computed for the labels alone."""
    chosen = logits.log_softmax(-1)[:, torch.arange(len(labels), device=labels.device), labels]
    return math.log(len(logits)) - chosen.logsumexp(0).mean()


def _golden_section(function: Any, low: float, high: float) -> tuple[float, float]:
    """Return the smallest value found between low and high, and its argument."""
    golden = (math.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_SECTIONS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = function(right)
    return min((at_left, left), (at_right, right))
