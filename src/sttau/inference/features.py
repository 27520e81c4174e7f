"""What a network has made of a sequence, before its head says what that means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_tensor
from sttau.engine.noise import Noise, fingerprint
from sttau.inference.predict import DRAWN, choose_mode, evaluating, numbers_of, pieces
from sttau.layers import FiniteStateRNN
from sttau.models import SequenceModel


def features(model: SequenceModel, inputs: Any, lengths: Any = None, samples: int = 10, seed: int = 0) -> Tensor:
    """Return what the recurrent layer gives at the end of each sequence, the mean over runs where it draws.

    Of a finite-state layer it is u_T, what the cell computed, whatever the head reads: mixtures of a few states have
    less to tell apart. Members of an ensemble stand side by side.

    Args:
        model: a classifier or regressor, or an ensemble.
        inputs: (batch, time, features), or (batch, time) token ids.
        lengths: (batch,) valid steps.
        samples: runs, of a layer that draws.
        seed: of the noise.

    Returns:
        (batch, members · directions · hidden_size), on the CPU.

    Example:
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(8, 32, num_states=5), num_classes=3)
        >>> features(model, torch.randn(4, 10, 8)).shape
        torch.Size([4, 32])
    """
    inputs = as_tensor("inputs", inputs)
    lengths = model.check(inputs, None if lengths is None else as_tensor("lengths", lengths))
    return torch.cat([_features(member, inputs, lengths, samples, seed) for member in model.members], dim=-1)


def _features(model: SequenceModel, inputs: Tensor, lengths: Tensor | None, samples: int, seed: int) -> Tensor:
    mode = choose_mode(model, "auto")
    mode = "soft" if mode == "exact" else mode
    drawn = mode in DRAWN
    runs = samples if drawn else 1
    places, parts = [], []
    with torch.no_grad(), evaluating(model), _reading_cells(model):
        device, width = model.head.weight.device, numbers_of(model, mode)
        for piece, x, length, _ in pieces(inputs, lengths, device, width, runs):
            noise = Noise.of(fingerprint(x, length), runs, seed) if drawn else None
            read = model._read(x, length, noise, mode, per_step=False)
            places.append(piece)
            parts.append(read.unflatten(0, (runs, -1)).mean(0).cpu())
    return torch.cat(parts)[torch.cat(places).argsort()]


@contextmanager
def _reading_cells(model: SequenceModel) -> Iterator[None]:
    layer = model.layer
    if not isinstance(layer, FiniteStateRNN):
        yield
        return
    before, layer.readout = layer.readout, "cell"
    try:
        yield
    finally:
        layer.readout = before
