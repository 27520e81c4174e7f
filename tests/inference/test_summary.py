from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from sttau import DeepEnsemble, SequenceClassifier, SequenceRegressor, Stream, STTauGRU, STTauLSTM, predict
from sttau.engine import Noise
from sttau.inference.summary import repeat_last_steps, summarize, summarize_states
from tests.inference.small_models import APART, DOUBLE, EXACTLY, FIELDS, batch_of, bits, bold, close, small_gru


def test_samples_are_averaged_as_probabilities() -> None:
    model = SequenceClassifier(nn.LSTM(2, 4), 3)
    logits = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))  # three samples of two sequences
    part = summarize(model, [logits[:4], logits[4:]], 2, keep=True)
    p = logits.softmax(-1).view(3, 2, 3)
    torch.testing.assert_close(part["mean"], p.mean(0))
    torch.testing.assert_close(part["aleatoric"], -(p * p.log2()).sum(-1).mean(0))
    assert bool((part["total"] >= part["aleatoric"]).all())
    torch.testing.assert_close(part["samples"], p.transpose(0, 1))


def test_a_distribution_over_states_is_a_mixture_of_their_outputs() -> None:
    model = SequenceClassifier(STTauGRU(2, 4, num_states=3), 2)
    pi = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    part = summarize_states(model, pi)
    outcome = model.state_logits().exp()
    torch.testing.assert_close(part["mean"], torch.stack([outcome[0], outcome[:2].mean(0)]))
    torch.testing.assert_close(part["variance"][0], torch.zeros(2), atol=1e-7, rtol=0)


def test_the_last_valid_step_is_repeated() -> None:
    part = {"mean": torch.arange(6.0).view(2, 3, 1)}
    assert repeat_last_steps(part, torch.tensor([1, 3]))["mean"][..., 0].tolist() == [[0, 0, 0], [3, 4, 5]]


NUMBERS = ("mean", "aleatoric", "epistemic", "total", "variance")


class Paths(NamedTuple):
    """Every path of one sequence."""

    states: Tensor  # (k^T, time)
    weight: Tensor  # (k^T,) probability of the path


def all_paths(model: SequenceClassifier | SequenceRegressor, x: Tensor) -> Paths:
    """Walk every path over (time, features), one state at a time; PyTorch's own cell computes u_t."""
    layer = cast(STTauGRU, model.layer)
    cell = nn.GRUCell(layer.input_size, layer.hidden_size, dtype=DOUBLE)
    cell.load_state_dict({name: getattr(layer, f"{name}_l0") for name in cell.state_dict()})
    states = layer.states

    def walk(h: Tensor, path: tuple[int, ...], weight: float) -> Iterator[tuple[tuple[int, ...], float]]:
        if len(path) == len(x):
            yield path, weight
            return
        distribution = (states @ cell(x[len(path)], h)).softmax(dim=-1).tolist()
        for j, probability in enumerate(distribution):
            yield from walk(states[j], (*path, j), weight * probability)

    with torch.no_grad():
        start = states[0] if layer.initial == "first" else torch.zeros(layer.hidden_size, dtype=DOUBLE)
        paths, weights = zip(*walk(start, (), 1.0), strict=True)
    return Paths(torch.tensor(paths), torch.tensor(weights, dtype=DOUBLE))


def split_of(model: SequenceClassifier, x: Tensor) -> dict[str, Tensor]:
    """What exact inference must say about (time, features), by its definition: moments over all paths."""
    paths = all_paths(model, x)
    with torch.no_grad():
        distribution = model.head(cast(STTauGRU, model.layer).states[paths.states[:, -1]]).softmax(dim=-1)
    weight = paths.weight[:, None]
    mean = (weight * distribution).sum(0)
    total, aleatoric = bits(mean), (paths.weight * bits(distribution)).sum()
    return {
        "mean": mean,
        "variance": (weight * (distribution - mean).square()).sum(0),
        "total": total,
        "aleatoric": aleatoric,
        "epistemic": total - aleatoric,
    }


def information(model: SequenceClassifier, x: Tensor) -> Tensor:
    """I(Y; S_t | x) in bits for every step of (time, features), from the joint distribution over all paths."""
    paths = all_paths(model, x)
    states = cast(STTauGRU, model.layer).states
    with torch.no_grad():
        distribution = model.head(states[paths.states[:, -1]]).softmax(dim=-1) * paths.weight[:, None]
    known = []
    for step in paths.states.T:
        joint = torch.stack([distribution[step == j].sum(0) for j in range(len(states))])
        known.append(bits(joint.sum(0)) + bits(joint.sum(1)) - bits(joint.flatten()))
    return torch.stack(known)


# -- the paper's worked example ------------------------------------------------------------------------------


def drawn_machine(outcomes: list[list[float]]) -> SequenceClassifier:
    """The paper's automaton of three states, by hand. It starts in s_0; s_j has the class distribution ``outcomes[j]``.

    A step reads three switches: stay where it is (the update gate passes h on), split evenly over s_1 and s_2
    (the candidate has -1 at s_0), or go to s_1 (+1 there). States are 100·e_j, so that logits are 100 apart.
    """
    model = SequenceClassifier(STTauGRU(3, 3, num_states=3, initial="first", dtype=DOUBLE), 2)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        layer = cast(STTauGRU, model.layer)
        layer.states.copy_(100 * torch.eye(3))
        update, candidate = layer.get_parameter("weight_ih_l0")[3:6], layer.get_parameter("weight_ih_l0")[6:9]
        update.copy_(torch.tensor([100.0, -100.0, -100.0]).expand(3, 3))
        candidate[0, 1], candidate[1, 2] = -100.0, 100.0
        model.head.weight.copy_(torch.tensor(outcomes, dtype=DOUBLE).log().T / 100)
    return model


STAY, SPLIT, GO = torch.eye(3, dtype=DOUBLE)


def test_the_left_machine_of_the_paper_has_only_aleatoric_uncertainty() -> None:
    model = drawn_machine([[0.5, 0.5], [0.3, 0.7], [0.5, 0.5]])
    p = predict(model, GO[None, None], mode="exact")
    close(p.mean, torch.tensor([[0.3, 0.7]], dtype=DOUBLE))
    assert f"{p.total.item():.4f}" == "0.8813"
    assert f"{p.aleatoric.item():.4f}" == "0.8813"
    assert p.epistemic.item() == pytest.approx(0, abs=EXACTLY)


def test_the_right_machine_of_the_paper_splits_its_uncertainty() -> None:
    model = drawn_machine([[0.5, 0.5], [0.1, 0.9], [0.5, 0.5]])
    p = predict(model, SPLIT[None, None], mode="exact")
    close(p.mean, torch.tensor([[0.3, 0.7]], dtype=DOUBLE))
    close(p.variance, torch.tensor([[0.04, 0.04]], dtype=DOUBLE))
    assert f"{p.total.item():.4f}" == "0.8813"
    assert f"{p.aleatoric.item():.4f}" == "0.7345"
    assert f"{p.epistemic.item():.4f}" == "0.1468"


def test_attribution_names_the_step_at_which_the_paths_part() -> None:
    model = drawn_machine([[0.5, 0.5], [0.1, 0.9], [0.5, 0.5]])
    p = predict(model, torch.stack([STAY, STAY, SPLIT, STAY])[None], mode="exact")
    assert p.attribution is not None
    assert f"{p.attribution[0, 2].item():.4f}" == "0.1468"
    close(p.attribution[0, [0, 1, 3]], torch.zeros(3, dtype=DOUBLE))


def test_monte_carlo_gives_the_figures_of_the_paper_too() -> None:
    model = drawn_machine([[0.5, 0.5], [0.1, 0.9], [0.5, 0.5]])
    p = predict(model, SPLIT[None, None], samples=20_000, mode="hard")
    assert p.mean[0, 0].item() == pytest.approx(0.3, abs=4.5 * 0.2 / math.sqrt(20_000))
    half = (1 - bits(torch.tensor([0.1, 0.9], dtype=DOUBLE)).item()) / 2  # how far entropies are from their mean
    assert p.aleatoric.item() == pytest.approx(0.7345, abs=4.5 * half / math.sqrt(20_000) + 5e-5)


# -- exact inference is the sum over all paths ---------------------------------------------------------------


@given(
    k=st.integers(2, 3),
    time=st.integers(1, 6),
    classes=st.integers(2, 4),
    initial=st.sampled_from(["zeros", "first"]),
    seed=st.integers(0, 10**6),
)
def test_exact_is_the_sum_over_all_paths(k: int, time: int, classes: int, initial: Any, seed: int) -> None:
    model = small_gru(k, classes, seed, initial=initial)
    x = batch_of(2, time, 2, seed=seed)
    lengths = [time, (time + 1) // 2]
    p = predict(model, x, lengths, mode="exact")
    for row, length in enumerate(lengths):
        want = split_of(model, x[row, :length])
        for name in FIELDS:
            close(getattr(p, name)[row], want[name])


def test_exact_is_the_sum_over_all_paths_after_every_step() -> None:
    model, x = small_gru(), batch_of(2, 5, 2)
    p = predict(model, x, mode="exact", per_step=True)
    for row in range(2):
        for step in range(5):
            want = split_of(model, x[row, : step + 1])
            for name in FIELDS:
                close(getattr(p, name)[row, step], want[name])


def test_exact_reads_tokens_as_it_reads_their_embeddings() -> None:
    model = bold(SequenceClassifier(STTauGRU(2, 4, num_states=3), 3, nn.Embedding(4, 2)))
    assert model.embedding is not None
    tokens = torch.tensor([[0, 3, 1, 2], [2, 2, 0, 1]])
    p = predict(model, tokens, mode="exact")
    for row in range(2):
        want = split_of(model, model.embedding.weight.detach()[tokens[row]])
        for name in FIELDS:
            close(getattr(p, name)[row], want[name])


@given(k=st.integers(2, 3), time=st.integers(1, 5), classes=st.integers(2, 3), seed=st.integers(0, 10**6))
def test_attribution_adds_up_to_what_each_state_tells_about_the_label(
    k: int, time: int, classes: int, seed: int
) -> None:
    model = small_gru(k, classes, seed)
    x = batch_of(2, time, 2, seed=seed)
    lengths = [time, (time + 1) // 2]
    p = predict(model, x, lengths, mode="exact")
    assert p.attribution is not None
    assert p.attribution.shape == (2, time)
    assert bool((p.attribution >= 0).all())
    close(p.attribution.sum(-1), p.epistemic)
    for row, length in enumerate(lengths):
        known = information(model, x[row, :length])
        assert bool((known.diff() >= -EXACTLY).all())
        close(p.attribution[row, :length].cumsum(0), known)
        close(p.attribution[row, length:], torch.zeros(time - length, dtype=DOUBLE), 1e-15)


def test_attribution_is_the_same_whether_or_not_every_step_is_predicted() -> None:
    model, x = small_gru(), batch_of(3, 6, 2)
    plain = predict(model, x, [6, 4, 1], mode="exact")
    stepwise = predict(model, x, [6, 4, 1], mode="exact", per_step=True)
    assert plain.attribution is not None
    assert stepwise.attribution is not None
    assert torch.equal(plain.attribution, stepwise.attribution)


@pytest.mark.parametrize("per_step", [False, True])
def test_exact_stays_right_over_ten_thousand_steps(per_step: bool) -> None:
    wide = small_gru()
    narrow = SequenceClassifier(STTauGRU(2, 4, num_states=3), 3)
    narrow.load_state_dict(wide.state_dict())
    x = batch_of(2, 10_000, 2)
    sharp, rough = (predict(model, x, [10_000, 7_001], mode="exact", per_step=per_step) for model in (wide, narrow))
    assert rough.mean.dtype == torch.float32
    assert sharp.mean.dtype == DOUBLE
    for name in FIELDS:
        close(getattr(rough, name).double(), getattr(sharp, name), 1e-5)  # a NaN would not be close
    close(rough.mean.sum(-1).double(), torch.ones(sharp.total.shape, dtype=DOUBLE), 1e-6)
    assert rough.attribution is not None
    close(rough.attribution.sum(-1), rough.epistemic[:, -1] if per_step else rough.epistemic, 1e-5)
    assert bool((rough.attribution[1, 7_001:] <= 1e-6).all())


# -- Monte Carlo ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_step", [False, True])
@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_samples_are_kept_when_asked_for_and_are_what_was_summarized(mode: Any, per_step: bool) -> None:
    model, x = small_gru(), batch_of(2, 5, 2)
    p = predict(model, x, [5, 3], 7, mode=mode, per_step=per_step, keep_samples=True, chunk_size=4)
    assert p.samples is not None
    assert p.samples.shape == ((7, 2, 5, 3) if per_step else (7, 2, 3))
    close(p.samples.mean(0), p.mean)
    close(p.samples.var(0, correction=0), p.variance)
    close(bits(p.samples).mean(0), p.aleatoric)
    close(bits(p.samples.mean(0)), p.total)
    assert predict(model, x, [5, 3], 7, mode=mode, per_step=per_step).samples is None


# -- regression ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [False, True], ids=["mean only", "variance head"])
@pytest.mark.parametrize("mode", ["soft", "hard"])
@pytest.mark.parametrize("kind", [STTauLSTM, STTauGRU])
def test_a_regressor_sums_up_its_runs(kind: type[STTauLSTM | STTauGRU], mode: Any, variance: bool) -> None:
    model = bold(SequenceRegressor(kind(2, 4, 3), 2, variance=variance))
    x, lengths, ids = batch_of(3, 5, 2), torch.tensor([5, 3, 1]), torch.tensor([4, 5, 6])
    p = predict(model, x, lengths, 8, 5, mode, ids=ids, keep_samples=True, chunk_size=5)
    with torch.no_grad():
        runs = [model(x, lengths, noise=Noise.of(ids, 1, 5, run), mode=mode) for run in range(8)]
    means = torch.stack([run.mean for run in runs])
    assert p.samples is not None
    assert p.samples.shape == (8, 3, 2)
    close(p.samples, means)
    close(p.mean, means.sum(0) / 8)
    close(p.epistemic, (means - means.sum(0) / 8).square().sum(0) / 8)
    assert p.sample_variance is not None
    if variance:
        close(p.sample_variance, torch.stack([run.variance for run in runs]))
        close(p.aleatoric, p.sample_variance.sum(0) / 8)
        assert bool((p.aleatoric > 0).all())
    else:
        assert not bool(p.aleatoric.any())
    close(p.total, p.aleatoric + p.epistemic)
    assert torch.equal(p.variance, p.total)
    assert p.epistemic.max() > APART


@pytest.mark.parametrize("variance", [False, True], ids=["mean only", "variance head"])
@pytest.mark.parametrize("per_step", [False, True])
def test_exact_regression_is_the_sum_over_all_paths(variance: bool, per_step: bool) -> None:
    model = bold(SequenceRegressor(STTauGRU(2, 4, 3), 2, variance=variance))
    x, lengths = batch_of(2, 4, 2), [4, 2]
    p = predict(model, x, lengths, mode="exact", per_step=per_step)
    for row, length in enumerate(lengths):
        for step in range(4) if per_step else [3]:
            paths = all_paths(model, x[row, : min(length, step + 1)])
            weight = paths.weight[:, None]
            with torch.no_grad():
                answer = model.head(cast(STTauGRU, model.layer).states[paths.states[:, -1]])
            mean = (weight * answer[:, :2]).sum(0)
            at = (row, step) if per_step else (row,)
            close(p.mean[at], mean)
            close(p.epistemic[at], (weight * (answer[:, :2] - mean).square()).sum(0))
            noise = torch.log1p(answer[:, 2:].exp()) + 1e-6 if variance else torch.zeros(len(weight), 2)
            close(p.aleatoric[at], (weight * noise).sum(0))
            close(p.total[at], p.aleatoric[at] + p.epistemic[at])


@pytest.mark.parametrize("mode", ["soft", "exact"])
def test_a_regressor_holds_the_last_valid_step(mode: Any) -> None:
    model, x = bold(SequenceRegressor(STTauGRU(2, 4, 3), variance=True)), batch_of(2, 5, 2)
    every = predict(model, x, [5, 2], mode=mode, per_step=True)
    last = predict(model, x, [5, 2], mode=mode)
    for name in NUMBERS:
        steps = getattr(every, name)
        assert steps.shape == (2, 5, 1)
        close(steps[:, -1], getattr(last, name))
        assert torch.equal(steps[1, 2:], steps[1, 1:2].expand(3, 1))


@pytest.mark.parametrize("kind", [SequenceClassifier, SequenceRegressor])
def test_an_exact_ensemble_has_the_uncertainty_of_its_paths(kind: Any) -> None:
    """Regression: it was that of its members, without the uncertainty about the path of each."""
    torch.manual_seed(0)
    options = {"variance": True} if kind is SequenceRegressor else {}
    model = DeepEnsemble.of(lambda: kind(STTauGRU(2, 8, 3, mode="exact"), 2, **options).double(), 3)
    x, lengths = torch.randn(4, 5, 2, dtype=torch.float64), torch.tensor([5, 2, 4, 1])
    exact = predict(model, x, lengths)
    drawn = predict(model, x, lengths, mode="hard", samples=4000)
    for name in ("mean", "total", "aleatoric", "epistemic"):
        assert torch.allclose(getattr(exact, name), getattr(drawn, name), atol=0.03, rtol=0.03), name
    alone = torch.stack([predict(member, x, lengths).epistemic for member in model.members]).mean(0)
    assert bool((exact.epistemic >= alone - 1e-9).all())
    steps = predict(model, x, lengths, per_step=True)
    stream = Stream(model, streams=4)
    for time in range(5):
        p = stream.step(x[:, time])
    assert torch.allclose(p.epistemic[0], exact.epistemic[0])
    assert torch.allclose(steps.epistemic[torch.arange(4), lengths - 1], exact.epistemic)
    assert predict(model, x, lengths, keep_samples=True).samples.shape == (3, 4, 2)
