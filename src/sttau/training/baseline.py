"""The best prediction that ignores its input, which a model must beat to have learned anything."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from sttau.metrics.nll import gaussian_nll, nll_terms


def baselines(train: Tensor, held_out: Tensor) -> dict[str, float]:
    """Return metrics of the prediction that is the same for all sequences: class frequencies, or mean and variance.

    Args:
        train: Targets of the training data, (sequences,) classes or (sequences, outputs) values.
        held_out: Targets of the validation data.

    Example:
        >>> train = torch.tensor([0, 0, 0, 1])
        >>> {name: round(value, 3) for name, value in baselines(train, torch.tensor([0, 1])).items()}
        {'nll': 0.837, 'error': 0.5}
    """
    if not train.is_floating_point():
        count = torch.bincount(train, minlength=int(held_out.max()) + 1).double()
        chance = (count / count.sum()).clamp_min(1e-12)
        wrong = (held_out != count.argmax()).double().mean()
        return {"nll": float(nll_terms(chance.expand(len(held_out), -1), held_out).mean()), "error": float(wrong)}
    known, wanted = train.double(), held_out.double()
    mean, variance = known.mean(0), known.var(0, correction=0).clamp_min(1e-12)
    return {
        "mse": float((wanted - mean).square().mean()),
        "mae": float((wanted - known.median(0).values).abs().mean()),
        "nll": gaussian_nll(mean.expand_as(wanted), variance.expand_as(wanted), wanted),
    }


def warn_unless_learned(metric: str | None, best: float | None, train: Tensor, held_out: Tensor) -> None:
    """Warn if the best validation is no better than the prediction that is the same for all sequences."""
    chance = baselines(train.cpu(), held_out.cpu()).get(metric or "")
    if chance is None or best is None or best < chance:
        return
    what = "mean and variance of the targets" if train.is_floating_point() else "class frequencies"
    reached = f"{best:.4g}" if math.isfinite(best) else str(best)
    warnings.warn(
        f"the model has not learned: its best validation {metric}, {reached}, is no better than {chance:.4g} of the "
        f"{what} alone. Try other seeds, more updates, another learning_rate, or more steps per patch, and check that "
        "features and targets belong together.",
        stacklevel=3,
    )
