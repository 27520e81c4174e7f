"""An LSTM with a mask on its recurrent state, one per row, the same at all steps: the specification.

g_t = W_x x_t + b + W_h (m ⊙ h_{t-1}),   then the gates of an LSTM
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class MaskedWeights(NamedTuple):
    """Weights of one layer and direction, gates in the order of ``nn.LSTM``."""

    input: Tensor  # (4 d, features)
    recurrent: Tensor  # (4 d, d)
    bias: Tensor | None  # (4 d,), the sum of both of nn.LSTM's


def run(
    x: Tensor, weights: MaskedWeights, mask: Tensor, hidden: Tensor, memory: Tensor, lengths: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Step by step; arguments and results as in :func:`sttau.engine.masked.run`."""
    outputs = []
    for t, step in enumerate(x):
        g = F.linear(step, weights.input, weights.bias) + F.linear(mask * hidden, weights.recurrent)
        i, f, n, o = g.chunk(4, dim=-1)
        c = f.sigmoid() * memory + i.sigmoid() * n.tanh()
        h = o.sigmoid() * c.tanh()
        if lengths is None:
            hidden, memory = h, c
            outputs.append(h)
        else:
            valid = (t < lengths)[:, None]
            hidden, memory = torch.where(valid, h, hidden), torch.where(valid, c, memory)
            outputs.append(torch.where(valid, h, 0))
    return torch.stack(outputs), memory
