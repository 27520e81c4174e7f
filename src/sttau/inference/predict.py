"""Predictions with their uncertainty: Monte Carlo over paths, or the exact sum over all of them (paper §2.3)."""

from __future__ import annotations

from typing import Any, cast, overload

import torch
from torch import Tensor

from sttau.checks import as_integer, as_tensor, cpu_by_default
from sttau.engine import fingerprint, path_sum
from sttau.inference.chunks import chunks, in_eval_mode, noises
from sttau.inference.inputs import as_inputs
from sttau.inference.prediction import Prediction, RegressionPrediction, entropy
from sttau.layers import SAMPLED_MODES, LayerMode
from sttau.models import Predictor, SequenceClassifier, SequenceModel, SequenceRegressor

_PER_SAMPLE = ("samples", "sample_variance")  # fields with an axis of samples


@overload
def predict(
    model: SequenceClassifier,
    data: Any,
    lengths: Any = None,
    samples: int = 10,
    seed: int = 0,
    mode: LayerMode | None = None,
    *,
    per_step: bool = False,
    keep_samples: bool = False,
    ids: Any = None,
    chunk_size: int | None = None,
) -> Prediction: ...
@overload
def predict(
    model: SequenceRegressor,
    data: Any,
    lengths: Any = None,
    samples: int = 10,
    seed: int = 0,
    mode: LayerMode | None = None,
    *,
    per_step: bool = False,
    keep_samples: bool = False,
    ids: Any = None,
    chunk_size: int | None = None,
) -> RegressionPrediction: ...
@overload
def predict(
    model: Predictor,
    data: Any,
    lengths: Any = None,
    samples: int = 10,
    seed: int = 0,
    mode: LayerMode | None = None,
    *,
    per_step: bool = False,
    keep_samples: bool = False,
    ids: Any = None,
    chunk_size: int | None = None,
) -> Any: ...
@cpu_by_default()
def predict(
    model: Predictor,
    data: Any,
    lengths: Any = None,
    samples: int = 10,
    seed: int = 0,
    mode: LayerMode | None = None,
    *,
    per_step: bool = False,
    keep_samples: bool = False,
    ids: Any = None,
    chunk_size: int | None = None,
) -> Prediction | RegressionPrediction:
    """Predict sequences, with uncertainty.

    The prediction of a sequence depends on the seed and on the sequence alone, not on its batch: its noise has the same
    bits wherever it stands. On one device and engine, with the same number of threads, the same call gives the same
    bits, and so does longer padding (except with ``per_step`` or in exact mode). When the batch is split, shuffled or
    repeated, or processed in other chunks, float32 predictions may differ by rounding, about 1e-7: PyTorch chooses the
    kernels of its matrix products, and with them the order of sums, by the number of rows.

    Args:
        model: A :class:`SequenceClassifier` or :class:`SequenceRegressor`, or an ensemble of them. It is evaluated in
            eval mode and not changed: other threads may predict with it at the same time.
        data: A ``SequenceDataset``; (batch, time, features) or (batch, time) token ids as tensor, array or nested
            lists; one series, (time, features) or (time,) token ids; one text, or a list of texts.
        lengths: (batch,) valid steps of padded arrays.
        samples: Monte Carlo samples per member. A model without randomness is evaluated once.
        seed: Seed of the sampling noise.
        mode: ``soft`` (mixtures of states, the paper's), ``hard`` (one state at a time), ``exact`` (the sum over all
            paths; GRU form), ``sampled`` (weights or masks are drawn: ``BayesLSTM``, ``VariationalDropoutLSTM``) or
            ``deterministic`` (no noise); the mode the layer was trained in by default. Soft and hard are different
            models: choose another mode than the trained one on purpose.
        per_step: Whether to predict after every step, not after the last one alone.
        keep_samples: Whether to return the single samples too; exact inference has none.
        ids: (batch,) integers that identify the sequences for the noise. By default a sequence is identified by its
            content, so equal sequences have equal predictions.
        chunk_size: Rows (sequences · samples) that are run at once; chosen to bound memory by default.

    Example:
        >>> from sttau import STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(8, 32, num_states=5), num_classes=3)
        >>> p = predict(model, torch.randn(4, 10, 8), samples=20)
        >>> p
        Prediction(4 sequences, 3 classes, mode='soft', 20 samples)
        >>> p.label.shape, bool((p.epistemic >= 0).all())
        (torch.Size([4]), True)
    """
    inputs, lengths = as_inputs(model, data, lengths)
    samples, seed = as_integer("samples", samples, 1), as_integer("seed", seed)
    mode = model.resolve_mode(mode)
    given = None if ids is None else _check_ids(ids, len(inputs))
    chunk_size = None if chunk_size is None else as_integer("chunk_size", chunk_size, 1)

    samples = samples if mode in SAMPLED_MODES else 1
    floats = model.members[0].layer.floats_per_step(mode, per_step=per_step)
    # Where there is a result for every step, sequences are not cut to their lengths.
    keep_padding = per_step or mode == "exact"
    rows: list[Tensor] = []
    parts: list[dict[str, Tensor]] = []
    model = in_eval_mode(model)
    with torch.no_grad():
        for chunk in chunks(inputs, lengths, model.device, floats, samples, chunk_size, keep_padding):
            rows.append(chunk.rows)
            x, length = chunk.inputs, chunk.lengths
            own = fingerprint(x, length) if given is None else given[chunk.rows.to(given.device)].to(model.device)
            if mode == "exact" and isinstance(model, SequenceModel):
                part = _exact(model, x, length, per_step)
            else:
                at_once = max(1, chunk.size // len(chunk.rows))
                outputs = [
                    model(x, length, noise=noise, mode=mode, per_step=per_step)
                    for noise in noises(own, samples, seed, at_once, mode)
                ]
                part = _summarize(model, outputs, len(chunk.rows), keep_samples)
            parts.append(_repeat_last_step(part, length) if per_step else part)
    return _join(model, parts, torch.cat(rows).argsort(), mode, samples * len(model.members))


def _check_ids(ids: Any, batch: int) -> Tensor:
    given = as_tensor("ids", ids)
    if given.is_floating_point():
        raise TypeError(f"ids must be integers, got {given.dtype}")
    if tuple(given.shape) != (batch,):
        raise ValueError(f"ids must have shape ({batch},), one per sequence, got {tuple(given.shape)}")
    return given.to(torch.int64)


def _summarize(model: Predictor, outputs: list[Any], batch: int, keep: bool) -> dict[str, Tensor]:
    """Reduce the samples of one chunk of sequences to the fields of a prediction."""
    if model.task == "classification":
        p = torch.cat([_wide(logits) for logits in outputs]).softmax(dim=-1)
        p = p.reshape(-1, batch, *p.shape[1:])
        part = {"mean": p.mean(0), "variance": p.var(0, correction=0), "aleatoric": entropy(p).mean(0)}
        part["total"] = entropy(part["mean"])
        return part | ({"samples": p.transpose(0, 1)} if keep else {})
    mean = torch.cat([_wide(output.mean) for output in outputs])
    mean = mean.reshape(-1, batch, *mean.shape[1:])
    if outputs[0].variance is None:
        noise = torch.zeros_like(mean)
    else:
        noise = torch.cat([_wide(output.variance) for output in outputs]).reshape(mean.shape)
    part = {"mean": mean.mean(0), "epistemic": mean.var(0, correction=0), "aleatoric": noise.mean(0)}
    return part | ({"samples": mean.transpose(0, 1), "sample_variance": noise.transpose(0, 1)} if keep else {})


def _exact(model: SequenceModel, x: Tensor, lengths: Tensor | None, per_step: bool) -> dict[str, Tensor]:
    """Compute the same fields from the distribution of the state; every sum over paths is a sum over states."""
    chain = model.chain(x, lengths)
    pi = chain.distributions if per_step else chain.distributions[:, -1]
    if isinstance(model, SequenceRegressor):
        mean, noise = model.state_outputs()
        center = pi @ mean
        return {
            "mean": center,
            "epistemic": _variance(pi, mean, center),
            "aleatoric": torch.zeros_like(center) if noise is None else pi @ noise,
        }
    outcome = cast(SequenceClassifier, model).state_logits().exp()
    p = pi @ outcome
    end = path_sum.outcome_given_state(chain.matrices, outcome, lengths)
    before = entropy(chain.distributions[:, -1] @ outcome)[:, None] - (chain.distributions * entropy(end)).sum(-1)
    known = torch.cat([torch.zeros_like(before[:, :1]), before], dim=1).cummax(dim=1).values  # rounding aside
    return {
        "mean": p,
        "variance": _variance(pi, outcome, p),
        "total": entropy(p),
        "aleatoric": pi @ entropy(outcome),
        "attribution": known.diff(dim=1),
    }


def _variance(pi: Tensor, values: Tensor, mean: Tensor) -> Tensor:
    """Return the variance of ``values``, one row per state, under the state distribution ``pi``."""
    return (pi[..., None, :] @ (values - mean[..., None, :]).square())[..., 0, :]


def _wide(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


def _repeat_last_step(part: dict[str, Tensor], lengths: Tensor | None) -> dict[str, Tensor]:
    """Repeat the last valid step in all steps beyond it."""
    if lengths is None:
        return part

    def repeat(name: str, value: Tensor) -> Tensor:
        if name == "attribution":
            return value
        axis = 2 if name in _PER_SAMPLE else 1
        step = torch.arange(value.shape[axis], device=value.device).expand(len(lengths), -1)
        index = torch.minimum(step, lengths[:, None] - 1)
        index = index.reshape(len(lengths), *(1,) * (axis - 1), -1, *(1,) * (value.dim() - axis - 1))
        return value.gather(axis, index.expand_as(value))

    return {name: repeat(name, value) for name, value in part.items()}


def _join(
    model: Predictor, parts: list[dict[str, Tensor]], order: Tensor, mode: LayerMode, num_samples: int
) -> Prediction | RegressionPrediction:
    """Concatenate the chunks in the order of the batch."""
    whole = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    whole = {name: value[order.to(value.device)] for name, value in whole.items()}
    whole |= {name: whole[name].transpose(0, 1) for name in _PER_SAMPLE if name in whole}
    if model.task == "classification":
        return Prediction(**whole, mode=mode, num_samples=num_samples, class_names=model.class_names)
    return RegressionPrediction(**whole, mode=mode, num_samples=num_samples)
