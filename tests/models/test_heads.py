"""States with fixed labels (the paper's Algorithm 2)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from sttau import SequenceClassifier, STTauGRU, load, predict
from sttau.engine import Noise
from sttau.training import fit


def _halves(mode: Any = "soft", states: int = 4) -> SequenceClassifier:
    torch.manual_seed(0)
    layer = STTauGRU(3, 8, states, mode=mode)
    with torch.no_grad():
        layer.states.mul_(2)
    return SequenceClassifier(layer, 2, head="halves").double()


def test_the_first_half_of_the_states_rejects_and_the_second_accepts() -> None:
    assert _halves().state_logits().exp().tolist() == [[1, 0], [1, 0], [0, 1], [0, 1]]


def test_fixed_labels_give_the_probability_of_the_half_that_paths_end_in() -> None:
    model = _halves("exact")
    x = torch.randn(2, 3, 3, dtype=torch.float64)
    layer = model.finite_state_layer
    first, matrices = layer.first_distribution(x[:, 0]), layer.transition_matrices(x[:, 1:])
    expected = torch.zeros(2, 2, dtype=torch.float64)
    for path in product(range(4), repeat=3):
        chance = first[:, path[0]] * matrices[:, 0, path[0], path[1]] * matrices[:, 1, path[1], path[2]]
        expected[:, path[2] // 2] += chance
    torch.testing.assert_close(model(x).softmax(-1), expected)
    torch.testing.assert_close(model.loss(x, torch.tensor([0, 1])), -(expected[0, 0] * expected[1, 1]).log() / 2)


def test_soft_runs_answer_with_the_share_of_alpha_at_the_last_valid_step() -> None:
    model = _halves()
    x, lengths = torch.randn(3, 5, 3, dtype=torch.float64), torch.tensor([5, 2, 1])
    noise = Noise.of(torch.arange(3), 2, 0, 0)
    alpha = model.finite_state_layer.transitions(x, lengths, noise=noise)
    every = model(x, lengths, noise=noise, per_step=True).exp()
    last = model(x, lengths, noise=noise).exp()
    for row in range(6):
        end = int(lengths[row % 3]) - 1
        torch.testing.assert_close(last[row, 1], alpha[row, end, 2:].sum())
        torch.testing.assert_close(every[row, end], last[row])


@pytest.mark.parametrize("mode", ["soft", "hard", "exact"])
def test_fixed_labels_can_be_trained_in_every_mode(mode: str) -> None:
    model = _halves(mode)
    x = torch.randn(64, 4, 3, dtype=torch.float64)
    x[:, -1, 0] *= 3
    labels = (x[:, -1, 0] > 0).long()
    log = fit(model, x, labels, updates=60, learning_rate=0.05)
    assert log[-1].loss < 0.75 * log[0].loss
    assert model.head.weight.tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]


def test_with_fixed_labels_nothing_is_aleatoric_in_exact_mode() -> None:
    p = predict(_halves("exact"), torch.randn(5, 4, 3))
    assert p.aleatoric.abs().max() == 0
    assert p.epistemic.min() > 0
    hard = predict(_halves("exact"), torch.randn(5, 4, 3), mode="hard", samples=7)
    assert hard.aleatoric.abs().max() < 1e-6


def test_fixed_labels_are_saved_and_loaded(tmp_path: Path) -> None:
    model = _halves("exact")
    again = load(model.save(tmp_path / "model.safetensors"))
    x = torch.randn(2, 6, 3, dtype=torch.float64)
    assert torch.equal(model(x), again(x))


def test_fixed_labels_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="5 states are not a multiple of 2"):
        SequenceClassifier(STTauGRU(3, 8, 5), 2, head="halves")
    with pytest.raises(ValueError, match="head must be one of 'dense', 'halves', got 'thirds'"):
        SequenceClassifier(STTauGRU(3, 8, 6), 2, head="thirds")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs a finite-state layer"):
        SequenceClassifier(torch.nn.GRU(3, 8), 2, head="halves")
    with pytest.raises(ValueError, match="readout='state'"):
        SequenceClassifier(STTauGRU(3, 8, 4, readout="cell"), 2, head="halves")
