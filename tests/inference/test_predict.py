"""Predictions by Monte Carlo against exact inference and against models computed by hand."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sttau import (
    BayesLSTM,
    Prediction,
    RegressionPrediction,
    SequenceClassifier,
    SequenceRegressor,
    StateRegularizedGRU,
    StateRegularizedLSTM,
    STTauGRU,
    STTauLSTM,
    VariationalDropoutLSTM,
    predict,
)
from sttau.engine import Noise
from tests.inference.small_models import APART, DOUBLE, EXACTLY, FIELDS, SAMPLED, batch_of, bits, bold, close, small_gru

# -- exact inference is the sum over all paths ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (STTauLSTM(2, 4, 3), "memory c_t depends on the whole path"),
        (STTauGRU(2, 4, 3, readout="cell"), r'readout="cell" reads u_t'),
        (STTauGRU(2, 4, 3, num_layers=2), "random path of the layer below"),
        (STTauGRU(2, 4, 3, bidirectional=True), "one direction"),
        (nn.LSTM(2, 4), "mode must be one of 'deterministic' for LSTM"),
        (nn.GRU(2, 4), "mode must be one of 'deterministic' for GRU"),
    ],
    ids=["LSTM", "cell readout", "two layers", "bidirectional", "nn.LSTM", "nn.GRU"],
)
def test_exact_is_refused_with_the_reason_where_it_would_be_false(layer: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        predict(SequenceClassifier(layer, 3), torch.zeros(1, 3, 2), mode="exact")


# -- Monte Carlo ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "temperature"), [("hard", 1.0), ("soft", 1e-9)], ids=["hard", "soft at τ → 0"])
def test_monte_carlo_converges_to_exact(mode: Any, temperature: float) -> None:
    model, x, runs = small_gru(temperature=temperature), batch_of(3, 4, 2), 20_000
    lengths = [4, 3, 1]
    truth = predict(model, x, lengths, mode="exact", per_step=True)
    drawn = predict(model, x, lengths, runs, mode=mode, per_step=True)
    with torch.no_grad():
        distributions = model.chain(x, torch.tensor(lengths)).distributions[..., None]  # (batch, time, k, 1)
        outcome = model.head(model.layer.states).softmax(-1)  # (k, classes)
    away = (outcome - truth.mean[:, :, None]).square()
    fourth = (distributions * away.square()).sum(-2)
    surprise = (distributions[..., 0] * (bits(outcome) - truth.aleatoric[..., None]).square()).sum(-1)
    for name, spread in (  # the variance of one draw's share in each estimate
        ("mean", truth.variance),
        ("variance", fourth - truth.variance.square()),
        ("aleatoric", surprise),
    ):
        z = (getattr(drawn, name) - getattr(truth, name)) / (spread / runs).sqrt()
        assert z.abs().max() < 4.5, name


@pytest.mark.parametrize("kind", [STTauLSTM, STTauGRU])
@pytest.mark.parametrize("deep", [False, True], ids=["one layer", "two layers both ways"])
def test_soft_at_a_tiny_temperature_is_hard_path_by_path(kind: Any, deep: bool) -> None:
    layer = kind(2, 4, 3, num_layers=2 if deep else 1, bidirectional=deep, temperature=1e-9)
    model, x = bold(SequenceClassifier(layer, 3)), batch_of(3, 6, 2)
    soft, hard = (predict(model, x, samples=200, mode=mode, keep_samples=True).samples for mode in ("soft", "hard"))
    assert soft is not None
    assert hard is not None
    close(soft, hard, 1e-9)
    assert hard.var(0).max() > APART  # the paths do differ


@pytest.mark.parametrize("temperature", [1.0, 2.98])
def test_soft_and_hard_are_different_models(temperature: float) -> None:
    """One choice between two states with p = 0.9: the mean of soft α is not 0.9 (docs/mathematics.md, §5)."""
    model = SequenceRegressor(STTauGRU(1, 2, num_states=2, temperature=temperature, dtype=DOUBLE))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "temperature" not in name:
                weight.zero_()
        layer = cast(STTauGRU, model.layer)
        layer.states.copy_(3 * torch.eye(2))
        layer.get_parameter("bias_ih_l0")[2:4] = -100  # the update gate is shut
        layer.get_parameter("bias_ih_l0")[4] = math.atanh(math.log(9) / 3)  # so logits differ by log 9
        model.head.weight[0, 0] = 1 / 3  # the answer is α_0
    runs = 20_000
    u = (torch.arange(10**6, dtype=DOUBLE) + 0.5) / 10**6
    alpha = ((math.log(9) + u.logit()) / temperature).sigmoid()  # a difference of Gumbels is logistic
    x = torch.zeros(1, 1, 1, dtype=DOUBLE)
    soft, hard, whole = (predict(model, x, None, runs, 0, mode) for mode in ("soft", "hard", "exact"))
    assert whole.mean.item() == pytest.approx(0.9, abs=EXACTLY)
    assert hard.mean.item() == pytest.approx(0.9, abs=4.5 * 0.3 / math.sqrt(runs))
    mean, deviation = alpha.mean().item(), alpha.std().item()
    assert soft.mean.item() == pytest.approx(mean, abs=4.5 * deviation / math.sqrt(runs))
    assert f"{mean:.3f}" == {1.0: "0.816", 2.98: "0.664"}[temperature]


@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_the_seed_decides_the_noise(mode: Any) -> None:
    model, x = small_gru(), batch_of(3, 5, 2)
    first, again, other = (predict(model, x, seed=seed, mode=mode).mean for seed in (7, 7, 8))
    assert torch.equal(first, again)
    assert bool(((first - other).abs().amax(-1) > APART).all())


def test_sequences_are_named_by_their_content_unless_ids_say_otherwise() -> None:
    model = small_gru()
    x = batch_of(1, 5, 2).expand(2, 5, 2)  # the same sequence twice
    same = predict(model, x).mean
    close(same[0], same[1])
    one_two, two_one = predict(model, x, ids=[1, 2]).mean, predict(model, x, ids=np.array([2, 1])).mean
    assert (one_two[0] - one_two[1]).abs().max() > APART
    close(one_two, two_one.flip(0))
    with torch.no_grad():
        model.layer.get_parameter(
            "weight_ih_l0"
        ).zero_()  # a model that does not look: only the noise tells sequences apart
    blind = predict(model, batch_of(3, 5, 2), ids=[4, 4, 5]).mean
    close(blind[0], blind[1])
    assert (blind[0] - blind[2]).abs().max() > APART


# -- after every step ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "mode"),
    [
        (STTauLSTM(2, 4, 3), "soft"),
        (STTauLSTM(2, 4, 3, num_layers=2), "hard"),
        (STTauGRU(2, 4, 3), "soft"),
        (STTauGRU(2, 4, 3, readout="cell"), "hard"),
        (STTauGRU(2, 4, 3), "exact"),
        (STTauGRU(2, 4, 3), "deterministic"),
        (nn.LSTM(2, 4, num_layers=2), None),
        (nn.GRU(2, 4), None),
        (BayesLSTM(2, 4, num_layers=2), None),
        (VariationalDropoutLSTM(2, 4, num_layers=2), None),
    ],
    ids=str,
)
def test_the_prediction_after_a_step_is_that_of_the_prefix(layer: Any, mode: Any) -> None:
    model, x, lengths = bold(SequenceClassifier(layer, 3)), batch_of(3, 5, 2), [5, 3, 1]
    ids = [11, 12, 13]
    every = predict(model, x, lengths, mode=mode, ids=ids, per_step=True, keep_samples=True)
    last = predict(model, x, lengths, mode=mode, ids=ids)
    for name in FIELDS:
        steps = getattr(every, name)
        assert steps.shape == ((3, 5, 3) if name in ("mean", "variance") else (3, 5))
        close(steps[:, -1], getattr(last, name))
        for t in range(5):
            # beyond a length the last valid step is held
            prefix = predict(model, x[:, : t + 1], [min(n, t + 1) for n in lengths], mode=mode, ids=ids)
            close(steps[:, t], getattr(prefix, name))
    if every.samples is not None:
        assert torch.equal(every.samples[:, 1, 3:], every.samples[:, 1, 2:3].expand(-1, 2, -1))


def test_a_prediction_after_every_step_needs_one_direction() -> None:
    model = SequenceClassifier(STTauGRU(2, 4, 3, bidirectional=True), 3)
    with pytest.raises(ValueError, match="per_step needs a layer that reads in one direction"):
        predict(model, torch.zeros(1, 3, 2), per_step=True)


# -- modes, and layers without states --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "name"),
    [
        (STTauLSTM(2, 4, 3), "soft"),
        (STTauGRU(2, 4, 3), "soft"),
        (STTauGRU(2, 4, 3, mode="hard"), "hard"),
        (STTauGRU(2, 4, 3, mode="exact"), "exact"),
        (STTauLSTM(2, 4, 3, mode="deterministic"), "deterministic"),
        (StateRegularizedLSTM(2, 4, 3), "deterministic"),
        (StateRegularizedGRU(2, 4, 3), "deterministic"),
        (nn.LSTM(2, 4), "deterministic"),
        (nn.GRU(2, 4), "deterministic"),
        (BayesLSTM(2, 4), "sampled"),
        (VariationalDropoutLSTM(2, 4, dropout=0.5), "sampled"),
        (VariationalDropoutLSTM(2, 4, dropout=0.0), "deterministic"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [SequenceClassifier, SequenceRegressor])
def test_the_mode_of_the_layer_is_the_default_and_is_named(
    kind: type[SequenceClassifier | SequenceRegressor], layer: Any, name: Any
) -> None:
    model: Any = bold(kind(layer, 2))
    x = batch_of(2, 4, 2)
    p, asked = predict(model, x), predict(model, x, mode=name)
    assert p.mode == asked.mode == name
    assert torch.equal(p.mean, asked.mean)
    others = {
        mode: predict(model, x, mode=mode).mean for mode in ("soft", "hard") if getattr(layer, "num_states", None)
    }
    for mode, mean in others.items():
        assert ((mean - p.mean).abs().max() > APART) == (mode != name)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_a_plain_layer_is_predicted_as_by_hand(
    kind: type[nn.LSTM | nn.GRU], bidirectional: bool, batch_first: bool
) -> None:
    layer = kind(2, 4, num_layers=2, dropout=0.5, bidirectional=bidirectional, batch_first=batch_first)
    model = bold(SequenceClassifier(layer, 3))
    x, lengths = batch_of(4, 5, 2), [5, 2, 1, 4]
    p = predict(model, x, lengths, samples=9)
    layer.eval()
    with torch.no_grad():
        for row, length in enumerate(lengths):
            end = layer(x[row, :length])[1]  # one sequence, no padding: h_n, or h_n and c_n
            h = end[0] if kind is nn.LSTM else end
            read = h[-2:].flatten() if bidirectional else h[-1]
            close(p.mean[row], model.head(read).softmax(-1))
    assert p.mode == "deterministic"
    assert not bool(p.variance.any())
    assert not bool(p.epistemic.any())
    assert torch.equal(p.aleatoric, p.total)
    close(p.total, bits(p.mean))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_a_plain_layer_is_read_step_by_step_as_by_hand(kind: type[nn.LSTM | nn.GRU]) -> None:
    model = bold(SequenceClassifier(kind(2, 4), 3))
    x = batch_of(2, 5, 2)
    p = predict(model, x, per_step=True)
    with torch.no_grad():
        for row in range(2):
            close(p.mean[row], model.head(model.layer(x[row])[0]).softmax(-1))


@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_a_plain_layer_has_no_states_to_draw(mode: Any) -> None:
    with pytest.raises(ValueError, match=f"mode must be one of 'deterministic' for LSTM, .*got '{mode}'"):
        predict(SequenceClassifier(nn.LSTM(2, 4), 2), torch.zeros(1, 3, 2), mode=mode)


@pytest.mark.parametrize("kind", [BayesLSTM, VariationalDropoutLSTM])
@pytest.mark.parametrize("mode", ["soft", "hard", "exact"])
def test_modes_of_states_are_refused_by_layers_without_states(kind: Any, mode: Any) -> None:
    message = f"mode must be one of 'sampled', 'deterministic' for {kind.__name__}, .*got '{mode}'"
    with pytest.raises(ValueError, match=message):
        predict(SequenceClassifier(kind(2, 4), 2), torch.zeros(1, 3, 2), mode=mode)


def test_sampling_is_refused_by_layers_that_draw_nothing_or_states() -> None:
    x = torch.zeros(1, 3, 2)
    with pytest.raises(ValueError, match=r"mode must be one of 'deterministic' for GRU, .*got 'sampled'"):
        predict(SequenceClassifier(nn.GRU(2, 4), 2), x, mode="sampled")
    with pytest.raises(ValueError, match=r"mode must be one of 'soft', 'hard', .*for STTauGRU, .*got 'sampled'"):
        predict(SequenceClassifier(STTauGRU(2, 4, 3), 2), x, mode="sampled")


@pytest.mark.parametrize("name", SAMPLED)
def test_sampled_layers_are_predicted_as_by_hand(name: str) -> None:
    model, x, ids = bold(SequenceClassifier(SAMPLED[name](), 3)), batch_of(3, 5, 2), torch.tensor([4, 5, 6])
    p = predict(model, x, [5, 3, 1], 6, 5, ids=ids, keep_samples=True, chunk_size=4)
    model.eval()
    with torch.no_grad():
        noises = [Noise.of(ids, 1, 5, run) for run in range(6)]
        runs = torch.stack([model(x, torch.tensor([5, 3, 1]), noise=noise) for noise in noises]).softmax(-1)
    assert p.samples is not None
    close(p.samples, runs)
    close(p.mean, runs.mean(0))
    close(p.epistemic, bits(runs.mean(0)) - bits(runs).mean(0))
    assert p.variance.max() > APART


def test_bayes_weights_are_shared_by_all_sequences_of_a_run_and_masks_are_not() -> None:
    x = batch_of(1, 5, 2).expand(2, 5, 2)
    for name, shared in (("bayes", True), ("dropout", False)):
        p = predict(bold(SequenceClassifier(SAMPLED[name](), 3)), x, ids=[1, 2], keep_samples=True)
        assert p.samples is not None
        assert torch.allclose(p.samples[:, 0], p.samples[:, 1]) == shared


def test_the_rate_of_dropout_can_be_swept_at_prediction() -> None:
    model, x = bold(SequenceClassifier(VariationalDropoutLSTM(2, 16), 3)), batch_of(20, 5, 2)
    spread = []
    for rate in (0.0, 0.1, 0.5, 0.9):
        model.layer.dropout = rate
        spread.append(float(predict(model, x, samples=20).epistemic.mean()))
    assert spread[0] == 0
    assert min(spread[1:]) > APART


# -- regression ----------------------------------------------------------------------------------------------


def test_hard_regression_converges_to_exact() -> None:
    model, x, runs = bold(SequenceRegressor(STTauGRU(2, 4, 3))), batch_of(3, 4, 2), 20_000
    truth = predict(model, x, mode="exact")
    drawn = predict(model, x, samples=runs, mode="hard")
    assert ((drawn.mean - truth.mean) / (truth.epistemic / runs).sqrt()).abs().max() < 4.5


def test_a_plain_regressor_has_no_epistemic_variance() -> None:
    model, x = bold(SequenceRegressor(nn.GRU(2, 4), variance=True)), batch_of(2, 4, 2)
    p = predict(model, x)
    with torch.no_grad():
        mean, raw = model.head(model.layer(x.transpose(0, 1))[1][-1]).chunk(2, dim=-1)
    close(p.mean, mean)
    close(p.aleatoric, torch.log1p(raw.exp()) + 1e-6)
    assert not bool(p.epistemic.any())


# -- what predict leaves behind ------------------------------------------------------------------------------


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("mode", ["soft", "hard", "exact", "deterministic"])
def test_the_default_device_does_not_matter(mode: Any, per_step: bool) -> None:
    model, x, lengths = small_gru(), batch_of(3, 4, 2), torch.tensor([4, 2, 3])
    expected = predict(model, x, lengths, mode=mode, per_step=per_step)
    with torch.device("meta"):  # as torch.set_default_device
        p = predict(model, x, lengths, mode=mode, per_step=per_step)
        of_lists = predict(model, x.tolist(), [4, 2, 3], mode=mode, per_step=per_step)
    assert torch.equal(p.mean, expected.mean)
    assert of_lists.mean.device.type == "cpu"


@pytest.mark.parametrize("mode", ["soft", "hard", "exact", "deterministic"])
def test_no_gradient_is_kept_and_the_global_generator_is_not_touched(mode: Any) -> None:
    model, x = small_gru(), batch_of(2, 4, 2).requires_grad_()
    before = torch.get_rng_state()
    p = predict(model, x, mode=mode, keep_samples=True)
    assert torch.equal(torch.get_rng_state(), before)
    assert not any(value.requires_grad for value in vars(p).values() if isinstance(value, Tensor))
    assert x.grad is None
    assert torch.is_grad_enabled()


def test_the_answer_is_of_the_model_s_kind() -> None:
    layer, x = STTauGRU(2, 4, 3), torch.zeros(1, 3, 2)
    assert type(predict(SequenceClassifier(layer, 3), x)) is Prediction
    assert type(predict(SequenceRegressor(layer), x)) is RegressionPrediction


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"samples": 0}, ValueError, "samples must be at least 1, got 0"),
        ({"chunk_size": 0}, ValueError, "chunk_size must be at least 1, got 0"),
        ({"mode": "mean"}, ValueError, "mode must be one of 'soft', 'hard', 'exact'.* got 'mean'"),
        ({"ids": [1]}, ValueError, r"ids must have shape \(2,\), one per sequence, got \(1,\)"),
        ({"ids": [0.5, 1.5]}, TypeError, "ids must be integers, got torch.float32"),
        ({"ids": [[1], [2, 3]]}, TypeError, "ids must be a tensor, an array or nested lists"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        predict(small_gru(), batch_of(2, 3, 2), **options)
