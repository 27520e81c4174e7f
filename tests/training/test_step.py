from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from sttau import SequenceClassifier
from sttau.training import fit
from tests.training.small_runs import LAYERS, signs, weights_of


def test_any_optimizer_can_be_taken() -> None:
    x, y, _ = signs()
    model, oracle = (SequenceClassifier(nn.GRU(2, 4), 2) for _ in range(2))
    oracle.load_state_dict(model.state_dict())
    fit(model, x, y, updates=1, batch_size=64, learning_rate=0.1, clip_norm=None, optimizer=torch.optim.SGD)
    oracle.loss(x, y).backward()
    for ours, theirs in zip(model.parameters(), oracle.parameters(), strict=True):
        assert theirs.grad is not None
        torch.testing.assert_close(ours, theirs - 0.1 * theirs.grad)


def test_the_gradient_is_clipped_to_the_norm_given() -> None:
    x, y, _ = signs()
    model = SequenceClassifier(nn.GRU(2, 4), 2)
    before = weights_of(model)
    options: dict[str, Any] = {"learning_rate": 1.0, "optimizer": torch.optim.SGD}
    log = fit(model, x, y, updates=1, batch_size=64, clip_norm=1e-3, **options)
    assert log[0].gradient_norm is not None
    assert log[0].gradient_norm > 1e-2
    assert float((weights_of(model) - before).norm()) == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize("name", ["lstm", "soft", "exact"])
def test_mixed_precision_learns_and_leaves_weights_as_they_are(name: str) -> None:
    x, y, lengths = signs()
    model = SequenceClassifier(LAYERS[name](), 2)
    log = fit(model, x, y, lengths, updates=60, batch_size=64, learning_rate=0.02, precision="bfloat16")
    assert sum(update.loss for update in log[-5:]) < 0.8 * sum(update.loss for update in log[:5])
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_parameters_that_need_no_gradient_stay_as_they_are() -> None:
    x, y, _ = signs()
    model = SequenceClassifier(nn.GRU(2, 4), 2).requires_grad_(False)
    with pytest.raises(ValueError, match="nothing to train"):
        fit(model, x, y)
    model.head.requires_grad_(True)
    before = model.get_parameter("layer.rnn.weight_ih_l0").clone()
    fit(model, x, y, updates=3, weight_decay=0.1)
    assert torch.equal(before, model.get_parameter("layer.rnn.weight_ih_l0"))


def test_cuda_graphs_on_a_cpu_have_no_effect_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    x, y, _ = signs()
    assert len(fit(SequenceClassifier(nn.GRU(2, 4), 2), x, y, updates=1, cuda_graphs=True)) == 1
    assert "cuda_graphs has no effect on device type 'cpu'" in caplog.text
