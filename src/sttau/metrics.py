"""The metrics as torchmetrics classes: fed batch by batch, merged over processes, the same numbers as the functions.

Each keeps what it is given and hands the whole to its function in :mod:`sttau.calibration` or :mod:`sttau.ood`, since
most of these are no means over batches. ``compute`` returns a tensor, or a dictionary of tensors where the function
returns several. Needs the extra: ``pip install 'sttau[torchmetrics]'``. Nothing else in the library imports this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sttau import calibration, ood
from sttau.calibration.metrics import Binning, Norm
from sttau.calibration.regression import check_forecast, check_mean
from sttau.checks import as_numbers, as_tensor, check_labels, check_probabilities
from sttau.ood.metrics import check_scores
from sttau.ood.selection import check_losses

try:
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat
except ImportError as error:
    raise ImportError("sttau.metrics needs torchmetrics: pip install 'sttau[torchmetrics]'") from error


class _Whole(Metric):
    """Keeps rows, one for each prediction, and measures them together."""

    is_differentiable = False
    higher_is_better = False
    full_state_update = False

    def __init__(self, function: Callable[..., Any], inputs: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._function = function
        self._inputs = tuple(inputs)
        for name in self._inputs:
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def _keep(self, *rows: Tensor) -> None:
        for name, row in zip(self._inputs, rows, strict=True):
            getattr(self, name).append(row.detach())

    def _arrange(self, *rows: Tensor) -> tuple[Tensor, ...]:
        """What the function is called with, from the rows kept."""
        return rows

    def compute(self) -> Tensor | dict[str, Tensor]:
        """The metric over all that was given since the last reset."""
        result = self._function(*self._arrange(*(dim_zero_cat(getattr(self, name)) for name in self._inputs)))
        if is_dataclass(result):
            return {field.name: torch.as_tensor(getattr(result, field.name)) for field in fields(result)}
        return torch.tensor(result, dtype=torch.float64, device=self.device)


class _Classification(_Whole):
    def __init__(self, function: Callable[..., Any], **kwargs: Any) -> None:
        super().__init__(function, ("probabilities", "labels"), **kwargs)

    def update(self, probabilities: Any, labels: Any) -> None:
        """Add (predictions, classes) probabilities and (predictions,) labels."""
        p = check_probabilities("probabilities", probabilities)
        self._keep(p, check_labels(as_tensor("labels", labels).to(p.device), *p.shape))


class CalibrationError(_Classification):
    """ECE, MCE or adaptive ECE; see :func:`sttau.calibration.calibration_error`.

    Example:
        >>> metric = CalibrationError()
        >>> metric.update([[0.9, 0.1], [0.8, 0.2]], [0, 1])
        >>> metric.update([[0.35, 0.65]], [1])
        >>> round(metric.compute().item(), 4)
        0.4167
    """

    def __init__(self, bins: int = 10, norm: Norm = "expected", binning: Binning = "width", **kwargs: Any) -> None:
        super().__init__(partial(calibration.calibration_error, bins=bins, norm=norm, binning=binning), **kwargs)


class ClasswiseCalibrationError(_Classification):
    """Mean over classes of the ECE; see :func:`sttau.calibration.classwise_calibration_error`.

    Example:
        >>> round(ClasswiseCalibrationError()([[0.9, 0.1], [0.8, 0.2], [0.35, 0.65]], [0, 1, 1]).item(), 4)
        0.4167
    """

    def __init__(self, bins: int = 10, binning: Binning = "width", **kwargs: Any) -> None:
        super().__init__(partial(calibration.classwise_calibration_error, bins=bins, binning=binning), **kwargs)


class ReliabilityCurve(_Classification):
    """Confidence and accuracy over bins; see :func:`sttau.calibration.reliability_curve`.

    Example:
        >>> ReliabilityCurve(bins=2)([[0.9, 0.1], [0.8, 0.2]], [0, 1])["count"].tolist()
        [0, 2]
    """

    def __init__(self, bins: int = 10, binning: Binning = "width", **kwargs: Any) -> None:
        super().__init__(partial(calibration.reliability_curve, bins=bins, binning=binning), **kwargs)


class PredictionError(_Classification):
    """Share of wrong predictions; see :func:`sttau.calibration.prediction_error`.

    Example:
        >>> PredictionError()([[0.9, 0.1], [0.8, 0.2]], [0, 1]).item()
        0.5
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(calibration.prediction_error, **kwargs)


class NegativeLogLikelihood(_Classification):
    """Mean of -log p(true class); see :func:`sttau.calibration.negative_log_likelihood`.

    Example:
        >>> round(NegativeLogLikelihood()([[0.5, 0.5], [0.75, 0.25]], [0, 1]).item(), 4)
        1.0397
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(calibration.negative_log_likelihood, **kwargs)


class BrierScore(_Classification):
    """Mean squared distance of probabilities and outcome; see :func:`sttau.calibration.brier_score`.

    Example:
        >>> round(BrierScore()([[0.9, 0.1], [0.8, 0.2]], [0, 1]).item(), 4)
        0.65
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(calibration.brier_score, **kwargs)


class BrierDecomposition(_Classification):
    """Reliability, resolution and uncertainty; see :func:`sttau.calibration.decompose_brier`.

    Example:
        >>> round(BrierDecomposition()([[0.9, 0.1], [0.8, 0.2]], [0, 1])["uncertainty"].item(), 4)
        0.5
    """

    def __init__(self, bins: int | None = 10, **kwargs: Any) -> None:
        super().__init__(partial(calibration.decompose_brier, bins=bins), **kwargs)


class MeanSquaredError(_Whole):
    """Mean of (mean - target)²; see :func:`sttau.calibration.mean_squared_error`.

    Example:
        >>> MeanSquaredError()([1.0, 2.0], [1.0, 4.0]).item()
        2.0
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(calibration.mean_squared_error, ("mean", "targets"), **kwargs)

    def update(self, mean: Any, targets: Any) -> None:
        """Add predictions, with runs in front or without, and their targets."""
        middle, y = check_mean(mean, targets)
        self._keep(middle.mean(0), y)


class SampleCRPS(_Whole):
    """CRPS of samples; see :func:`sttau.calibration.sample_crps`.

    Example:
        >>> SampleCRPS(fair=False)([[0.0], [2.0]], [1.0]).item()
        0.5
    """

    def __init__(self, fair: bool = True, **kwargs: Any) -> None:
        super().__init__(partial(calibration.sample_crps, fair=fair), ("samples", "targets"), **kwargs)

    def update(self, samples: Any, targets: Any) -> None:
        """Add (runs, predictions) or (runs, predictions, outputs) samples and their targets."""
        x = as_numbers("samples", samples)
        x, y = check_mean(x[..., None] if x.dim() == 2 else x, targets)
        self._keep(x.transpose(0, 1), y)

    def _arrange(self, *rows: Tensor) -> tuple[Tensor, ...]:
        return rows[0].transpose(0, 1), rows[1]


class _Forecast(_Whole):
    def __init__(self, function: Callable[..., Any], **kwargs: Any) -> None:
        super().__init__(function, ("mean", "variance", "targets"), **kwargs)

    def update(self, mean: Any, variance: Any, targets: Any) -> None:
        """Add predictions, with runs in front or without, and their targets."""
        middle, spread, y = check_forecast(mean, variance, targets)
        self._keep(middle.transpose(0, 1), spread.transpose(0, 1), y)

    def _arrange(self, *rows: Tensor) -> tuple[Tensor, ...]:
        return rows[0].transpose(0, 1), rows[1].transpose(0, 1), rows[2]


class GaussianNLL(_Forecast):
    """Mean of -log density; see :func:`sttau.calibration.gaussian_nll`.

    Example:
        >>> round(GaussianNLL()([0.0], [1.0], [0.0]).item(), 4)
        0.9189
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(calibration.gaussian_nll, **kwargs)


class GaussianCRPS(_Forecast):
    """CRPS of Gaussians and their mixtures; see :func:`sttau.calibration.gaussian_crps`.

    Example:
        >>> round(GaussianCRPS()([0.0], [1.0], [0.0]).item(), 4)
        0.2337
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(calibration.gaussian_crps, **kwargs)


class IntervalCoverage(_Forecast):
    """Coverage and width of central intervals; see :func:`sttau.calibration.interval_coverage`.

    Example:
        >>> IntervalCoverage(levels=[0.5, 0.9])([0.0, 0.0], [1.0, 1.0], [0.5, 1.5])["coverage"].tolist()
        [0.5, 1.0]
    """

    def __init__(self, levels: Sequence[float] = (0.5, 0.8, 0.9, 0.95), **kwargs: Any) -> None:
        super().__init__(partial(calibration.interval_coverage, levels=tuple(levels)), **kwargs)


class PITHistogram(_Whole):
    """Histogram of PIT values; see :func:`sttau.calibration.pit_histogram`.

    Example:
        >>> PITHistogram(bins=2)([0.0, 0.0], [1.0, 1.0], [-1.0, 1.0])["count"].tolist()
        [1, 1]
    """

    def __init__(self, bins: int = 10, **kwargs: Any) -> None:
        super().__init__(partial(calibration.pit_histogram, bins=bins), ("values",), **kwargs)

    def update(self, mean: Any, variance: Any, targets: Any) -> None:
        """Add predictions, with runs in front or without, and their targets."""
        self._keep(calibration.pit_values(mean, variance, targets))


class Detection(_Whole):
    """AUROC, AUPR and false-positive rates; see :func:`sttau.ood.detection`.

    Example:
        >>> round(Detection()([0.1, 0.2, 0.6, 0.5, 0.9], [False, False, False, True, True])["auroc"].item(), 4)
        0.8333
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(ood.detection, ("scores", "foreign"), **kwargs)

    def update(self, scores: Any, foreign: Any) -> None:
        """Add (n,) scores, larger for stranger input, and (n,) whether each input is foreign."""
        s, f = check_scores("scores", scores), as_tensor("foreign", foreign)
        if f.dtype != torch.bool or f.shape != s.shape:
            raise ValueError(
                f"foreign must be True or False for each of {len(s)} scores, got {f.dtype} {tuple(f.shape)}"
            )
        self._keep(s, f.to(s.device))

    def _arrange(self, *rows: Tensor) -> tuple[Tensor, ...]:
        scores, foreign = rows
        return scores[~foreign], scores[foreign]


class AreaUnderRiskCoverage(_Whole):
    """AURC; see :func:`sttau.ood.area_under_risk_coverage`.

    Example:
        >>> AreaUnderRiskCoverage()([0.1, 0.9], [0, 1]).item()
        0.25
    """

    def __init__(self, excess: bool = False, **kwargs: Any) -> None:
        super().__init__(partial(ood.area_under_risk_coverage, excess=excess), ("uncertainty", "losses"), **kwargs)

    def update(self, uncertainty: Any, losses: Any) -> None:
        """Add (n,) uncertainty and (n,) losses."""
        self._keep(*check_losses(uncertainty, losses))
