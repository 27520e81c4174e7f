"""Calibrating a model on validation data, and keeping the result in the model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from sttau.calibration.logits import to_logits
from sttau.calibration.scaling import averaged_loss, check_logits
from sttau.calibration.temperature_scaling import fit_temperature
from sttau.conformal import label_scores, residual_scores
from sttau.inference import Prediction, RegressionPrediction, predict
from sttau.inference.chunks import in_eval_mode
from sttau.inference.inputs import as_examples
from sttau.inference.prediction import interval_scale, tie_breaks
from sttau.metrics.nll import nll_terms
from sttau.models import Decisions, Predictor, SequenceClassifier, SequenceModel
from sttau.models.decisions import check_wanted

_PRIOR_SCALE = 0.5  # half-width of log T before any data


def calibrate(
    model: Predictor,
    data: Any,
    targets: Any = None,
    lengths: Any = None,
    *,
    temperature: bool = True,
    risk: float | None = None,
    coverage: float | None = None,
    false_alarms: float = 0.05,
    samples: int = 10,
    seed: int = 0,
) -> Decisions:
    """Calibrate a model on validation data: the temperature of its probabilities, and when it abstains.

    All of it is kept in the model and saved with it. ``predict`` then returns calibrated probabilities, ``abstain``,
    ``is_ood``, and conformal sets or intervals. The thresholds can be changed later, without the data:
    ``model.set_abstention(risk=0.02)``.

    Args:
        model: A trained classifier or regressor, or an ensemble.
        data: Validation data not used in training: a ``SequenceDataset``, or inputs.
        targets: (sequences,) labels, or (sequences, outputs) values; only where ``data`` is inputs.
        lengths: (sequences,) valid steps; only where ``data`` is inputs.
        temperature: Whether to fit the temperature of the logits of a classifier.
        risk: Largest error rate of accepted predictions, with 95 % confidence.
        coverage: Fraction of accepted predictions, instead of a risk; 0.9 if neither is given.
        false_alarms: Fraction of in-distribution sequences flagged as OOD.
        samples: Monte Carlo samples per member.
        seed: Seed of the sampling noise.

    Returns:
        The decisions, which are ``model.decisions`` from now on.

    Example:
        >>> import sttau
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(2, 8, num_states=4), num_classes=2)
        >>> x = torch.randn(100, 5, 2)
        >>> calibrate(model, x, (x.sum((1, 2)) > 0).long(), coverage=0.8)
        Decisions(100 validation sequences, coverage 0.8, false alarms 0.05)
        >>> sttau.predict(model, x).abstain.sum().item()
        20
    """
    coverage = 0.9 if risk is None and coverage is None else coverage
    check_wanted(risk, coverage, classifies=model.task == "classification")
    inputs, wanted, valid = as_examples(model, data, targets, lengths)
    wanted = wanted.cpu()
    classifiers = [member for member in model.members if isinstance(member, SequenceClassifier)]
    before = model.decisions, [member.logit_temperature for member in classifiers]
    try:
        model.decisions = None
        _set_temperatures(classifiers, [1.0] * len(classifiers))
        if temperature and classifiers and not any(member.has_fixed_labels for member in classifiers):
            fitted = _temperature(model, inputs, wanted, valid, samples, seed)
            _set_temperatures(classifiers, [fitted] * len(classifiers))
        decisions = decisions_for(predict(model, inputs, valid, samples, seed).cpu(), wanted)
        decisions.choose_abstention(risk=risk, coverage=coverage)
        decisions.choose_ood(false_alarms)
    except BaseException:  # the model is left as it was
        model.decisions = before[0]
        _set_temperatures(classifiers, before[1])
        raise
    model.decisions = decisions.to(model.device)
    return decisions


def _set_temperatures(classifiers: Sequence[SequenceClassifier], temperatures: Sequence[float]) -> None:
    for classifier, temperature in zip(classifiers, temperatures, strict=True):
        classifier.logit_temperature = temperature


def decisions_for(prediction: Prediction | RegressionPrediction, targets: Tensor) -> Decisions:
    """Return what :func:`calibrate` keeps of predictions of validation data, without thresholds.

    Args:
        prediction: Predictions, on the CPU.
        targets: (sequences,) labels, or (sequences, outputs) values.

    Example:
        >>> from dataclasses import replace
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> model, x = SequenceClassifier(STTauLSTM(2, 8, num_states=4), num_classes=2), torch.randn(100, 5, 2)
        >>> decisions = decisions_for(predict(model, x), torch.arange(100) % 2)
        >>> sets = replace(predict(model, x), decisions=decisions).prediction_set(0.9, score="aps")
        >>> sets.shape
        torch.Size([100, 2])
    """
    kept: dict[str, Any]
    if isinstance(prediction, Prediction):
        mean = prediction.mean.to(torch.float64)
        loss = (prediction.label != targets).to(torch.float64)
        nonconformity, score = label_scores(mean, targets), prediction.total
        adaptive = label_scores(mean, targets, "aps", tie_breaks(prediction.mean))
        kept = {"adaptive": adaptive, "label": targets, "classes": mean.shape[1]}
    else:
        loss = (prediction.mean.to(torch.float64) - targets).square().mean(-1)
        residual = residual_scores(prediction.mean, interval_scale(prediction.total.to(torch.float64)), targets)
        nonconformity, score = residual.amax(-1), prediction.epistemic.sqrt().mean(-1)
        kept = {"residual": residual}
    return Decisions.of(prediction.uncertainty, loss, nonconformity, score.to(torch.float64), **kept)


def _temperature(
    model: Predictor, inputs: Tensor, labels: Tensor, lengths: Tensor | None, samples: int, seed: int
) -> float:
    """The most probable temperature of the logits, under a broad prior around 1.

    A few validation sequences that are all predicted correctly would otherwise be best explained by a temperature near
    0, and every later error would be infinitely surprising.
    """
    if model.resolve_mode(None) == "exact":
        members = [cast(SequenceClassifier, member) for member in in_eval_mode(model).members]
        return _exact_temperature(members, inputs, labels, lengths)
    prediction = predict(model, inputs, lengths, samples, seed, keep_samples=True)
    logits = check_logits(to_logits(prediction).cpu())

    def loss(temperature: float) -> float:
        return float(averaged_loss(logits / temperature, labels)) + _prior(temperature, len(labels))

    return fit_temperature(loss, float((logits.amax(-1) - logits.amin(-1)).mean()))


def _prior(temperature: float, count: int) -> float:
    """The part of the prior, a Cauchy distribution of log T around 0, in the mean loss of so many sequences."""
    return math.log1p((math.log(temperature) / _PRIOR_SCALE) ** 2) / count


@torch.no_grad()
def _exact_temperature(
    members: Sequence[SequenceClassifier], inputs: Tensor, labels: Tensor, lengths: Tensor | None
) -> float:
    """The same for exact inference, whose samples are the states of all members with their probabilities."""
    pi = torch.cat([_last_distribution(member, inputs, lengths) for member in members], dim=1) / len(members)
    logits = torch.cat([member.state_logits().to(pi.dtype).cpu() for member in members])

    def loss(temperature: float) -> float:
        p = pi @ (logits / temperature).softmax(-1)
        return float(nll_terms(p, labels, clip=True).mean()) + _prior(temperature, len(labels))

    return fit_temperature(loss, float((logits.amax(-1) - logits.amin(-1)).mean()))


def _last_distribution(model: SequenceModel, inputs: Tensor, lengths: Tensor | None) -> Tensor:
    rows = [slice(start, start + 256) for start in range(0, len(inputs), 256)]
    parts = [
        model.state_distributions(
            inputs[part].to(model.device), None if lengths is None else lengths[part].to(model.device), per_step=False
        )
        for part in rows
    ]
    return torch.cat(parts).to(torch.float64).cpu()
