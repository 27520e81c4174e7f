"""Predictions with their uncertainty: Monte Carlo over paths, or the exact sum over all of them (paper §2.3)."""

from __future__ import annotations

from typing import Any, overload

import torch
from torch import Tensor

from sttau.checks import as_integer, as_tensor, cpu_by_default
from sttau.engine import fingerprint
from sttau.inference.chunks import chunks, in_eval_mode, noises
from sttau.inference.inputs import as_inputs
from sttau.inference.prediction import Prediction, RegressionPrediction
from sttau.inference.summary import (
    join,
    repeat_last_steps,
    summarize,
    summarize_members,
    summarize_paths,
    summarize_states,
)
from sttau.layers import SAMPLED_MODES, LayerMode
from sttau.models import Predictor, SequenceClassifier, SequenceModel, SequenceRegressor


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
    bits. Where float32 samples are drawn on a CPU, so do other batches, orders, padding and chunks, as long as at least
    4 rows are processed at a time; otherwise they may differ by rounding, about 1e-7 (docs/reliability.md says when).

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
                part = summarize_paths(model, x, length, per_step)
            elif mode == "exact":
                members = [
                    summarize_states(member, member.state_distributions(x, length, per_step=per_step))
                    for member in model.members
                ]
                part = summarize_members(members, keep_samples)
            else:
                at_once = max(1, chunk.size // len(chunk.rows))
                outputs = [
                    model(x, length, noise=noise, mode=mode, per_step=per_step)
                    for noise in noises(own, samples, seed, at_once, mode)
                ]
                part = summarize(model, outputs, len(chunk.rows), keep_samples)
            parts.append(repeat_last_steps(part, length) if per_step else part)
    return join(model, parts, torch.cat(rows).argsort(), mode, samples * len(model.members))


def _check_ids(ids: Any, batch: int) -> Tensor:
    given = as_tensor("ids", ids)
    if given.is_floating_point():
        raise TypeError(f"ids must be integers, got {given.dtype}")
    if tuple(given.shape) != (batch,):
        raise ValueError(f"ids must have shape ({batch},), one per sequence, got {tuple(given.shape)}")
    return given.to(torch.int64)
