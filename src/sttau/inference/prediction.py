"""The result of a prediction: class probabilities or values, and their uncertainty."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from sttau.conformal import Score, class_scores
from sttau.engine import fingerprint
from sttau.models import Decisions

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, repr=False)
class _Batch:
    """What both kinds of prediction share."""

    mean: Tensor
    mode: str
    num_samples: int

    decisions: Decisions | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        """A short description; never the content."""
        steps = f" of {self.mean.shape[1]} steps" if self.mean.dim() == 3 else ""
        what = f"{self.mean.shape[-1]} {self._unit}"
        samples = f", {self.num_samples} samples" if self.num_samples > 1 else ""
        return f"{type(self).__name__}({len(self):,} sequences{steps}, {what}, mode={self.mode!r}{samples})"

    _unit = "outputs"

    @property
    def corrected_epistemic(self) -> Tensor:
        """Epistemic uncertainty, corrected for the number of samples M: ``epistemic`` · M / (M - 1).

        The estimate from M independent samples is too low by a factor of (M - 1) / M: exactly so for the variance of a
        regressor, and to first order for the mutual information of a classifier. Exact and deterministic predictions
        are returned as they are.
        """
        epistemic: Tensor = self.epistemic  # type: ignore[attr-defined]
        if self.mode in ("exact", "deterministic"):
            return epistemic
        if self.num_samples < 2:
            raise ValueError("corrected_epistemic needs at least 2 samples, got 1; pass samples= to predict")
        return epistemic * (self.num_samples / (self.num_samples - 1))

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return the prediction with its tensors moved as by ``Tensor.to``."""
        moved: dict[str, Any] = {name: value.to(*args, **kwargs) for name, value in self._tensors().items()}
        return replace(self, **moved)

    def cpu(self) -> Self:
        """Return the prediction on the CPU."""
        return self.to("cpu")

    def numpy(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return all fields, derived ones included, as NumPy arrays by name."""
        every = self._tensors() | {name: getattr(self, name) for name in self._derived()}
        return {name: value.detach().cpu().numpy() for name, value in every.items()}

    def to_frame(self) -> Any:
        """Return one row per sequence as a pandas DataFrame; one per sequence and step with ``per_step``."""
        try:
            import pandas  # type: ignore[import-untyped, unused-ignore]
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas; or use numpy()") from error
        index = None
        if self.mean.dim() == 3:
            index = pandas.MultiIndex.from_product(
                [range(len(self)), range(self.mean.shape[1])], names=["sequence", "step"]
            )
        columns = {name: value.detach().cpu().flatten().numpy() for name, value in self.columns().items()}
        return pandas.DataFrame(columns, index=index)

    @property
    def uncertainty(self) -> Tensor:
        """(batch,) the uncertainty by which a prediction abstains."""
        raise NotImplementedError

    @property
    def abstain(self) -> Tensor:
        """(batch,) whether the prediction is too uncertain to be used; see ``model.set_abstention``."""
        threshold = self._calibrated("abstain").abstention
        if threshold is None:
            raise ValueError("abstain needs a threshold; call model.set_abstention(risk=...) first")
        return self.uncertainty > threshold.value

    @property
    def is_ood(self) -> Tensor:
        """(batch,) whether the uncertainty (total; of a regressor, epistemic) is beyond that of validation data."""
        threshold = self._calibrated("is_ood").ood
        if threshold is None:
            raise ValueError("is_ood needs a threshold; call model.set_ood_threshold() first")
        return self._ood_score > threshold.value

    @property
    def _ood_score(self) -> Tensor:
        raise NotImplementedError

    def _calibrated(self, what: str) -> Decisions:
        if self.decisions is None:
            raise ValueError(f"{what} needs a calibrated model; call sttau.calibrate(model, validation_data) first")
        return self.decisions

    def _decided(self) -> tuple[str, ...]:
        """The decisions that the model has thresholds for."""
        if self.decisions is None:
            return ()
        thresholds = {"abstain": self.decisions.abstention, "is_ood": self.decisions.ood}
        return tuple(name for name, threshold in thresholds.items() if threshold is not None)

    def columns(self) -> dict[str, Tensor]:
        """Return what a table shows, by the name of its column."""
        raise NotImplementedError

    def _derived(self) -> tuple[str, ...]:
        raise NotImplementedError

    def _tensors(self) -> dict[str, Tensor]:
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


@dataclass(frozen=True, repr=False)
class Prediction(_Batch):
    """Class probabilities of a batch and their uncertainty. Entropies are in bits.

    With ``per_step`` every field has a time axis after the batch; entries beyond a sequence's length repeat its last
    valid step. For a finite-state model whose head gives each state a fixed label, aleatoric uncertainty is 0 by
    construction, and irreducible noise counts as epistemic (docs/mathematics.md, §5).

    Attributes:
        mean: (batch, classes) predictive distribution p(y | x): the mean over samples, or the exact sum.
        mode: Mode of the layer: soft, hard, exact, sampled or deterministic.
        num_samples: Number of samples that ``mean`` averages, members of an ensemble included; 1 for exact inference.
        variance: (batch, classes) variance of the class probabilities over samples (over paths, in exact mode).
        total: (batch,) H[p(y | x)].
        aleatoric: (batch,) expected entropy of a single sample, E_ψ H[p(y | ψ, x)].
        samples: (samples, batch, classes) probabilities of the single samples, with ``keep_samples``.
        attribution: (batch, time) bits of epistemic uncertainty that each step contributes, in exact mode: the
            increments of I(Y; S_t | x), which never decreases. They sum to ``epistemic`` at the last step.
        class_names: Name of each class, where the model knows it.
        decisions: Thresholds of a calibrated model, which ``abstain``, ``is_ood`` and ``prediction_set`` use.
    """

    variance: Tensor
    total: Tensor
    aleatoric: Tensor
    samples: Tensor | None = None
    attribution: Tensor | None = None
    class_names: tuple[str, ...] = ()

    _unit = "classes"

    @property
    def epistemic(self) -> Tensor:
        """(batch,) total - aleatoric: the mutual information of label and sample. Never negative.

        From few samples it is too low; see :attr:`corrected_epistemic`.
        """
        return (self.total - self.aleatoric).clamp_min(0)

    @property
    def label(self) -> Tensor:
        """(batch,) the most probable class."""
        return self.mean.argmax(dim=-1)

    @property
    def confidence(self) -> Tensor:
        """(batch,) the probability of the most probable class."""
        return self.mean.amax(dim=-1)

    @property
    def uncertainty(self) -> Tensor:
        """(batch,) 1 - confidence, by which a prediction abstains."""
        return 1 - self.mean.to(torch.float64).amax(dim=-1)

    @property
    def _ood_score(self) -> Tensor:
        return self.total.to(torch.float64)

    def prediction_set(self, level: float = 0.9, *, score: Score = "lac", by_class: bool = False) -> Tensor:
        """Return (batch, classes), true for the classes of a set that holds the true class with probability ``level``.

        Split conformal prediction; the level holds on average over sequences from the source of the validation data. A
        set may be empty.

        Args:
            level: Probability that a set holds the true class.
            score: ``lac``, the probability of a class, for small sets; or ``aps``, for sets whose size follows the
                difficulty of an input. See :func:`sttau.conformal.class_scores`.
            by_class: Whether the level holds for every class, not only on average over classes.
        """
        decisions = self._calibrated("prediction_set")
        if score == "lac" and not by_class:
            return self.mean.to(torch.float64) >= 1 - decisions.quantile(level)
        thresholds = decisions.class_quantiles(level, score, by_class=by_class).to(self.mean.device)
        rows = self.mean.reshape(-1, self.mean.shape[-1])
        return (class_scores(rows, score, tie_breaks(rows)) <= thresholds).view(self.mean.shape)

    def _derived(self) -> tuple[str, ...]:
        return ("label", "confidence", "epistemic", *self._decided())

    def columns(self) -> dict[str, Tensor]:
        """Return label, confidence, uncertainties, decisions and probabilities, by the name of the column."""
        names = self.class_names or tuple(map(str, range(self.mean.shape[-1])))
        chosen = ("label", "confidence", "total", "aleatoric", "epistemic", *self._decided())
        columns = {name: getattr(self, name) for name in chosen}
        return columns | {f"p_{name}": self.mean[..., place] for place, name in enumerate(names)}

    def to_frame(self) -> Any:
        """Return one row per sequence as a pandas DataFrame: label, confidence, uncertainties and probabilities."""
        frame = super().to_frame()
        if self.class_names:
            frame["label"] = [self.class_names[number] for number in frame["label"]]
        return frame


@dataclass(frozen=True, repr=False)
class RegressionPrediction(_Batch):
    """Predicted values of a batch and their variance, split into its two sources.

    Attributes:
        mean: (batch, outputs).
        mode: Mode of the layer: soft, hard, exact, sampled or deterministic.
        num_samples: Number of samples that ``mean`` averages, members of an ensemble included; 1 for exact inference.
        aleatoric: (batch, outputs) mean predicted noise of the data; zero without a variance head.
        epistemic: (batch, outputs) variance of the predicted mean over samples (over states, in exact mode).
        samples: (samples, batch, outputs) means of the single samples, with ``keep_samples``.
        sample_variance: (samples, batch, outputs) predicted noise of the data of the single samples. Together with
            ``samples`` they are the mixture of Gaussians that the prediction is:
            ``sttau.metrics.quantile(r.samples, r.sample_variance, 0.9)``.
    """

    aleatoric: Tensor
    epistemic: Tensor
    samples: Tensor | None = None
    sample_variance: Tensor | None = None

    @property
    def uncertainty(self) -> Tensor:
        """(batch,) standard deviation, averaged over outputs, by which a prediction abstains."""
        return self.total.to(torch.float64).sqrt().mean(-1)

    @property
    def _ood_score(self) -> Tensor:
        return self.epistemic.to(torch.float64).sqrt().mean(-1)

    def interval(self, level: float = 0.9, *, together: bool = True) -> tuple[Tensor, Tensor]:
        """Return lower and upper ends, each (batch, outputs), of intervals that hold the target with this probability.

        Split conformal prediction with the error in standard deviations as score; the level holds on average over
        sequences from the source of the validation data. Without a predicted variance, all intervals have one width.

        Args:
            level: Probability that an interval holds the target.
            together: Whether it is the probability that all outputs of a sequence lie in their intervals; otherwise
                that of each output, or horizon, for itself.
        """
        decisions = self._calibrated("interval")
        width = decisions.quantile(level) if together else decisions.output_quantiles(level).to(self.mean)
        reach = width * interval_scale(self.total)
        return self.mean - reach, self.mean + reach

    def mixture(self) -> tuple[Tensor, Tensor]:
        """Return means and variances of the samples; of the prediction itself where there are no samples."""
        if self.samples is None or self.sample_variance is None:
            return self.mean[None], self.variance[None]
        return self.samples, self.sample_variance

    @property
    def total(self) -> Tensor:
        """(batch, outputs) aleatoric + epistemic: the law of total variance."""
        return self.aleatoric + self.epistemic

    @property
    def variance(self) -> Tensor:
        """(batch, outputs) the same as ``total``."""
        return self.total

    def _derived(self) -> tuple[str, ...]:
        return ("total", *self._decided())

    def columns(self) -> dict[str, Tensor]:
        """Return decisions, means and variances, by the name of the column."""
        outputs = self.mean.shape[-1]
        return {name: getattr(self, name) for name in self._decided()} | {
            name + (f"_{place}" if outputs > 1 else ""): getattr(self, name)[..., place]
            for place in range(outputs)
            for name in ("mean", "total", "aleatoric", "epistemic")
        }


def interval_scale(variance: Tensor) -> Tensor:
    """Return the widths that intervals are proportional to: standard deviations; 1 where a model predicts none.

    Example:
        >>> interval_scale(torch.tensor([4.0, 0.0]))
        tensor([2., 1.])
    """
    return torch.where(variance > 0, variance.sqrt(), 1.0)


def tie_breaks(probabilities: Tensor) -> Tensor:
    """Return a value in (0, 1) for each row, by which APS sets are randomized: a hash of the row, not a draw.

    So the set of a prediction does not depend on the batch it was made in.
    """
    return (fingerprint(probabilities[:, None]).to(torch.float64) + 0.5) * 2.0**-32


def entropy(probabilities: Tensor) -> Tensor:
    """Return the entropy in bits over the last dimension; 0·log 0 is 0.

    Example:
        >>> entropy(torch.tensor([[0.5, 0.5], [1.0, 0.0]])).tolist()
        [1.0, 0.0]
    """
    nats: Tensor = torch.special.entr(probabilities)
    return nats.sum(-1).clamp_min(0) / math.log(2)
