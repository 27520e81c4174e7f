"""Models saved by earlier versions load, and predict what they predicted: weights, settings and noise are stable."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sttau import load, predict
from sttau.layers import LayerMode

ARTEFACTS = Path(__file__).parent / "artefacts"


@pytest.mark.parametrize(
    ("mode", "accept"),
    [("soft", [0.9087697, 0.6612787]), ("hard", [0.9496160, 0.6595649]), ("exact", [0.8272935, 0.7048099])],
)
def test_a_classifier_of_format_1_predicts_what_it_predicted(mode: LayerMode, accept: list[float]) -> None:
    model = load(ARTEFACTS / "classifier-v1.safetensors")
    tokens, lengths = torch.tensor([[0, 1, 2, 3, 1], [3, 2, 0, 0, 0]]), torch.tensor([5, 2])
    p = predict(model, tokens, lengths, samples=4, seed=7, mode=mode)
    torch.testing.assert_close(p.mean[:, 1], torch.tensor(accept), rtol=0, atol=2e-6)
