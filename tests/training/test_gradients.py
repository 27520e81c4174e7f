"""The gradient of an ensemble is taken member by member, and is that of the sum of their losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sttau import BayesLSTM, DeepEnsemble, SequenceClassifier, STTauLSTM, VariationalDropoutLSTM
from sttau.engine import Noise
from sttau.models import Predictor
from sttau.training import fit
from sttau.training.batches import Batch
from sttau.training.gradients import Gradients
from tests.training.small_runs import signs

LAYERS: dict[str, Callable[[], Any]] = {
    "lstm": lambda: nn.LSTM(2, 4),
    "two layers": lambda: nn.LSTM(2, 4, num_layers=2, dropout=0.5),
    "bayes": lambda: BayesLSTM(2, 4, prior_mixture=(0.5, 0.1)),
    "dropout": lambda: VariationalDropoutLSTM(2, 4, dropout=0.4),
    "st-tau": lambda: STTauLSTM(2, 4, 3),
}


def batch() -> Batch:
    noise = Noise.of(torch.arange(6), seed=3)
    return Batch(torch.randn(6, 5, 2), torch.randint(3, (6,)), torch.tensor([5, 1, 3, 2, 5, 4]), noise, 0.5)


def gradients(model: Predictor, parameters: list[nn.Parameter] | None = None) -> Gradients:
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    return Gradients(model, list(model.parameters()) if parameters is None else parameters, scaler, "float32", 10, 2)


def of_sum(model: Predictor, b: Batch, parameters: list[nn.Parameter]) -> tuple[Tensor, tuple[Tensor | None, ...]]:
    loss = model.loss(b.inputs, b.targets, b.lengths, noise=b.noise) * b.share
    penalty = model.penalty(10)
    loss = loss if penalty is None else loss + penalty / 2
    return loss, torch.autograd.grad(loss, parameters, allow_unused=True)


def same(got: tuple[Tensor | None, ...], want: tuple[Tensor | None, ...]) -> None:
    for ours, theirs in zip(got, want, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            assert torch.equal(ours, theirs)


def test_weighted_losses_of_the_shares_of_a_batch_sum_to_that_of_the_batch() -> None:
    model, b = SequenceClassifier(LAYERS["st-tau"](), 3), batch()
    inputs, targets, lengths, weights = b.inputs, b.targets, b.lengths, torch.tensor([0.0, 3.0, 1.0, 0.5, 0.2, 1.3])
    assert lengths is not None

    def loss(rows: Tensor) -> Tensor:
        noise = Noise.of(rows, seed=3)
        part = Batch(inputs[rows], targets[rows], lengths[rows], noise, len(rows) / 6, weights[rows])
        return gradients(model)(part).loss

    torch.testing.assert_close(loss(torch.arange(4)) + loss(torch.tensor([4, 5])), loss(torch.arange(6)))


@pytest.mark.parametrize("name", LAYERS)
def test_it_is_the_gradient_of_the_sum_to_the_last_bit(name: str) -> None:
    model, b = DeepEnsemble.of(lambda: SequenceClassifier(LAYERS[name](), 3), 3), batch()
    torch.manual_seed(1)
    got = gradients(model)(b)
    torch.manual_seed(1)
    loss, want = of_sum(model, b, list(model.parameters()))
    torch.testing.assert_close(got.loss, loss)
    same(got.values, want)


def test_only_one_member_at_a_time_holds_what_its_backward_pass_needs() -> None:
    model, b = DeepEnsemble.of(lambda: SequenceClassifier(nn.LSTM(2, 4), 3), 3), batch()
    order: list[str] = []
    for number, member in enumerate(model.members):
        member.layer.get_submodule("rnn").register_forward_hook(lambda *_, n=number: order.append(f"forward {n}"))
        member.head.weight.register_hook(lambda _, n=number: order.append(f"backward {n}"))
    gradients(model)(b)
    assert order == [f"{way} {n}" for n in range(3) for way in ("forward", "backward")]


def test_a_weight_that_members_share_gets_the_gradients_of_all() -> None:
    member = SequenceClassifier(nn.LSTM(2, 4), 3)
    other = SequenceClassifier(nn.LSTM(2, 4), 3)
    other.head = member.head
    model, b = DeepEnsemble([member, other]), batch()
    got, (_, want) = gradients(model)(b), of_sum(model, b, list(model.parameters()))
    for ours, theirs in zip(got.values, want, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_weights_that_are_held_fast_have_none() -> None:
    model, b = DeepEnsemble.of(lambda: SequenceClassifier(nn.LSTM(2, 4), 3), 2), batch()
    model.members[0].requires_grad_(False)
    free = [parameter for parameter in model.parameters() if parameter.requires_grad]
    got, (loss, want) = gradients(model, free)(b), of_sum(model, b, free)
    torch.testing.assert_close(got.loss, loss)
    same(got.values, want)


def test_an_ensemble_with_a_loss_of_its_own_stays_in_one_piece() -> None:
    class Diverse(DeepEnsemble):
        def loss(self, *args: Any, **options: Any) -> Tensor:
            return super().loss(*args, **options) * 2

    model, b = Diverse(DeepEnsemble.of(lambda: SequenceClassifier(nn.LSTM(2, 4), 3), 2).members), batch()
    same(gradients(model)(b).values, of_sum(model, b, list(model.parameters()))[1])


class _Weighty(nn.GRU):
    """A layer with a divergence, as one with distributions over its weights has."""

    def kl_divergence(self) -> Tensor:
        return 7 * self.get_parameter("weight_ih_l0").square().sum()


@pytest.mark.parametrize("batch_size", [8, 64])
def test_a_divergence_counts_once_for_all_sequences_whatever_the_batch(batch_size: int) -> None:
    x, y, lengths = signs()
    model = SequenceClassifier(_Weighty(2, 4), 2)
    nn.init.zeros_(model.head.weight)  # the loss of any batch is log 2
    nn.init.zeros_(model.head.bias)
    expected = math.log(2) + 7 * float(model.get_parameter("layer.rnn.weight_ih_l0").detach().square().sum()) / 64
    log = fit(model, x, y, lengths, updates=1, batch_size=batch_size)
    assert log[0].loss == pytest.approx(expected, rel=1e-6)
