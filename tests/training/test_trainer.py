from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

from sttau import DeepEnsemble, SequenceClassifier, SequenceRegressor, STTauGRU, STTauLSTM, predict
from sttau.data import load
from sttau.engine import Noise
from sttau.models import Gaussian, Predictor
from sttau.training import DivergedError, Update, fit, focal_loss, run, validation


def _signs(count: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    """Sequences whose label is the sign of their first step: something to remember."""
    x = torch.randn(count, 3, 2)
    return x, (x[:, 0, 0] > 0).long(), torch.randint(1, 4, (count,))


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: nn.LSTM(2, 16),
    "soft": lambda: STTauLSTM(2, 16, 4),
    "hard": lambda: STTauGRU(2, 16, 4, mode="hard"),
    "exact": lambda: STTauGRU(2, 16, 4, mode="exact"),
    "deterministic": lambda: STTauGRU(2, 16, 4, mode="deterministic"),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.slow
def test_every_mode_learns_to_remember_the_first_step(name: str) -> None:
    x, y, lengths = _signs()
    model = SequenceClassifier(LAYERS[name](), 2)
    log = fit(model, x, y, lengths, updates=250, batch_size=32, learning_rate=0.02)
    assert sum(update.loss for update in log[-10:]) < 0.5 * sum(update.loss for update in log[:10])
    assert float((predict(model, x, lengths).label == y).float().mean()) > 0.9


@pytest.mark.parametrize("variance", [False, True])
@pytest.mark.slow
def test_a_regressor_learns_and_its_variance_head_finds_the_noise(variance: bool) -> None:
    x = torch.randn(512, 3, 1)
    y = x[:, -1, 0] + 0.5 * torch.randn(512)
    model = SequenceRegressor(STTauGRU(1, 16, 8, temperature=0.5), variance=variance)
    fit(model, x, y, updates=300, batch_size=64, learning_rate=0.02)
    p = predict(model, x, samples=20)
    assert float((p.mean[:, 0] - y).square().mean()) < 0.6 * float(y.var())
    if variance:
        assert 0.1 < float(p.aleatoric.mean()) < 0.6  # the noise has variance 0.25


def _weights(model: Predictor) -> Tensor:
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    x, y, lengths = _signs()
    trained = []
    for seed in (1, 1, 2):
        torch.manual_seed(0)
        model = SequenceClassifier(STTauLSTM(2, 8, 3), 2)
        torch.manual_seed(99)  # the state of the global generator does not matter
        torch.rand(seed)
        fit(model, x, y, lengths, updates=5, batch_size=16, seed=seed)
        trained.append(_weights(model))
    assert torch.equal(trained[0], trained[1])
    assert not torch.equal(trained[0], trained[2])


def test_the_global_generator_and_the_training_flag_are_left_as_they_were() -> None:
    x, y, lengths = _signs()
    model = SequenceClassifier(STTauLSTM(2, 8, 3), 2).eval()
    state = torch.get_rng_state()
    fit(model, x, y, lengths, updates=2)
    assert torch.equal(state, torch.get_rng_state())
    assert not model.training


def test_every_sequence_is_seen_once_each_time_round() -> None:
    seen: list[int] = []

    class Watched(SequenceClassifier):
        def loss(  # type: ignore[override]
            self, inputs: Tensor, targets: Tensor, lengths: Tensor | None = None, *, noise: Noise | None = None
        ) -> Tensor:
            seen.extend(inputs[:, 0, 0].int().tolist())
            return super().loss(inputs, targets, lengths, noise=noise)

    x = torch.arange(10.0)[:, None, None].expand(10, 3, 1)
    fit(Watched(nn.GRU(1, 4), 2), x, torch.zeros(10, dtype=torch.int64), updates=6, batch_size=4)
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))
    assert seen[:10] != seen[10:]


def test_epochs_are_passes_over_the_data() -> None:
    x, y, lengths = _signs(10)
    models = [SequenceClassifier(nn.GRU(2, 4), 2) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    log = fit(models[0], x, y, lengths, epochs=2, batch_size=4, schedule="cosine")
    assert [update.of for update in log] == [6] * 6
    assert log == fit(models[1], x, y, lengths, updates=6, batch_size=4, schedule="cosine")
    with pytest.raises(ValueError, match="updates or epochs, not both"):
        fit(models[0], x, y, lengths, epochs=2, updates=6)


def _trained(model: Predictor, *data: Tensor, **options: Any) -> tuple[Tensor, list[float]]:
    """Weights and losses after five updates on all the data."""
    copy = deepcopy(model)
    log = fit(copy, *data, **{"updates": 5, "learning_rate": 0.02, "clip_norm": None} | options)
    return _weights(copy), [update.loss for update in log]


@pytest.mark.parametrize("task", ["classes", "values", "variances", "ensemble"])
def test_a_weight_of_three_counts_as_three_sequences_and_equal_weights_change_nothing(task: str) -> None:
    x, y, lengths = _signs(8)
    x, values = x.double(), torch.randn(8, 2, dtype=torch.float64)
    make: dict[str, Callable[[], Predictor]] = {
        "classes": lambda: SequenceClassifier(nn.GRU(2, 4), 2),
        "values": lambda: SequenceRegressor(nn.GRU(2, 4), 2),
        "variances": lambda: SequenceRegressor(nn.GRU(2, 4), 2, variance=True),
        "ensemble": lambda: DeepEnsemble.of(lambda: SequenceClassifier(nn.GRU(2, 4), 2), size=2),
    }
    model, targets = make[task]().double(), values if task in ("values", "variances") else y
    weights = torch.tensor([0, 1, 2, 3, 1, 1, 0, 2])
    repeated = torch.arange(8).repeat_interleave(weights)
    expected = _trained(model, x[repeated], targets[repeated], lengths[repeated])
    got = _trained(model, x, targets, lengths, sample_weight=weights * 0.3)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        _trained(model, x, targets, lengths, sample_weight=[7] * 8),
        _trained(model, x, targets, lengths),
        rtol=1e-12,
        atol=1e-12,
    )


def test_a_class_weight_is_a_weight_of_all_its_sequences() -> None:
    x, y, lengths = _signs(16)
    model = SequenceClassifier(nn.GRU(2, 4), 2).double()
    weights = torch.tensor([1.0, 4.0], dtype=torch.float64)
    expected = _trained(model, x.double(), y, lengths, sample_weight=weights[y])
    for given in (weights, [1, 4], {1: 4}, {"1": 4.0}):
        assert torch.equal(_trained(model, x.double(), y, lengths, class_weight=given)[0], expected[0])


def test_the_loss_of_the_options_is_used_in_training_only() -> None:
    x, y, lengths = _signs(16)
    model = DeepEnsemble.of(lambda: SequenceClassifier(nn.GRU(2, 4), 2), size=2)
    before = model.loss(x, y, lengths)
    usual = _trained(model, x, y, lengths)
    assert torch.equal(_trained(model, x, y, lengths, loss="cross-entropy")[0], usual[0])
    smoothed = _trained(model, x, y, lengths, label_smoothing=0.3)
    assert not torch.equal(smoothed[0], usual[0])
    torch_own = nn.CrossEntropyLoss(label_smoothing=0.3, reduction="none")
    assert torch.equal(_trained(model, x, y, lengths, loss=torch_own)[0], smoothed[0])
    focal = _trained(model, x, y, lengths, loss="focal")
    assert torch.equal(_trained(model, x, y, lengths, loss=partial(focal_loss, gamma=2))[0], focal[0])
    with torch.no_grad():
        expected = sum(float(torch_own(member(x, lengths), y).mean()) for member in model.members)
    assert smoothed[1][0] == pytest.approx(expected)
    with pytest.raises(ValueError, match="one value per row"):
        fit(model, x, y, lengths, loss=nn.CrossEntropyLoss())
    assert torch.equal(model.loss(x, y, lengths), before)
    assert all(member.criterion is None for member in model.members)


def test_a_regressor_takes_a_function_of_its_output() -> None:
    x, values = torch.randn(8, 3, 2), torch.randn(8, 2)

    def absolute(output: Gaussian, targets: Tensor) -> Tensor:
        return (output.mean - targets).abs().mean(1)

    model = SequenceRegressor(nn.GRU(2, 4), 2)
    _, losses = _trained(model, x, values, loss=absolute)
    assert losses[0] == pytest.approx(float((model(x).mean.detach() - values).abs().mean()))
    for options, message in (
        ({"loss": "focal"}, "loss='focal' is for"),
        ({"label_smoothing": 0.1}, "label_smoothing is"),
        ({"class_weight": "balanced"}, "class_weight is for classifiers"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(model, x, values, **options)


class _OwnLoss(SequenceClassifier):
    def loss(self, inputs: Tensor, targets: Tensor, *args: Any, noise: Noise | None = None) -> Tensor:  # type: ignore[override]
        return super().loss(inputs, targets, *args, noise=noise) * 2


def test_a_loss_of_one_s_own_is_used_and_says_what_it_does_not_follow(caplog: pytest.LogCaptureFixture) -> None:
    x, y, lengths = _signs(16)
    model, usual = _OwnLoss(nn.GRU(2, 4), 2), SequenceClassifier(nn.GRU(2, 4), 2)
    usual.load_state_dict(model.state_dict())
    assert _trained(model, x, y, lengths)[1][0] == 2 * _trained(usual, x, y, lengths)[1][0]
    with pytest.raises(ValueError, match=r"need a loss with an argument weights; _OwnLoss\.loss has none"):
        fit(model, x, y, lengths, class_weight="balanced")
    assert not caplog.records
    assert _trained(model, x, y, lengths, loss="focal")[1][0] == 2 * _trained(usual, x, y, lengths, loss="focal")[1][0]
    assert "no effect unless _OwnLoss.loss calls" in caplog.text


def test_a_scheduler_sets_the_learning_rate_of_every_update() -> None:
    rates: list[float] = []

    class Watched(torch.optim.SGD):
        def step(self, closure: Any = None) -> None:  # type: ignore[override]
            rates.append(self.param_groups[0]["lr"])
            super().step(closure)

    x, y, lengths = _signs(16)
    model = SequenceClassifier(nn.GRU(2, 4), 2)
    options: Any = {"updates": 6, "learning_rate": 0.8, "optimizer": Watched}
    fit(model, x, y, lengths, scheduler=partial(StepLR, step_size=2, gamma=0.5), **options)
    assert rates == [0.8, 0.8, 0.4, 0.4, 0.2, 0.2]
    rates.clear()
    values = iter([1.0, 1.0, 0.5])
    plateau = partial(ReduceLROnPlateau, patience=0, factor=0.5)
    fit(model, x, y, lengths, scheduler=plateau, validation=lambda: next(values), validate_every=2, **options)
    assert rates == [0.8, 0.8, 0.8, 0.8, 0.4, 0.4]


def test_the_log_reports_loss_and_temperature_and_can_end_training() -> None:
    x, y, lengths = _signs()
    model = SequenceClassifier(STTauGRU(2, 8, 3, num_layers=2, temperature=2.0), 2)
    seen: list[Update] = []

    def watch(update: Update) -> bool:
        seen.append(update)
        return update.number == 3

    assert fit(model, x, y, lengths, updates=10, callbacks=watch) == seen
    assert [update.number for update in seen] == [1, 2, 3]
    assert seen[-1].of == 10
    assert len(seen[0].temperature) == 2
    assert fit(SequenceClassifier(nn.LSTM(2, 4), 2), x, y, updates=1)[0].temperature == ()


def test_the_weights_with_the_smallest_validation_value_are_kept() -> None:
    x, y, lengths = _signs()
    model = SequenceClassifier(STTauGRU(2, 8, 3), 2)
    values, weights = iter([3.0, 1.0, 2.0, 1.0]), []

    def validate() -> float:
        weights.append(_weights(model))
        return next(values)

    log = fit(model, x, y, lengths, updates=7, validation=validate, validate_every=2)
    assert [update.validation for update in log] == [None, 3.0, None, 1.0, None, 2.0, 1.0]
    assert torch.equal(_weights(model), weights[1])


def test_training_ends_when_the_watched_metric_has_not_become_better_for_a_while() -> None:
    x, y, lengths = _signs()
    errors = iter([0.5, 0.4, 0.4, 0.3, 0.6, float("nan"), 0.1])
    model = SequenceClassifier(nn.GRU(2, 4), 2)
    kept: list[Tensor] = []

    def validate() -> dict[str, float]:
        kept.append(_weights(model))
        return {"nll": 1.0, "error": next(errors)}

    options: dict[str, Any] = {"updates": 99, "validation": validate, "validate_every": 3, "patience": 2}
    log = fit(model, x, y, lengths, metric="error", **options)
    assert len(log) == 18  # 0.6 and NaN are two in a row
    assert log[11].metrics == {"nll": 1.0, "error": 0.3}
    assert torch.equal(_weights(model), kept[3])


def test_a_metric_can_be_made_large() -> None:
    x, y, lengths = _signs()
    values = iter([0.5, 0.9, 0.7, 0.8, 0.6])
    model = SequenceClassifier(nn.GRU(2, 4), 2)
    kept: list[Tensor] = []

    def validate() -> float:
        kept.append(_weights(model))
        return next(values)

    log = fit(model, x, y, lengths, updates=99, validation=validate, validate_every=1, mode="max", patience=3)
    assert len(log) == 5
    assert torch.equal(_weights(model), kept[1])


def test_any_optimizer_can_be_taken() -> None:
    x, y, _ = _signs()
    model, oracle = (SequenceClassifier(nn.GRU(2, 4), 2) for _ in range(2))
    oracle.load_state_dict(model.state_dict())
    fit(model, x, y, updates=1, batch_size=64, learning_rate=0.1, clip_norm=None, optimizer=torch.optim.SGD)
    oracle.loss(x, y).backward()
    for ours, theirs in zip(model.parameters(), oracle.parameters(), strict=True):
        assert theirs.grad is not None
        torch.testing.assert_close(ours, theirs - 0.1 * theirs.grad)


def test_the_gradient_is_clipped_to_the_norm_given() -> None:
    x, y, _ = _signs()
    model = SequenceClassifier(nn.GRU(2, 4), 2)
    before = _weights(model)
    options: dict[str, Any] = {"learning_rate": 1.0, "optimizer": torch.optim.SGD}
    log = fit(model, x, y, updates=1, batch_size=64, clip_norm=1e-3, **options)
    assert log[0].gradient_norm is not None
    assert log[0].gradient_norm > 1e-2
    assert float((_weights(model) - before).norm()) == pytest.approx(1e-3, rel=1e-3)


class _Weighty(nn.GRU):
    """A layer with a divergence, as one with distributions over its weights has."""

    def kl_divergence(self) -> Tensor:
        return 7 * self.get_parameter("weight_ih_l0").square().sum()


@pytest.mark.parametrize("batch_size", [8, 64])
def test_a_divergence_counts_once_for_all_sequences_whatever_the_batch(batch_size: int) -> None:
    x, y, lengths = _signs()
    model = SequenceClassifier(_Weighty(2, 4), 2)
    nn.init.zeros_(model.head.weight)  # the loss of any batch is log 2
    nn.init.zeros_(model.head.bias)
    expected = math.log(2) + 7 * float(model.get_parameter("layer.rnn.weight_ih_l0").detach().square().sum()) / 64
    log = fit(model, x, y, lengths, updates=1, batch_size=batch_size)
    assert log[0].loss == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["lstm", "soft", "exact"])
def test_mixed_precision_learns_and_leaves_weights_as_they_are(name: str) -> None:
    x, y, lengths = _signs()
    model = SequenceClassifier(LAYERS[name](), 2)
    log = fit(model, x, y, lengths, updates=60, batch_size=64, learning_rate=0.02, precision="bfloat16")
    assert sum(update.loss for update in log[-5:]) < 0.8 * sum(update.loss for update in log[:5])
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_parameters_that_need_no_gradient_stay_as_they_are() -> None:
    x, y, _ = _signs()
    model = SequenceClassifier(nn.GRU(2, 4), 2).requires_grad_(False)
    with pytest.raises(ValueError, match="nothing to train"):
        fit(model, x, y)
    model.head.requires_grad_(True)
    before = model.get_parameter("layer.rnn.weight_ih_l0").clone()
    fit(model, x, y, updates=3, weight_decay=0.1)
    assert torch.equal(before, model.get_parameter("layer.rnn.weight_ih_l0"))


def test_cuda_graphs_on_a_cpu_have_no_effect_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    x, y, _ = _signs()
    assert len(fit(SequenceClassifier(nn.GRU(2, 4), 2), x, y, updates=1, cuda_graphs=True)) == 1
    assert "cuda_graphs has no effect on device type 'cpu'" in caplog.text


def test_a_gradient_that_is_no_number_is_named_with_its_update_and_parameter() -> None:
    x, y, _ = _signs()
    model = SequenceClassifier(nn.LSTM(2, 4), 2)
    model.head.bias.register_hook(lambda gradient: gradient * float("inf"))
    message = r"gradient became inf at update 1 of 5; gradients that are not finite: head\.bias\."
    with pytest.raises(DivergedError, match=message):
        fit(model, x, y, updates=5)


def test_a_gradient_whose_norm_alone_overflows_is_limited_to_nothing() -> None:
    x, y, _ = _signs()

    def exploding() -> SequenceClassifier:
        torch.manual_seed(0)
        model = SequenceClassifier(nn.LSTM(2, 4), 2)
        model.head.bias.register_hook(lambda gradient: gradient.sign() * 1e30)
        return model

    model = exploding()
    before = _weights(model)
    log = fit(model, x, y, updates=3)
    assert [update.gradient_norm for update in log] == [float("inf")] * 3
    assert torch.equal(before, _weights(model))
    with pytest.raises(DivergedError, match=r"became inf at update 1 of 3; gradients that are not finite: none alone"):
        fit(exploding(), x, y, updates=3, clip_norm=None)


def test_a_diverging_loss_stops_with_the_update_and_keeps_the_weights_before_it() -> None:
    x, y, _ = _signs()
    model = SequenceClassifier(nn.LSTM(2, 4), 2)
    with torch.no_grad():
        model.head.bias[0] = float("nan")
    before = _weights(model)
    with pytest.raises(FloatingPointError, match=r"loss became nan at update 1 of 5.*learning_rate"):
        fit(model, x, y, updates=5)
    assert torch.equal(before.nan_to_num(), _weights(model).nan_to_num())


class Rates(torch.optim.SGD):
    """Plain descent that notes its learning rate."""

    def __init__(self, parameters: Any, **options: Any) -> None:
        super().__init__(parameters, **options)
        self.rates: list[float] = []
        made.append(self)

    def step(self, closure: Any = None) -> Any:
        self.rates.append(self.param_groups[0]["lr"])
        return super().step(closure)


made: list[Rates] = []


def test_the_learning_rate_rises_and_falls_as_asked_for() -> None:
    x, y, lengths = _signs()
    options: dict[str, Any] = {"updates": 8, "learning_rate": 0.1, "optimizer": Rates}
    fit(SequenceClassifier(nn.LSTM(2, 4), 2), x, y, lengths, warmup=3, **options)
    assert made.pop().rates == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1, 0.1, 0.1, 0.1])
    fit(SequenceClassifier(nn.LSTM(2, 4), 2), x, y, lengths, schedule="cosine", **options)
    rates = made.pop().rates
    assert rates[0] == pytest.approx(0.1)
    assert rates[4] == pytest.approx(0.05)  # half way
    assert rates == sorted(rates, reverse=True)
    assert 0 < rates[-1] < 0.01


def test_an_average_of_the_weights_is_validated_and_kept_while_training_goes_its_own_way() -> None:
    x, y, lengths = _signs()

    def train(**options: Any) -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(0)
        model, seen = SequenceClassifier(STTauGRU(2, 4, 3), 2), list[Tensor]()
        fit(
            model,
            x,
            y,
            lengths,
            updates=30,
            learning_rate=0.05,
            callbacks=lambda _: seen.append(_weights(model)),
            **options,
        )
        return _weights(model), seen

    plain, path = train()
    mean, same_path = train(ema_decay=0.8)
    assert all(torch.equal(a, b) for a, b in zip(path, same_path, strict=True))
    torch.manual_seed(0)
    expected = _weights(SequenceClassifier(STTauGRU(2, 4, 3), 2))
    for number, weights in enumerate(path, 1):
        expected = expected.lerp(weights, max(0.2, 1 / (1 + number)))
    torch.testing.assert_close(mean, expected)
    assert not torch.allclose(mean, plain)

    torch.manual_seed(0)
    model, validated = SequenceClassifier(STTauGRU(2, 4, 3), 2), list[Tensor]()

    def validate() -> float:
        validated.append(_weights(model))
        return -float(len(validated))

    fit(model, x, y, lengths, updates=30, learning_rate=0.05, ema_decay=0.8, validation=validate, validate_every=30)
    torch.testing.assert_close(validated[-1], expected)
    assert torch.equal(_weights(model), validated[-1])


def test_losses_that_are_read_in_groups_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, which would wait at every reading."""
    x, y, lengths = _signs()

    def train() -> tuple[Tensor, list[Update], list[int]]:
        torch.manual_seed(0)
        model, told = SequenceClassifier(STTauGRU(2, 4, 3), 2), list[int]()
        measure = validation(model, x, y, lengths, samples=1)
        log = fit(
            model, x, y, lengths, updates=33, validation=measure, metric="nll", validate_every=9,
            callbacks=lambda update: told.append(update.number),
        )  # fmt: skip
        return _weights(model), log, told

    at_once = train()
    monkeypatch.setattr(run, "_UNREAD", {"cpu": 7})
    in_groups = train()
    assert torch.equal(at_once[0], in_groups[0])
    assert at_once[1:] == in_groups[1:]
    assert at_once[2] == list(range(1, 34))


def test_weights_that_an_endless_gradient_has_spoilt_are_found_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though neither the loss nor a later gradient knows of them: nobody has read that word since."""
    monkeypatch.setattr(run, "_UNREAD", {"cpu": 5})
    model = SequenceClassifier(nn.LSTM(3, 4), 2, embedding=nn.Embedding(6, 3))
    factors = iter([float("inf")])

    def spoil(gradient: Tensor) -> Tensor:
        return torch.cat([gradient[:-1], torch.full_like(gradient[-1:], next(factors, 0.0))])

    assert model.embedding is not None
    model.embedding.weight.register_hook(spoil)
    tokens = torch.randint(1, 5, (32, 7), generator=torch.Generator().manual_seed(0))
    with pytest.raises(DivergedError, match=r"inf at update 1 of 20; gradients that are not finite: embedding\.weight"):
        fit(model, tokens, tokens[:, 0] % 2, updates=20)


def test_a_loss_that_is_found_spoilt_later_names_the_first_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_UNREAD", {"cpu": 5})
    x, y, _ = _signs()
    model = SequenceClassifier(nn.LSTM(2, 4), 2)
    with torch.no_grad():
        model.head.bias[0] = float("nan")
    with pytest.raises(DivergedError, match=r"nan at update 1 of 20;.* 5 updates have been made with it"):
        fit(model, x, y, updates=20)


def test_bad_arguments_are_refused_by_name() -> None:
    x, y, lengths = _signs(8)
    model = SequenceClassifier(nn.LSTM(2, 4), 2)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"updates": 0}, "updates must be at least 1"),
        ({"updates": 7.5}, "updates must be an integer, at least 1, got 7.5"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"updates": float("inf")}, "updates must be an integer"),
        ({"validate_every": 2.5}, "validate_every must be an integer"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"validate_every": 0}, "validate_every must be at least 1"),
        ({"checkpoint_every": 0}, "checkpoint_every must be at least 1"),
        ({"bucket_batches": 0}, "bucket_batches must be at least 1"),
        ({"clip_norm": 0.0}, "clip_norm must be positive, or None"),
        ({"precision": "int8"}, "precision must be one of 'float32', 'bfloat16'"),
        ({"precision": "float16"}, "needs a GPU; on a CPU use 'bfloat16'"),
        ({"mode": "up"}, "mode must be one of 'min', 'max'"),
        ({"schedule": "steep"}, "schedule must be one of 'constant', 'cosine'"),
        ({"loss": "hinge"}, "loss must be one of 'cross-entropy', 'focal', or a function"),
        ({"loss": nn.CrossEntropyLoss()}, r"loss must return one value per row.*shape \(8,\).*reduction='none'"),
        ({"loss": lambda *_: 1.0}, "loss must return one value per row.*got float"),
        ({"label_smoothing": 1.0}, r"label_smoothing must be in \[0, 1\)"),
        ({"label_smoothing": 0.1, "loss": "focal"}, "label_smoothing is part of loss='cross-entropy'"),
        ({"class_weight": "even"}, "class_weight must be 'balanced', a mapping"),
        ({"class_weight": [1.0, -1.0]}, "class_weight must hold nonnegative finite weights, got -1.0"),
        ({"class_weight": [1.0]}, "class_weight must hold one weight per class, 2, got 1"),
        ({"class_weight": {"cat": 2.0}}, "class_weight names 'cat'; the classes are 0 … 1"),
        ({"class_weight": {2: 2.0}}, "class_weight names 2; the classes are 0 … 1"),
        ({"class_weight": [0.0, 0.0]}, "are 0 for all training sequences"),
        ({"sample_weight": [1.0] * 7}, "sample_weight must hold one weight per training sequence, 8, got 7"),
        ({"sample_weight": [[1.0] * 8]}, r"sample_weight must be \(sequences,\)"),
        ({"sample_weight": [float("nan")] * 8}, "sample_weight must be nonnegative and finite"),
        ({"soft_labels": [0.5] * 8}, r"soft_labels must be \(sequences, classes\)"),
        ({"soft_labels": [[0.5, 0.4]] * 8}, "soft_labels must hold nonnegative probabilities that sum to 1, but row 0"),
        ({"soft_labels": [[0.5, 0.5]] * 7}, r"soft_labels must have shape \(8, 2\).*got \(7, 2\)"),
        ({"soft_labels": [[0.5, 0.5]] * 8, "loss": "focal"}, "soft_labels need loss='cross-entropy'"),
        ({"scheduler": "cosine"}, "scheduler must be a function from the optimizer to a scheduler.*got 'cosine'"),
        ({"scheduler": lambda _: 3}, "scheduler must return a torch.optim.lr_scheduler.LRScheduler, got int"),
        ({"scheduler": StepLR, "schedule": "cosine"}, "scheduler cannot be combined with schedule and warmup"),
        ({"scheduler": StepLR, "warmup": 2}, "scheduler cannot be combined with schedule and warmup"),
        ({"scheduler": ReduceLROnPlateau}, "ReduceLROnPlateau needs validation data"),
        ({"scheduler": ReduceLROnPlateau, "mode": "max", "validation": lambda: 1.0}, "mode of ReduceLROnPlateau is"),
        ({"progress": "yes"}, "progress must be True, False or None, got 'yes'"),
        ({"warmup": -1}, "warmup must be at least 0"),
        ({"ema_decay": 1.0}, r"ema_decay must be in \[0, 1\), or None"),
        ({"patience": 3}, "patience and metric need validation data"),
        ({"validation": lambda: {"a": 1.0, "b": 2.0}, "validate_every": 1}, "metric must be one of a, b.*got None"),
    ]
    for options, message in wrong:
        with pytest.raises(ValueError, match=message):
            fit(model, x, y, lengths, **options)
    with pytest.raises(ValueError, match="labels must be in 0 … 1"):
        fit(model, x, y + 5)
    with pytest.raises(ValueError, match="lengths must be at least 1"):
        fit(model, x, y, lengths * 0)
    with pytest.raises(ValueError, match="inputs hold NaN"):
        fit(model, x * float("nan"), y)
    with pytest.raises(TypeError, match="targets must be of a floating type"):
        fit(SequenceRegressor(nn.LSTM(2, 4)), x, y)


def test_data_sets_and_tuples_are_taken_as_data_and_validation() -> None:
    digits, held_out = load("digits", "train")[:64], load("digits", "validation")[:32]

    def train(*data: Any, validation: Any) -> tuple[Tensor, list[Update]]:
        torch.manual_seed(0)
        model = SequenceClassifier(nn.LSTM(8, 4), 10)
        log = fit(model, *data, validation=validation, updates=4, validate_every=2)
        return _weights(model), log

    whole, log = train(digits, validation=held_out)
    assert log[-1].validation == log[-1].metrics["nll"]
    assert set(log[-1].metrics) == {"nll", "error"}
    arrays = (held_out.inputs, held_out.labels, held_out.lengths)
    assert torch.equal(whole, train(digits.inputs, digits.labels, digits.lengths, validation=arrays)[0])


def test_wrong_validation_data_is_refused_before_the_first_update() -> None:
    x, y, _ = _signs()
    model, made = SequenceClassifier(nn.LSTM(2, 4), 2), list[Update]()
    for wrong, message in (
        ((x, y + 5), "validation: labels must be in 0 … 1"),
        ((x[:, :, :1], y), "validation: inputs have 1 features per step"),
        ((x,), "validation: targets are missing"),
        (x, "validation: targets are missing"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            fit(model, x, y, validation=wrong, callbacks=made.append)
    assert not made


def test_the_default_device_does_not_matter(tmp_path: Path) -> None:
    x, y, lengths = _signs()
    first = SequenceClassifier(STTauLSTM(2, 8, 3, num_layers=2, dropout=0.3), 2)
    second = deepcopy(first)
    options: dict[str, Any] = {"validation": (x, y, lengths), "updates": 4, "validate_every": 2, "bucket_batches": 2}
    log = fit(first, x, y, lengths, folder=tmp_path / "first", **options)
    with torch.device("meta"):  # as torch.set_default_device
        assert fit(second, x, y, lengths, folder=tmp_path / "second", **options) == log
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
