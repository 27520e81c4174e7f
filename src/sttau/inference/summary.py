"""The fields of a prediction, from samples or from the distribution of the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from sttau.engine import path_sum
from sttau.inference.prediction import Prediction, RegressionPrediction, entropy
from sttau.layers import LayerMode
from sttau.models import Predictor, SequenceClassifier, SequenceModel, SequenceRegressor
from sttau.padding import repeat_last_step

_PER_SAMPLE = ("samples", "sample_variance")  # fields with an axis of samples


def summarize(model: Predictor, outputs: list[Any], batch: int, keep: bool) -> dict[str, Tensor]:
    """Reduce the samples of one chunk of sequences to the fields of a prediction."""
    if model.task == "classification":
        p = torch.cat([_wide(logits) for logits in outputs]).softmax(dim=-1)
        p = p.reshape(-1, batch, *p.shape[1:])
        drawn = _samples_last(p)
        part = {"mean": drawn.mean(-1), "variance": drawn.var(-1, correction=0)}
        part["aleatoric"] = _samples_last(entropy(p)).mean(-1)
        part["total"] = entropy(part["mean"])
        return part | ({"samples": p.transpose(0, 1)} if keep else {})
    mean = torch.cat([_wide(output.mean) for output in outputs])
    mean = mean.reshape(-1, batch, *mean.shape[1:])
    if outputs[0].variance is None:
        noise = torch.zeros_like(mean)
    else:
        noise = torch.cat([_wide(output.variance) for output in outputs]).reshape(mean.shape)
    drawn = _samples_last(mean)
    part = {"mean": drawn.mean(-1), "epistemic": drawn.var(-1, correction=0)}
    part["aleatoric"] = _samples_last(noise).mean(-1)
    return part | ({"samples": mean.transpose(0, 1), "sample_variance": noise.transpose(0, 1)} if keep else {})


def _samples_last(values: Tensor) -> Tensor:
    """Move the samples from the first axis to the last: there, the order of a sum does not depend on the other axes.

    PyTorch sums along the first axis in an order that depends on the number of sequences.
    """
    return values.movedim(0, -1).contiguous()


def summarize_paths(model: SequenceModel, x: Tensor, lengths: Tensor | None, per_step: bool) -> dict[str, Tensor]:
    """Compute the same fields from the distribution of the state; every sum over paths is a sum over states."""
    chain = model.chain(x, lengths)
    pi = model.state_distributions(x, lengths) if per_step else chain.distributions[:, -1]
    part = summarize_states(model, pi)
    if not isinstance(model, SequenceClassifier):
        return part
    outcome = model.state_logits().exp()
    size = model.patch_size
    patches = lengths if lengths is None else (lengths + size - 1) // size
    end = path_sum.outcome_given_state(chain.matrices, outcome, patches)
    before = entropy(chain.distributions[:, -1] @ outcome)[:, None] - (chain.distributions * entropy(end)).sum(-1)
    known = torch.cat([torch.zeros_like(before[:, :1]), before], dim=1).cummax(dim=1).values  # rounding aside
    return part | {"attribution": _at_last_step(known.diff(dim=1), x, lengths, size)}


def summarize_states(model: SequenceModel, pi: Tensor) -> dict[str, Tensor]:
    """Compute the fields of a prediction from the distribution of the state, (…, k)."""
    if isinstance(model, SequenceRegressor):
        mean, noise = model.state_outputs()
        center = pi @ mean
        return {
            "mean": center,
            "epistemic": _variance(pi, mean, center),
            "aleatoric": torch.zeros_like(center) if noise is None else pi @ noise,
        }
    outcome = cast(SequenceClassifier, model).state_logits().exp()
    p = (pi @ outcome).clamp_max(1)  # a sum of rounded values may exceed it
    return {
        "mean": p,
        "variance": _variance(pi, outcome, p),
        "total": entropy(p),
        "aleatoric": pi @ entropy(outcome),
    }


def summarize_members(parts: Sequence[dict[str, Tensor]], keep: bool = False) -> dict[str, Tensor]:
    """Combine the fields of the members of an ensemble in exact mode: those of the mixture of all their states.

    Example:
        >>> one, other = ({"mean": torch.tensor([[m]]), "epistemic": torch.ones(1, 1)} for m in (0.0, 2.0))
        >>> summarize_members([one, other])  # the mean variance of the members, and the variance of their means
        {'mean': tensor([[1.]]), 'epistemic': tensor([[2.]])}
    """
    found = {name: torch.stack([part[name] for part in parts], -1).mean(-1) for name in parts[0]}
    means = torch.stack([part["mean"] for part in parts], -1)
    spread = "variance" if "variance" in found else "epistemic"
    found[spread] = found[spread] + means.var(-1, correction=0)
    if "total" in found:
        found["total"] = entropy(found["mean"])
    if not keep:
        return found
    noise = {} if "variance" in found else {"sample_variance": torch.stack([_noise_of(part) for part in parts], 1)}
    return found | {"samples": means.movedim(-1, 1)} | noise


def _noise_of(part: dict[str, Tensor]) -> Tensor:
    """The variance of a member of an ensemble of regressors: of its noise and of its states."""
    return part["aleatoric"] + part["epistemic"]


def _variance(pi: Tensor, values: Tensor, mean: Tensor) -> Tensor:
    """Return the variance of ``values``, one row per state, under the state distribution ``pi``."""
    return (pi[..., None, :] @ (values - mean[..., None, :]).square())[..., 0, :]


def _at_last_step(patches: Tensor, x: Tensor, lengths: Tensor | None, size: int) -> Tensor:
    """Return values of patches, (batch, patches), as values of steps, (batch, time): at the last step of each patch."""
    if size == 1:
        return patches
    last = size * torch.arange(1, patches.shape[1] + 1, device=x.device).expand_as(patches) - 1
    end = torch.full_like(patches[:, :1], x.shape[1], dtype=torch.int64) if lengths is None else lengths[:, None]
    steps = patches.new_zeros(len(patches), x.shape[1])
    return steps.scatter_add_(1, torch.minimum(last, end - 1), patches)


def _wide(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


def repeat_last_steps(part: dict[str, Tensor], lengths: Tensor | None) -> dict[str, Tensor]:
    """Repeat the last valid step of each field in all steps beyond it; the attribution is left as it is."""
    return {
        name: value if name == "attribution" else repeat_last_step(value, lengths, 2 if name in _PER_SAMPLE else 1)
        for name, value in part.items()
    }


def join(
    model: Predictor, parts: list[dict[str, Tensor]], order: Tensor, mode: LayerMode, num_samples: int
) -> Prediction | RegressionPrediction:
    """Concatenate the chunks in the order of the batch."""
    whole = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    whole = {name: value[order.to(value.device)] for name, value in whole.items()}
    whole |= {name: whole[name].transpose(0, 1) for name in _PER_SAMPLE if name in whole}
    if model.task == "classification":
        return Prediction(
            **whole, mode=mode, num_samples=num_samples, class_names=model.class_names, decisions=model.decisions
        )
    return RegressionPrediction(**whole, mode=mode, num_samples=num_samples, decisions=model.decisions)
