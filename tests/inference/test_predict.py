"""Predictions against the paper's figures, against every path walked by hand, and for consistency."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from sttau import (
    BayesLSTM,
    DeepEnsemble,
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
from sttau.inference import entropy
from sttau.models import SequenceModel

DOUBLE = torch.float64
EXACTLY = 1e-12  # for sums in float64 that differ only in their order
APART = 1e-3  # by this much differs what is not the same
FIELDS = ("mean", "variance", "total", "aleatoric", "epistemic")
NUMBERS = ("mean", "aleatoric", "epistemic", "total", "variance")
M = TypeVar("M", bound=SequenceModel)


def close(got: Tensor, want: Tensor, tolerance: float = EXACTLY) -> None:
    torch.testing.assert_close(got, want, rtol=0, atol=tolerance)


def bold(model: M, seed: int = 0) -> M:
    """Give a model float64 weights so wide that its states, classes and steps differ."""
    generator = torch.Generator().manual_seed(seed)
    model = model.double()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "temperature" not in name:
                weight.copy_(torch.randn(weight.shape, generator=generator, dtype=DOUBLE))
    return model


def batch_of(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def bits(p: Tensor) -> Tensor:
    return -torch.xlogy(p, p).sum(-1) / math.log(2)


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


def small_gru(k: int = 3, classes: int = 3, seed: int = 0, **options: Any) -> SequenceClassifier:
    return bold(SequenceClassifier(STTauGRU(2, 4, num_states=k, **options), classes), seed)


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


# -- a prediction depends on its sequence alone --------------------------------------------------------------

LENGTHS = [6, 4, 1, 5, 6]
LAYERS: dict[str, Callable[[], Any]] = {
    "LSTM": lambda: STTauLSTM(2, 4, 3),
    "GRU": lambda: STTauGRU(2, 4, 3),
    "deep LSTM": lambda: STTauLSTM(2, 4, 3, num_layers=2, dropout=0.5, bidirectional=True),
    "deep GRU": lambda: STTauGRU(2, 4, 3, num_layers=2, dropout=0.5, bidirectional=True),
}
SAMPLED: dict[str, Callable[[], Any]] = {
    "bayes": lambda: BayesLSTM(2, 4),
    "dropout": lambda: VariationalDropoutLSTM(2, 4, dropout=0.4),
    "deep bayes": lambda: BayesLSTM(2, 4, num_layers=2, dropout=0.5, bidirectional=True),
    "deep dropout": lambda: VariationalDropoutLSTM(2, 4, num_layers=2, dropout=0.4, bidirectional=True),
}


class Change(NamedTuple):
    """A batch made of the rows ``rows`` of another, which must be predicted alike."""

    inputs: Tensor
    lengths: Tensor | None
    rows: list[int]
    chunk_size: int | None = None


def split(x: Tensor, lengths: Tensor) -> list[Change]:
    return [Change(x[i : i + 1, :length], None, [i]) for i, length in enumerate(lengths.tolist())]


def shuffled(x: Tensor, lengths: Tensor) -> list[Change]:
    order = [3, 0, 4, 2, 1]
    return [Change(x[order], lengths[order], order)]


def repeated(x: Tensor, lengths: Tensor) -> list[Change]:
    rows = [0, 1, 2, 3, 4, 0, 2, 2]
    return [Change(x[rows], lengths[rows], rows)]


def padded(x: Tensor, lengths: Tensor) -> list[Change]:
    garbage = [float("nan"), float("inf"), -1e30] if x.is_floating_point() else [-1, 10**12, 4]
    changes = []
    for value in garbage:
        longer = torch.full((len(x), 9, *x.shape[2:]), value, dtype=x.dtype)
        for row, length in enumerate(lengths.tolist()):
            longer[row, :length] = x[row, :length]
        changes.append(Change(longer, lengths, [0, 1, 2, 3, 4]))
    return changes


def in_chunks(x: Tensor, lengths: Tensor) -> list[Change]:
    return [Change(x, lengths, [0, 1, 2, 3, 4], size) for size in (1, 3, 20, 10**6)]


@cache
def _predicted(
    name: str, mode: Any, per_step: bool, tokens: bool, dtype: torch.dtype
) -> tuple[Any, Tensor, Tensor, Any]:
    """A model, a batch, its lengths and its prediction, the same for all changes of the batch."""
    torch.manual_seed(0)
    make = (LAYERS | SAMPLED)[name.removeprefix("ensemble of ")]

    def network() -> SequenceClassifier:
        return SequenceClassifier(make(), 3, nn.Embedding(5, 2) if tokens else None)

    model: Any = (DeepEnsemble.of(network, size=3) if name.startswith("ensemble") else network()).to(dtype)
    x = torch.randint(5, (5, 6)) if tokens else torch.randn(5, 6, 2, dtype=dtype)
    lengths = torch.tensor(LENGTHS)
    return model, x, lengths, predict(model, x, lengths, 7, 3, mode, per_step=per_step)


@pytest.mark.parametrize("change", [split, shuffled, repeated, padded, in_chunks], ids=lambda f: f.__name__)
@pytest.mark.parametrize("tokens", [False, True], ids=["features", "tokens"])
@pytest.mark.parametrize(
    ("name", "mode", "per_step"),
    [
        *((name, mode, False) for name in LAYERS for mode in ("soft", "hard")),
        *((name, mode, True) for name in ("LSTM", "GRU") for mode in ("soft", "hard")),
        ("GRU", "exact", False),
        ("GRU", "exact", True),
        *((name, "sampled", False) for name in SAMPLED),
        *((name, "sampled", True) for name in ("bayes", "dropout")),
        ("ensemble of GRU", "soft", False),
        ("ensemble of GRU", "exact", True),
        ("ensemble of dropout", "sampled", True),
    ],
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (DOUBLE, EXACTLY)], ids=str)
@pytest.mark.slow
def test_a_prediction_depends_on_its_sequence_alone(
    change: Callable[[Tensor, Tensor], list[Change]],
    tokens: bool,
    name: str,
    mode: Any,
    per_step: bool,
    dtype: torch.dtype,
    tolerance: float,
) -> None:
    together = name.startswith("ensemble")
    model, x, lengths, whole = _predicted(name, mode, per_step, tokens, dtype)
    for inputs, valid, rows, chunk_size in change(x, lengths):
        part = predict(model, inputs, valid, 7, 3, mode, per_step=per_step, chunk_size=chunk_size)
        for field in FIELDS:
            got, want = getattr(part, field), getattr(whole, field)[rows]
            steps = min(inputs.shape[1], 6)
            close(*((got[:, :steps], want[:, :steps]) if per_step else (got, want)), tolerance)
        if mode == "exact" and not together:
            assert part.attribution is not None
            assert whole.attribution is not None
            steps = min(inputs.shape[1], 6)
            close(part.attribution[:, :steps], whole.attribution[rows, :steps], tolerance)
            assert bool((part.attribution[:, 6:] <= tolerance).all())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, DOUBLE], ids=str)
@pytest.mark.parametrize("mode", ["soft", "hard", "exact"])
def test_arrays_and_lists_are_read_as_tensors_are(mode: Any, dtype: torch.dtype) -> None:
    model = SequenceClassifier(STTauGRU(2, 4, 3), 3).to(dtype)
    x = torch.randn(3, 4, 2)
    want = predict(model, x, torch.tensor([4, 2, 1]), mode=mode).mean
    for inputs, lengths in (
        (x.numpy(), np.array([4, 2, 1])),
        (x.numpy().astype(np.float64), np.array([4, 2, 1], dtype=np.int32)),
        (x.tolist(), [4, 2, 1]),
    ):
        assert torch.equal(predict(model, inputs, lengths, mode=mode).mean, want)


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


# -- consistency of uncertainty -------------------------------------------------------------------------------------


@given(
    kind=st.sampled_from([STTauLSTM, STTauGRU]),
    k=st.integers(2, 5),
    classes=st.integers(2, 5),
    time=st.integers(1, 5),
    runs=st.integers(1, 9),
    mode=st.sampled_from(["soft", "hard", "exact", "deterministic"]),
    scale=st.sampled_from([0.1, 1.0, 10.0, 1000.0]),
    seed=st.integers(0, 10**6),
)
def test_uncertainty_is_consistent(
    kind: type[STTauLSTM | STTauGRU],
    k: int,
    classes: int,
    time: int,
    runs: int,
    mode: Any,
    scale: float,
    seed: int,
) -> None:
    if mode == "exact":
        kind = STTauGRU
    model = bold(SequenceClassifier(kind(2, 4, k), classes), seed)
    with torch.no_grad():
        model.head.weight.mul_(scale)
    p = predict(model, batch_of(3, time, 2, seed=seed), samples=runs, seed=seed, mode=mode)
    ceiling = math.log2(classes) + EXACTLY
    assert bool((p.mean >= 0).all())
    close(p.mean.sum(-1), torch.ones(3, dtype=DOUBLE))
    assert bool((p.variance >= 0).all())
    assert bool((p.variance <= 0.25 + EXACTLY).all())
    assert bool((p.epistemic >= 0).all())
    assert bool((p.epistemic <= ceiling).all())
    assert bool((p.aleatoric >= 0).all())
    assert bool((p.total <= ceiling).all())
    close(p.total, p.aleatoric + p.epistemic)
    close(p.total, bits(p.mean))
    assert torch.equal(p.label, p.mean.argmax(-1))
    assert torch.equal(p.confidence, p.mean.amax(-1))


def test_rounding_does_not_make_epistemic_uncertainty_negative() -> None:
    total, aleatoric = torch.tensor([0.5, 0.5]), torch.tensor([0.5000001, 0.25])
    p = Prediction(torch.zeros(2, 2), "soft", 1, torch.zeros(2, 2), total, aleatoric)
    assert p.epistemic.tolist() == [0.0, 0.25]


@given(st.integers(2, 64), st.sampled_from([torch.float32, DOUBLE]))
def test_entropy_is_between_certainty_and_the_uniform_distribution(n: int, dtype: torch.dtype) -> None:
    tolerance = 4 * torch.finfo(dtype).eps * math.log2(n)
    assert entropy(torch.full((n,), 1 / n, dtype=dtype)).item() == pytest.approx(math.log2(n), abs=tolerance)
    assert entropy(torch.eye(n, dtype=dtype)).tolist() == [0.0] * n


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


# -- what predict leaves behind ------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [False, True])
def test_the_training_flag_is_left_as_it_was(training: bool) -> None:
    model = SequenceClassifier(STTauGRU(2, 4, 3, num_layers=2, dropout=0.5), 3).train(training)
    predict(model, torch.zeros(1, 3, 2))
    assert all(module.training == training for module in model.modules())


def test_the_training_flag_is_left_as_it_was_after_an_error() -> None:
    model = SequenceClassifier(STTauGRU(2, 4, 3), 3).train()
    model.head = nn.Linear(5, 3)  # does not fit: fails in the middle of the run
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        predict(model, torch.zeros(1, 3, 2))
    assert all(module.training for module in model.modules())


def test_a_part_that_was_frozen_stays_frozen() -> None:
    model = SequenceClassifier(STTauGRU(2, 4, 3), 3).train()
    model.layer.eval()
    predict(model, torch.zeros(1, 3, 2))
    assert model.training
    assert not model.layer.training


def test_dropout_is_off_while_predicting() -> None:
    model = bold(SequenceClassifier(STTauGRU(2, 4, 3, num_layers=2, dropout=0.9), 3))
    x = batch_of(3, 5, 2)
    assert torch.equal(predict(model.train(), x).mean, predict(model.eval(), x).mean)


def test_predictions_in_several_threads_leave_a_model_in_training_mode_and_are_those_of_one_thread() -> None:
    model = bold(SequenceClassifier(STTauLSTM(2, 4, 3, num_layers=2, dropout=0.9), 3)).train()
    x, flags = batch_of(3, 5, 2), []
    expected = predict(model, x).mean
    meeting = threading.Barrier(4, timeout=60)

    def meet(module: nn.Module, arguments: object) -> None:  # so that all are at work at once, and end one by one
        meeting.wait()
        flags.append((module.training, model.training, model.layer.training))

    model.register_forward_pre_hook(meet)
    with ThreadPoolExecutor(4) as pool:
        means = list(pool.map(lambda _: predict(model, x).mean, range(4)))
    assert all(torch.equal(mean, expected) for mean in means)
    assert flags == [(False, True, True)] * 4
    assert all(module.training for module in model.modules())


def test_a_model_that_keeps_a_method_or_is_compiled_predicts_in_eval_mode() -> None:
    model = bold(SequenceClassifier(nn.LSTM(2, 4, num_layers=2, dropout=0.9), 3))
    x = batch_of(3, 5, 2)
    expected = predict(model.eval(), x).mean
    model.embed = model.embed  # type: ignore[method-assign]
    model.train()
    assert torch.equal(predict(model, x).mean, expected)
    model.compile(backend="eager")
    assert torch.equal(predict(model, x).mean, expected)
    assert torch.equal(predict(torch.compile(model, backend="eager"), x).mean, expected)  # type: ignore[call-overload]


@pytest.mark.parametrize("mode", ["soft", "hard", "deterministic"])
@pytest.mark.parametrize("kind", [STTauGRU, STTauLSTM])
def test_the_same_call_and_longer_padding_give_the_same_bits(kind: Any, mode: Any) -> None:
    torch.manual_seed(0)
    model, lengths = SequenceClassifier(kind(3, 50, 5), 4), torch.randint(1, 12, (13,))
    x = torch.randn(13, 11, 3)
    padded = torch.cat([x, torch.full((13, 5, 3), torch.nan)], dim=1)
    first, again = (predict(model, x, lengths, mode=mode) for _ in range(2))
    longer = predict(model, padded, lengths, mode=mode)
    for name in FIELDS:
        assert torch.equal(getattr(first, name), getattr(again, name))
        assert torch.equal(getattr(first, name), getattr(longer, name))


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
