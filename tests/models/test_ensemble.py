"""A deep ensemble is its members: trained apart in one pass, averaged, saved in one file."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

from sttau import (
    BayesLSTM,
    DeepEnsemble,
    SequenceClassifier,
    SequenceRegressor,
    STTauGRU,
    VariationalDropoutLSTM,
    calibrate,
    load,
    predict,
)
from sttau.data import load as data
from sttau.engine import Noise
from sttau.errors import ModelFileError
from sttau.inference import entropy
from sttau.layers import TorchRNN
from sttau.models import Posterior, Predictor, SequenceModel
from sttau.models.ensemble import with_own_head
from sttau.models.saved import MODEL_FORMAT
from sttau.training import Update, fit, validation

LAYERS: dict[str, Callable[[], Any]] = {
    "lstm": lambda: nn.LSTM(2, 4),
    "bayes": lambda: BayesLSTM(2, 4, rho=-1.0),
    "dropout": lambda: VariationalDropoutLSTM(2, 4, dropout=0.4),
    "st-tau": lambda: STTauGRU(2, 4, 3),
}
LAYER = pytest.mark.parametrize("name", LAYERS)


def of(name: str, size: int = 3, kind: Any = SequenceClassifier, **options: Any) -> DeepEnsemble:
    return DeepEnsemble.of(lambda: kind(LAYERS[name](), 3, **options).double(), size)


def batch(count: int = 5) -> tuple[Tensor, Tensor]:
    return torch.randn(count, 6, 2, dtype=torch.float64), torch.randint(1, 7, (count,))


def close(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


def steps(model: Predictor, updates: int = 5) -> None:
    """Adam on fixed batches, the gradient of each member clipped."""
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for update in range(updates):
        x = torch.randn(8, 4, 2, generator=generator, dtype=torch.float64)
        noise = Noise.of(torch.arange(8), seed=3, first_sample=update)
        optimizer.zero_grad()
        model.loss(x, x[:, 0, 0].gt(0).long(), noise=noise).backward()
        for member in model.members:
            nn.utils.clip_grad_norm_(member.parameters(), 0.1)
        optimizer.step()


@pytest.mark.parametrize("name", ["lstm", "st-tau", "dropout", "bayes"])
def test_members_are_trained_in_one_pass_as_each_would_be_alone(name: str) -> None:
    together, before = of(name), of(name)
    steps(together)
    alone = of(name).members
    steps(alone[0])  # the first keeps the seed of the noise; without noise every member can be compared
    if name == "lstm":
        for member in alone[1:]:
            steps(member)
    for member, other, start in zip(together.members, alone, before.members, strict=True):
        compared = name == "lstm" or other is alone[0]
        for got, want, first in zip(member.parameters(), other.parameters(), start.parameters(), strict=True):
            assert not torch.equal(got, first)
            if compared:
                close(got, want)


def test_members_start_apart_and_the_seed_decides_how() -> None:
    def weights(seed: int) -> list[Tensor]:
        model = DeepEnsemble.of(lambda: SequenceClassifier(nn.LSTM(2, 4), 3), 3, seed)
        return [torch.cat([weight.flatten() for weight in member.parameters()]) for member in model.members]

    state = torch.get_rng_state()
    first, again, other = weights(5), weights(5), weights(6)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other[0])


@LAYER
def test_a_prediction_is_the_mean_over_members_and_their_samples(name: str) -> None:
    model, (x, lengths) = of(name), batch()
    p = predict(model, x, lengths, samples=4, keep_samples=True)
    runs = 1 if name == "lstm" else 4
    assert p.samples.shape == (3 * runs, 5, 3)
    first = predict(model.members[0], x, lengths, samples=4, keep_samples=True)
    close(p.samples[::3], first.samples)
    close(p.mean, p.samples.mean(0))
    close(p.variance, p.samples.var(0, correction=0))
    close(p.epistemic, entropy(p.mean) - entropy(p.samples).mean(0))
    assert bool((p.epistemic > 0).all())
    assert p.mode == first.mode
    parts = predict(model, x, lengths, samples=4, keep_samples=True, chunk_size=3)
    close(parts.samples, p.samples)


def test_members_of_an_ensemble_draw_apart() -> None:
    member = SequenceClassifier(LAYERS["dropout"](), 3).double()
    same = SequenceClassifier(LAYERS["dropout"](), 3).double()
    same.load_state_dict(member.state_dict())
    x, _ = batch()
    samples = predict(DeepEnsemble([member, same]), x, keep_samples=True).samples
    assert not torch.allclose(samples[::2], samples[1::2])


@LAYER
@pytest.mark.parametrize("variance", [False, True])
def test_an_ensemble_of_regressors_splits_its_variance(name: str, variance: bool) -> None:
    model, (x, lengths) = of(name, kind=SequenceRegressor, variance=variance), batch()
    p = predict(model, x, lengths, samples=4, keep_samples=True)
    close(p.mean, p.samples.mean(0))
    close(p.epistemic, p.samples.var(0, correction=0))
    assert bool((p.aleatoric > 0).all()) == variance
    assert model.loss(x, torch.zeros(5, 3, dtype=torch.float64), lengths).isfinite()


def test_an_exact_ensemble_averages_exact_members() -> None:
    make: Callable[[], SequenceModel] = lambda: SequenceClassifier(STTauGRU(2, 4, 3, mode="exact"), 3).double()  # noqa: E731
    model, (x, lengths) = DeepEnsemble.of(make, 3), batch()
    p = predict(model, x, lengths)
    members: list[Any] = list(model.members)
    close(p.mean, torch.stack([predict(member, x, lengths).mean for member in members]).mean(0))
    assert p.mode == "exact"
    assert not hasattr(model, "chain")  # it is no Markov chain, though its members are


def test_hidden_states_are_those_of_the_members() -> None:
    model, (x, lengths) = of("lstm"), batch()
    states = model.hidden_states(x, lengths)
    assert torch.equal(states, torch.cat([member.hidden_states(x, lengths) for member in model.members], -1))


def test_the_penalty_is_the_sum_over_members() -> None:
    parts = [member.penalty(10) for member in of("bayes").members]
    total = of("bayes").penalty(10)
    assert total is not None
    close(total, torch.stack([part for part in parts if part is not None]).sum())
    assert of("lstm").penalty(10) is None


@LAYER
@pytest.mark.parametrize("kind", [SequenceClassifier, SequenceRegressor])
def test_an_ensemble_is_saved_in_one_file(name: str, kind: Any, tmp_path: Path) -> None:
    model, (x, lengths) = of(name, kind=kind), batch()
    again = load(model.save(tmp_path / "ensemble.safetensors"))
    assert [file.name for file in tmp_path.iterdir()] == ["ensemble.safetensors"]
    assert type(again) is DeepEnsemble
    assert len(again.members) == 3
    assert not again.training
    assert torch.equal(predict(again, x, lengths).mean, predict(model, x, lengths).mean)


def test_names_of_the_data_are_saved_with_an_ensemble(tmp_path: Path) -> None:
    strings = data("tomita1", "train")
    model = DeepEnsemble.of(lambda: SequenceClassifier(nn.LSTM(4, 8), 2, nn.Embedding(3, 4)), 2)
    model.set_metadata(strings)
    again = load(model.save(tmp_path / "model"))
    assert again.class_names == ("reject", "accept")
    assert again.vocabulary == ("^", "0", "1")


def test_members_that_do_not_go_together_are_refused() -> None:
    classifier, wider = SequenceClassifier(nn.LSTM(2, 4), 3), SequenceClassifier(nn.LSTM(2, 5), 3)
    wrong: list[tuple[Any, type[Exception], str]] = [
        ([], ValueError, "members must hold at least one model"),
        ([classifier, wider], ValueError, "members must be of one kind, but member 1 differs"),
        ([classifier, SequenceRegressor(nn.LSTM(2, 4), 3)], ValueError, "members must be of one kind"),
        ([DeepEnsemble([classifier])], TypeError, "members must be classifiers or regressors, but member 0"),
    ]
    for members, error, message in wrong:
        with pytest.raises(error, match=message):
            DeepEnsemble(members)
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        DeepEnsemble.of(lambda: classifier, 0)


def test_fit_trains_and_limits_every_member_as_if_it_were_alone() -> None:
    x, y = torch.randn(40, 5, 2), torch.randint(3, (40,))
    ensemble = DeepEnsemble.of(lambda: SequenceClassifier(nn.LSTM(2, 4), 3), 3)
    alone = copy.deepcopy(ensemble.members)
    settings: dict[str, Any] = {"updates": 10, "batch_size": 8, "learning_rate": 0.05, "clip_norm": 0.01}
    fit(ensemble, x, y, **settings)
    for member, single in zip(ensemble.members, alone, strict=True):
        fit(single, x, y, **settings)
        for a, b in zip(member.parameters(), single.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    assert set(validation(ensemble, x, y)()) == {"error", "nll"}


@pytest.mark.parametrize("joint", [0.3, 1.0])
def test_a_joint_loss_weighs_that_of_the_mean_prediction_with_those_of_the_members(joint: float) -> None:
    ensemble = of("lstm")
    ensemble.joint = joint
    (x, lengths), y = batch(), torch.tensor([0, 1, 2, 0, 1])
    alone = [member.loss(x, y, lengths) for member in ensemble.members]
    mean = torch.stack([member(x, lengths).softmax(-1) for member in ensemble.members]).mean(0)
    together = -mean[torch.arange(5), y].log().mean()
    close(ensemble.loss(x, y, lengths), (1 - joint) * sum(alone) + joint * 3 * together)
    weights = torch.tensor([2.0, 0, 1, 0, 0], dtype=torch.float64)
    weighed = -(weights * mean[torch.arange(5), y].log()).mean()
    of_members = sum(member.loss(x, y, lengths, weights=weights) for member in ensemble.members)
    close(ensemble.loss(x, y, lengths, weights=weights), (1 - joint) * of_members + joint * 3 * weighed)


def test_members_that_are_trained_together_are_not_separated_in_training() -> None:
    ensemble = of("lstm")
    assert [network for network, _ in ensemble.separate_losses(None)] == list(ensemble.members)
    ensemble.joint = 0.5
    assert [network for network, _ in ensemble.separate_losses(None)] == [ensemble]


def test_how_members_are_trained_is_saved(tmp_path: Path) -> None:
    ensemble = of("st-tau")
    for joint in (0.25, (0.0, 1.0)):
        ensemble.joint = joint
        loaded = load(ensemble.save(tmp_path / "joint.safetensors"))
        assert isinstance(loaded, DeepEnsemble)
        assert loaded.joint == joint


def test_the_weight_of_the_joint_loss_changes_linearly_during_training() -> None:
    ensemble = of("lstm")
    (x, lengths), y = batch(), torch.tensor([0, 1, 2, 0, 1])
    weights = []

    def note(update: Update) -> None:
        weights.append(update.loss)

    losses = {}
    for joint in (0.0, 1.0):
        ensemble.joint = joint
        losses[joint] = ensemble.loss(x, y, lengths).item()
    ensemble.joint = (0.25, 0.75)
    options = {"updates": 4, "batch_size": 5, "learning_rate": 1e-15, "seed": 0}
    fit(ensemble, x, y, lengths, callbacks=[note], **options)  # type: ignore[arg-type]
    expected = [(1 - beta) * losses[0.0] + beta * losses[1.0] for beta in (0.25, 0.375, 0.5, 0.625)]
    close(torch.tensor(weights, dtype=torch.float64), torch.tensor(expected, dtype=torch.float64))
    close(ensemble.loss(x, y, lengths), torch.tensor(0.25 * losses[0.0] + 0.75 * losses[1.0], dtype=torch.float64))


def test_joint_training_is_refused_where_it_makes_no_sense() -> None:
    with pytest.raises(ValueError, match=r"joint must be between 0 and 1, or two such numbers, got 1\.5"):
        DeepEnsemble.of(lambda: SequenceClassifier(nn.LSTM(2, 4), 3), 2, joint=1.5)
    with pytest.raises(TypeError, match="joint is for classifiers"):
        DeepEnsemble.of(lambda: SequenceRegressor(nn.LSTM(2, 4), 1), 2, joint=0.5)
    with pytest.raises(ValueError, match="joint trains all members"):
        DeepEnsemble([SequenceClassifier(nn.LSTM(2, 4), 3)], Posterior("laplace", 3), joint=0.5)


def _several_heads(kind: Any) -> DeepEnsemble:
    """A network with two further heads."""
    torch.manual_seed(0)
    first = (
        SequenceClassifier(nn.LSTM(3, 8, 2), 4)
        if kind is SequenceClassifier
        else SequenceRegressor(nn.LSTM(3, 8, 2), 2, variance=True)
    )
    members = [first, with_own_head(first), with_own_head(first)]
    for member in members:
        nn.init.normal_(member.head.weight)
    return DeepEnsemble(members).eval()


@pytest.mark.parametrize("kind", [SequenceClassifier, SequenceRegressor])
@pytest.mark.parametrize("per_step", [False, True])
def test_several_heads_read_one_layer_that_runs_once(
    kind: Any, per_step: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x, lengths = _several_heads(kind), torch.randn(5, 7, 3), torch.tensor([7, 3, 5, 1, 6])
    apart = copy.deepcopy(model)
    apart.copy_bodies()
    assert model.differs_in_heads
    assert copy.deepcopy(model).differs_in_heads
    assert not apart.differs_in_heads
    assert not DeepEnsemble(model.members[:1]).differs_in_heads
    expected = predict(apart, x, lengths, per_step=per_step)
    runs: list[int] = []
    whole = TorchRNN.features

    def count(layer: TorchRNN, *given: Any, **named: Any) -> Tensor:
        runs.append(1)
        return whole(layer, *given, **named)

    monkeypatch.setattr(TorchRNN, "features", count)
    found = predict(model, x, lengths, per_step=per_step)
    assert len(runs) == 1
    assert torch.equal(found.mean, expected.mean)
    assert torch.equal(found.epistemic, expected.epistemic)


@pytest.mark.parametrize("kind", [SequenceClassifier, SequenceRegressor])
def test_what_several_heads_share_is_saved_once(kind: Any, tmp_path: Path) -> None:
    model, x = _several_heads(kind), torch.randn(5, 7, 3)
    path = model.save(tmp_path / "heads.safetensors")
    with safe_open(path, framework="pt") as opened:
        names = set(opened.keys())
    assert {name for name in names if "layer" in name} == {
        f"networks.0.layer.rnn.{name}" for name, _ in nn.LSTM(3, 8, 2).named_parameters()
    }
    assert {name for name in names if "head" in name} == {
        f"networks.{number}.head.{name}" for number in range(3) for name in ("weight", "bias")
    }
    again = load(path)
    assert again.differs_in_heads
    assert torch.equal(predict(again, x).mean, predict(model, x).mean)


def test_several_heads_that_are_described_differently_are_refused(tmp_path: Path) -> None:
    model = _several_heads(SequenceClassifier)
    config = model.config()
    config["members"][1] = {**config["members"][1], "arguments": {**config["members"][1]["arguments"], "dropout": 0.5}}
    path = MODEL_FORMAT.write(tmp_path / "heads.safetensors", config, model.distinct_weights())
    with pytest.raises(ModelFileError, match="its members differ in more than their heads"):
        load(path)


def test_several_heads_are_trained_as_networks_of_their_own() -> None:
    model, x, y = _several_heads(SequenceClassifier), torch.randn(20, 7, 3), torch.arange(20) % 4
    apart = copy.deepcopy(model)
    apart.copy_bodies()
    for one in (model, apart):
        fit(one, (x, y), updates=3, seed=0, progress=False)
    assert not model.differs_in_heads
    for own, expected in zip(model.parameters(), apart.parameters(), strict=True):
        assert torch.equal(own, expected)


@pytest.mark.parametrize("mode", ["soft", "exact"])
def test_an_ensemble_may_have_many_members(mode: Any) -> None:
    """Regression: the seed of the tenth member did not fit into 64 bits."""
    model = DeepEnsemble.of(lambda: SequenceClassifier(STTauGRU(2, 4, 3, mode=mode), 2), 12)
    x = torch.randn(5, 4, 2)
    fit(model, x, torch.arange(5) % 2, updates=1)
    noises = model.member_noises(Noise.of(torch.arange(5), seed=7))
    assert len({int(noise.seed) for noise in noises if noise is not None}) == 12
    assert predict(model, x).mean.shape == (5, 2)


@pytest.mark.parametrize("kind", [SequenceClassifier, SequenceRegressor])
def test_a_calibrated_ensemble_that_shares_its_body_is_saved(kind: Any, tmp_path: Path) -> None:
    """Regression: names of the decisions were taken for those of members."""
    torch.manual_seed(0)
    network = kind(STTauGRU(2, 4, 3), 2)
    model = DeepEnsemble([network, with_own_head(network)])
    assert model.differs_in_heads
    x = torch.randn(30, 4, 2)
    calibrate(model, x, torch.arange(30) % 2 if kind is SequenceClassifier else torch.randn(30, 2))
    again = load(model.save(tmp_path / "model.safetensors"))
    assert torch.equal(predict(again, x).mean, predict(model, x).mean)
    assert torch.equal(predict(again, x).abstain, predict(model, x).abstain)
