"""The features that a network computes for a sequence, before its head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_integer, cpu_by_default
from sttau.engine import Readout, fingerprint
from sttau.inference.chunks import chunks, in_eval_mode, noises
from sttau.inference.inputs import as_inputs
from sttau.layers import SAMPLED_MODES
from sttau.models import Predictor, SequenceModel


@cpu_by_default()
def features(
    model: Predictor,
    data: Any,
    lengths: Any = None,
    samples: int = 10,
    seed: int = 0,
    *,
    readout: Readout | None = "cell",
) -> Tensor:
    """Return the output of the recurrent layer at the end of each sequence, averaged over samples.

    For a finite-state layer it is by default u_T, the cell's output, whatever the head reads: mixtures of a few states
    are harder to tell apart. Members of an ensemble are concatenated.

    Args:
        model: A classifier or regressor, or an ensemble.
        data: Sequences, in any form that :func:`sttau.predict` takes.
        lengths: (batch,) valid steps of padded arrays.
        samples: Monte Carlo samples per member.
        seed: Seed of the sampling noise.
        readout: Output of a finite-state layer; None for the one that the head reads.

    Returns:
        (batch, members · directions · hidden_size), on the CPU.

    Example:
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(8, 32, num_states=5), num_classes=3)
        >>> features(model, torch.randn(4, 10, 8)).shape
        torch.Size([4, 32])
    """
    samples, seed = as_integer("samples", samples, 1), as_integer("seed", seed)
    inputs, lengths = as_inputs(model, data, lengths)
    return torch.cat([_features(m, inputs, lengths, samples, seed, readout) for m in model.members], dim=-1)


def _features(
    model: SequenceModel, inputs: Tensor, lengths: Tensor | None, samples: int, seed: int, readout: Readout | None
) -> Tensor:
    mode = model.resolve_mode(None)
    mode = "soft" if mode == "exact" else mode
    samples = samples if mode in SAMPLED_MODES else 1
    rows, parts = [], []
    model = in_eval_mode(model)
    with torch.no_grad():
        floats = model.layer.floats_per_step(mode, per_step=False)
        for chunk in chunks(inputs, lengths, model.device, floats, samples):
            (noise,) = noises(fingerprint(chunk.inputs, chunk.lengths), samples, seed, samples, mode)
            read = model.features(chunk.inputs, chunk.lengths, noise=noise, mode=mode, readout=readout)
            rows.append(chunk.rows)
            parts.append(read.unflatten(0, (samples, -1)).mean(0).cpu())
    return torch.cat(parts)[torch.cat(rows).argsort()]
