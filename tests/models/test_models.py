"""Models: what their heads read, what they are trained on, and that what was saved is what is loaded."""

from __future__ import annotations

import json
import math
import pickle
import random
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
import torch
import torch.nn.functional as F
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.func import functional_call

from sttau import (
    BayesLSTM,
    SequenceClassifier,
    SequenceRegressor,
    STTauGRU,
    STTauLSTM,
    VariationalDropoutLSTM,
    load,
    predict,
)
from sttau.engine import Noise
from sttau.errors import ModelFileError
from sttau.formats import _as_text, _checksum
from sttau.layers import LAYERS, FiniteStateRNN, RecurrentLayer
from sttau.models import SequenceModel, saved
from sttau.training import fit

DOUBLE = torch.float64
EXACTLY = 1e-12  # for sums in float64 that differ only in their order
M = TypeVar("M", bound=SequenceModel)

every_layer = pytest.mark.parametrize("name", LAYERS)
both_inputs = pytest.mark.parametrize("tokens", [False, True], ids=["features", "tokens"])


def close(got: Tensor, want: Tensor, tolerance: float = EXACTLY) -> None:
    torch.testing.assert_close(got, want, rtol=0, atol=tolerance)


def layer_of(name: str, **options: Any) -> Any:
    """A small layer of the registry."""
    kind = cast(Any, LAYERS[name])
    return kind(2, 4, num_states=3, **options) if issubclass(kind, FiniteStateRNN) else kind(2, 4, **options)


def bold(model: M) -> M:
    """Give a model float64 weights so wide that its states, classes and steps differ."""
    model = model.double()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "temperature" not in name:
                nn.init.normal_(weight)
    return model


def batch_for(tokens: bool, batch: int = 3, time: int = 4) -> Tensor:
    return torch.randint(5, (batch, time)) if tokens else torch.randn(batch, time, 2, dtype=DOUBLE)


def table(tokens: bool) -> nn.Embedding | None:
    return nn.Embedding(5, 2) if tokens else None


def path_sum(model: SequenceModel, x: Tensor, answer: Callable[[Tensor], Tensor]) -> Tensor:
    """E[answer(h_T)] for one sequence (time, features): walk every path; PyTorch's own cell computes u_t."""
    layer = cast(STTauGRU, model.layer)
    cell = nn.GRUCell(layer.input_size, layer.hidden_size, dtype=DOUBLE)
    cell.load_state_dict({name: getattr(layer, f"{name}_l0") for name in cell.state_dict()})
    states = layer.states

    def walk(h: Tensor, step: int) -> Tensor:
        if step == len(x):
            return answer(h)
        probabilities = (states @ cell(x[step], h)).softmax(dim=-1)
        return torch.stack([probabilities[j] * walk(states[j], step + 1) for j in range(len(states))]).sum(0)

    with torch.no_grad():
        return walk(torch.zeros(layer.hidden_size, dtype=DOUBLE), 0)


# -- shapes and what the head reads --------------------------------------------------------------------------


@every_layer
@both_inputs
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}])
def test_answers_have_one_row_a_sequence(name: str, tokens: bool, options: Any) -> None:
    x, lengths = batch_for(tokens), torch.tensor([4, 2, 1])
    layer = layer_of(name, **options)
    classifier = SequenceClassifier(layer, 3, table(tokens)).double()
    assert classifier(x).shape == (3, 3)
    assert classifier(x, lengths).shape == (3, 3)
    regressor = SequenceRegressor(layer, 2, variance=True, embedding=table(tokens)).double()
    mean, variance = regressor(x, lengths)
    assert mean.shape == variance.shape == (3, 2)
    assert bool((variance > 0).all())
    if "bidirectional" not in options:
        assert classifier(x, lengths, per_step=True).shape == (3, 4, 3)
        assert regressor(x, lengths, per_step=True).mean.shape == (3, 4, 2)


def test_several_samples_give_one_row_each_run_by_run() -> None:
    model, x = bold(SequenceClassifier(STTauGRU(2, 4, 3), 3)), batch_for(tokens=False)
    ids, lengths = torch.arange(3), torch.tensor([4, 2, 1])
    together = model(x, lengths, noise=Noise.of(ids, samples=2))
    apart = [model(x, lengths, noise=Noise.of(ids, 1, first_sample=run)) for run in range(2)]
    close(together, torch.cat(apart))


@every_layer
@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_head_reads_where_each_direction_ends(name: str, bidirectional: bool) -> None:
    layer = layer_of(name, num_layers=2, bidirectional=bidirectional, batch_first=True)
    model = bold(SequenceClassifier(layer, 3))
    x, lengths = batch_for(tokens=False), [4, 2, 1]
    drawn = isinstance(layer, RecurrentLayer)
    mode: Any = "deterministic" if name in ("HeadDropoutLSTM", "SamplingFreeGRU") else None  # they draw from the output
    logits = model(x, torch.tensor(lengths), noise=Noise.of(torch.arange(3)) if drawn else None, mode=mode)
    for row, length in enumerate(lengths):  # alone and without padding, h_n is where each direction ends
        options = {"noise": Noise.of(torch.tensor([row])), "mode": mode} if drawn else {}
        end = layer(x[row : row + 1, :length], **options)[1]
        h = end[0] if isinstance(end, tuple) else end
        read = torch.cat([h[-2, 0], h[-1, 0]]) if bidirectional else h[-1, 0]
        close(logits[row], model.head(read))


def test_the_backward_half_is_read_at_the_first_step() -> None:
    layer = STTauGRU(2, 4, 3, bidirectional=True)
    model = bold(SequenceClassifier(layer, 3))
    x, lengths, noise = batch_for(tokens=False), torch.tensor([4, 2, 1]), Noise.of(torch.arange(3))
    steps = layer.features(x, lengths, noise=noise)
    ends = torch.cat([steps[[0, 1, 2], lengths - 1, :4], steps[:, 0, 4:]], dim=-1)
    close(model(x, lengths, noise=noise), model.head(ends))


@pytest.mark.parametrize("mode", ["soft", "hard", "deterministic", "exact"])
def test_only_sampling_layers_are_stochastic(mode: Any) -> None:
    stochastic = mode in ("soft", "hard")
    model = bold(SequenceClassifier(STTauGRU(2, 4, 3, mode=mode), 3))
    runs = [model(batch_for(tokens=False).zero_()) for _ in range(4)]
    assert all(torch.equal(run, runs[0]) for run in runs) != stochastic


@pytest.mark.parametrize("mode", ["soft", "hard", "exact"])
def test_a_mode_needs_a_layer_with_states(mode: Any) -> None:
    model = SequenceClassifier(nn.GRU(2, 4), 3)
    with pytest.raises(ValueError, match=f"mode must be one of 'deterministic' for GRU, .*got '{mode}'"):
        model(torch.zeros(1, 3, 2), mode=mode)


def test_the_chain_needs_a_layer_with_states() -> None:
    with pytest.raises(ValueError, match="exact inference needs a layer with states, such as STTauGRU; LSTM has none"):
        SequenceClassifier(nn.LSTM(2, 4), 3).chain(torch.zeros(1, 3, 2))


def test_every_state_has_a_distribution_of_labels() -> None:
    model = bold(SequenceClassifier(STTauGRU(2, 4, 3), 5))
    logits = model.state_logits()
    assert logits.shape == (3, 5)
    close(logits.exp().sum(-1), torch.ones(3, dtype=DOUBLE))
    close(logits.exp(), model.head(model.layer.states).softmax(-1))


def test_every_state_has_an_answer() -> None:
    model = bold(SequenceRegressor(STTauGRU(2, 4, 3), 2, variance=True))
    mean, variance = model.state_outputs()
    raw = model.head(model.layer.states)
    assert variance is not None
    close(mean, raw[:, :2])
    close(variance, torch.log1p(raw[:, 2:].exp()) + 1e-6)


@pytest.mark.parametrize(
    "ask",
    [SequenceClassifier(nn.LSTM(2, 4), 3).state_logits, SequenceRegressor(nn.LSTM(2, 4)).state_outputs],
    ids=["classifier", "regressor"],
)
def test_a_plain_layer_has_no_states_to_ask(ask: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="LSTM has no states"):
        ask()


# -- exact mode ----------------------------------------------------------------------------------------------


@both_inputs
def test_exact_logits_are_the_logarithm_of_the_path_sum(tokens: bool) -> None:
    model = bold(SequenceClassifier(STTauGRU(2, 4, 3, mode="exact"), 3, table(tokens)))
    x, lengths = batch_for(tokens), [4, 2, 1]
    logits = model(x, torch.tensor(lengths))
    steps = model(x, torch.tensor(lengths), per_step=True)
    close(logits.exp().sum(-1), torch.ones(3, dtype=DOUBLE))
    close(steps.exp().sum(-1), torch.ones(3, 4, dtype=DOUBLE))
    features = x if model.embedding is None else model.embedding(x).detach()
    for row, length in enumerate(lengths):
        for step in range(4):
            read = features[row, : min(length, step + 1)]
            close(steps[row, step], path_sum(model, read, lambda h: model.head(h).softmax(-1)).log())
        close(logits[row], steps[row, -1])


@pytest.mark.parametrize("variance", [False, True], ids=["mean only", "variance head"])
def test_exact_answers_of_a_regressor_are_moments_over_all_paths(variance: bool) -> None:
    model = bold(SequenceRegressor(STTauGRU(2, 4, 3, mode="exact"), 2, variance=variance))
    x, lengths = batch_for(tokens=False), [4, 2, 1]
    answer = model(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        read = x[row, :length]
        mean = path_sum(model, read, lambda h: model.head(h)[:2])
        close(answer.mean[row], mean)
        if variance:
            second = path_sum(
                model, read, lambda h: model.head(h)[:2] ** 2 + torch.log1p(model.head(h)[2:].exp()) + 1e-6
            )
            close(answer.variance[row], second - mean**2)
        else:
            assert answer.variance is None


@pytest.mark.parametrize("vocabulary", [None, 3, 50], ids=["features", "table of tokens", "tokens"])
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_exact_gradients_are_finite_differences(kind: str, vocabulary: int | None) -> None:
    layer = STTauGRU(2, 3, 3, mode="exact")
    embedding = None if vocabulary is None else nn.Embedding(vocabulary, 2)
    model: SequenceModel
    if kind == "classifier":
        model = SequenceClassifier(layer, 2, embedding).double()
    else:
        model = SequenceRegressor(layer, variance=True, embedding=embedding).double()
    x, lengths = batch_for(tokens=False), torch.tensor([4, 2, 1])
    if vocabulary is not None:
        x = torch.randint(vocabulary, (3, 4))
        assert (x.numel() > vocabulary) == (vocabulary == 3)
    names, weights = zip(*model.named_parameters(), strict=True)

    def run(*values: Tensor) -> Any:
        answer = functional_call(model, dict(zip(names, values, strict=True)), (x, lengths))
        return answer if isinstance(answer, Tensor) else tuple(answer)

    assert torch.autograd.gradcheck(run, weights, atol=1e-7, rtol=1e-5)


def test_the_table_of_tokens_changes_neither_logits_nor_gradients() -> None:
    model = bold(SequenceClassifier(STTauGRU(2, 4, 3, mode="exact"), 3, nn.Embedding(5, 2)))
    x, lengths = batch_for(tokens=True), torch.tensor([4, 2, 3])
    by_table = model(x, lengths)  # 12 tokens > 5 entries
    direct = torch.cat([model(x[i : i + 1], lengths[i : i + 1]) for i in range(3)])  # 4 tokens <= 5 entries
    close(by_table, direct)
    coefficients = torch.randn(3, 3, dtype=DOUBLE)
    weights = [weight for name, weight in model.named_parameters() if "temperature" not in name]
    one, other = (torch.autograd.grad((y * coefficients).sum(), weights) for y in (by_table, direct))
    for a, b in zip(one, other, strict=True):
        close(a, b)


def test_matrices_are_made_once_for_each_token_that_occurs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = SequenceClassifier(STTauGRU(2, 4, 3, mode="exact"), 3, nn.Embedding(5, 2))
    layer, made = cast(STTauGRU, model.layer), []

    def counted(first: Tensor, inputs: Tensor, used: Tensor | None) -> tuple[Tensor, Tensor]:
        made.append(inputs[..., 0].numel())
        return STTauGRU.first_and_matrices(layer, first, inputs, used)

    monkeypatch.setattr(layer, "first_and_matrices", counted)
    model(torch.randint(5, (3, 40)))
    model(torch.tensor([[0, 3, 3, 1, 3]]))
    assert made == [5, 2]


# -- losses --------------------------------------------------------------------------------------------------


def test_the_classifier_s_loss_is_cross_entropy() -> None:
    model, x = bold(SequenceClassifier(STTauGRU(2, 4, 3, mode="exact"), 3)), batch_for(tokens=False)
    labels = torch.tensor([2, 0, 1])
    p = model(x, torch.tensor([4, 2, 1])).exp()
    close(model.loss(x, labels, torch.tensor([4, 2, 1])), -p[[0, 1, 2], labels].log().mean())


def test_the_regressor_s_loss_is_squared_error() -> None:
    model, x = bold(SequenceRegressor(nn.GRU(2, 4), 2)), batch_for(tokens=False)
    targets, lengths = torch.randn(3, 2, dtype=DOUBLE), torch.tensor([4, 2, 1])
    close(model.loss(x, targets, lengths), (model(x, lengths).mean - targets).square().sum() / 6)


def test_the_regressor_s_loss_with_a_variance_is_the_gaussian_likelihood() -> None:
    model, x = bold(SequenceRegressor(nn.GRU(2, 4), 2, variance=True)), batch_for(tokens=False)
    targets, lengths = torch.randn(3, 2, dtype=DOUBLE), torch.tensor([4, 2, 1])
    mean, variance = model(x, lengths)
    bell = (2 * math.pi * variance).rsqrt() * (-(targets - mean).square() / (2 * variance)).exp()
    close(model.loss(x, targets, lengths), -bell.log().mean())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("STTauLSTM", {}),
        ("STTauLSTM", {"num_layers": 2, "bidirectional": True}),
        ("STTauGRU", {"mode": "hard"}),
        ("STTauGRU", {"mode": "exact"}),
        ("StateRegularizedGRU", {}),
        ("LSTM", {"num_layers": 2, "bidirectional": True}),
        ("GRU", {}),
    ],
    ids=str,
)
@both_inputs
@pytest.mark.parametrize("kind", [SequenceClassifier, SequenceRegressor])
def test_what_stands_in_the_padding_touches_neither_loss_nor_gradients(
    kind: type[SequenceClassifier | SequenceRegressor], tokens: bool, name: str, options: Any
) -> None:
    model = bold(kind(layer_of(name, **options), 2, embedding=table(tokens)))
    targets = torch.tensor([1, 0, 1]) if kind is SequenceClassifier else torch.randn(3, 2, dtype=DOUBLE)
    clean, lengths = batch_for(tokens), torch.tensor([4, 2, 1])
    beyond = torch.arange(4) >= lengths[:, None]
    clean[beyond] = 0
    dirty = clean.clone()
    dirty[beyond] = -7 if tokens else float("nan")
    longer = torch.cat([dirty, dirty[2:, 3:].expand(3, 2, *dirty.shape[2:])], dim=1)

    def learn(x: Tensor) -> list[Tensor]:
        x = x.clone().requires_grad_(not tokens)
        torch.manual_seed(1)
        model.zero_grad()
        loss = model.loss(x, targets, lengths)
        torch.autograd.backward(loss)
        if x.grad is not None:
            assert not bool(x.grad[:, :4][beyond].any())
        weights = (weight.grad for weight in model.parameters())
        return [loss.detach(), *(grad.clone() for grad in weights if grad is not None)]

    want = learn(clean)
    assert want[1].abs().max() > 0
    for x in (dirty, longer):
        got = learn(x)
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            close(a, b)


# -- what cannot be built ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: SequenceClassifier(nn.GRU(2, 4), 1), ValueError, "num_classes must be at least 2, got 1"),
        (lambda: SequenceRegressor(nn.GRU(2, 4), 0), ValueError, "num_outputs must be at least 1, got 0"),
        (
            lambda: SequenceClassifier(STTauGRU(2, 4, 3), 3, nn.Embedding(5, 3)),
            ValueError,
            "embedding has 3 dimensions, but the layer's input_size is 2",
        ),
        (
            lambda: SequenceClassifier(nn.LSTM(2, 4, proj_size=2), 3),
            ValueError,
            "layers with proj_size are not supported; choose hidden_size",
        ),
        (
            lambda: SequenceClassifier(cast(Any, nn.RNN(2, 4)), 3),
            TypeError,
            "layer must be nn.LSTM, nn.GRU or a layer of sttau.layers, .*got RNN",
        ),
    ],
    ids=["one class", "no outputs", "embedding", "proj_size", "nn.RNN"],
)
def test_models_that_cannot_be_are_refused(build: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()


# -- saving and loading --------------------------------------------------------------------------------------


def saved_config(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        config = json.loads(file.metadata()["sttau"])
    return {name: value for name, value in config.items() if name != "sha256"}


def saved_tensors(path: Path) -> dict[str, Tensor]:
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)


def rewrite(path: Path, config: dict[str, Any], tensors: dict[str, Tensor], spaces: int = 0) -> Path:
    """Write a file with a right checksum, whatever is in it."""
    text = json.dumps(config | {"sha256": _checksum(_as_text(config), tensors)})
    save_file(tensors, path, metadata={"sttau": text + " " * spaces})
    return path


def assert_same_model(again: SequenceModel, model: SequenceModel) -> None:
    """Same kind, same configuration, the same bits in every tensor, eval mode."""
    assert type(again) is type(model)
    assert type(again.layer) is type(model.layer)
    assert repr(again) == repr(model)
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in model.named_parameters()]
    found = again.state_dict()
    assert list(found) == list(model.state_dict())
    for name, value in model.state_dict().items():
        assert found[name].dtype == value.dtype
        assert torch.equal(found[name], value)
    assert not again.training


@every_layer
@pytest.mark.parametrize("kind", [SequenceClassifier, SequenceRegressor])
@both_inputs
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_what_was_saved_is_what_is_loaded(
    name: str,
    kind: type[SequenceClassifier | SequenceRegressor],
    tokens: bool,
    dtype: torch.dtype,
    tmp_path: Path,
) -> None:
    layer = layer_of(name, num_layers=2, bidirectional=True)
    model: SequenceClassifier | SequenceRegressor = kind(layer, 2, embedding=table(tokens)).to(dtype)
    path = model.save(tmp_path / "model.safetensors")
    again = load(path)
    assert_same_model(again, model)
    assert saved_config(again.save(tmp_path / "again.safetensors")) == saved_config(path)
    x = batch_for(tokens)
    before: Any = predict(model, x, [4, 2, 1])
    after: Any = predict(again, x, [4, 2, 1])
    assert after.mode == before.mode
    for field in ("mean", "variance", "aleatoric", "epistemic", "total"):
        assert torch.equal(getattr(after, field), getattr(before, field))


@pytest.mark.parametrize(
    "model",
    [
        SequenceClassifier(STTauGRU(2, 4, 3, mode="exact", initial="first", temperature=0.3), 5),
        SequenceClassifier(STTauGRU(2, 4, 3, mode="hard", readout="cell", bias=False), 5),
        SequenceClassifier(STTauLSTM(2, 4, 3, peephole=True, learn_temperature=False, batch_first=True), 5),
        SequenceClassifier(STTauLSTM(2, 4, 3, mode="deterministic", num_layers=3, dropout=0.25), 5),
        SequenceRegressor(STTauGRU(2, 4, 3), 3, variance=True, embedding=nn.Embedding(5, 2, padding_idx=4)),
        SequenceClassifier(nn.LSTM(2, 4, num_layers=2, bias=False, dropout=0.5, batch_first=True), 5),
        SequenceClassifier(nn.GRU(2, 4, bidirectional=True), 5, nn.Embedding(5, 2)),
        SequenceClassifier(BayesLSTM(2, 4, rho=-2.0, mean=0.01, prior_scale=0.5, prior_mixture=(0.25, 0.1)), 5),
        SequenceClassifier(VariationalDropoutLSTM(2, 4, dropout=0.3, input_dropout=0.0, num_layers=2), 5),
    ],
    ids=lambda model: str(model.layer),
)
def test_every_option_of_a_model_is_saved(model: SequenceModel, tmp_path: Path) -> None:
    path = model.save(tmp_path / "model.safetensors")
    again = load(path)
    assert_same_model(again, model)
    assert saved_config(again.save(tmp_path / "again.safetensors")) == saved_config(path)
    if isinstance(model.layer, RecurrentLayer):
        assert again.layer.config() == model.layer.config()
    if model.embedding is not None:
        assert again.embedding.padding_idx == model.embedding.padding_idx


def test_a_temperature_that_was_learnt_is_what_is_loaded(tmp_path: Path) -> None:
    layer = STTauGRU(2, 4, 3)
    with torch.no_grad():
        layer.get_parameter("log_temperature_l0").fill_(-0.7)
    again = load(SequenceClassifier(layer, 3).save(tmp_path / "model"))
    assert again.layer.temperature.item() == pytest.approx(math.exp(-0.7), rel=1e-6)


def test_saving_makes_the_folder_and_returns_the_path(tmp_path: Path) -> None:
    wish = tmp_path / "new" / "folder" / "model.safetensors"
    path = SequenceClassifier(STTauGRU(2, 4, 3), 3).save(str(wish))
    assert path == wish
    assert [file.name for file in path.parent.iterdir()] == ["model.safetensors"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A model saved with its embedding."""
    return SequenceClassifier(STTauGRU(2, 4, 3), 3, nn.Embedding(5, 2)).save(tmp_path / "model.safetensors")


def test_a_saved_file_holds_json_and_numbers_and_nothing_else(file: Path) -> None:
    content = file.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    assert json.loads(header.pop("__metadata__")["sttau"])["format"] == "sttau.model"
    spans = sorted(tuple(entry["data_offsets"]) for entry in header.values())
    assert spans[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert 8 + size + spans[-1][1] == len(content)
    assert all(entry["dtype"] == "F32" for entry in header.values())
    assert sum(4 * math.prod(entry["shape"]) for entry in header.values()) == spans[-1][1]


def test_a_save_that_fails_half_way_leaves_the_old_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = file.read_bytes()

    def half(self: Path, content: bytes) -> int:
        with self.open("wb") as opened:
            opened.write(content[: len(content) // 2])
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(OSError, match="No space left"):
        SequenceClassifier(STTauGRU(2, 4, 3), 3).save(file)
    assert file.read_bytes() == old
    assert list(file.parent.iterdir()) == [file]


def test_a_saved_file_has_the_permissions_of_any_other(file: Path) -> None:
    other = file.with_name("other")
    other.write_bytes(b"")
    assert file.stat().st_mode == other.stat().st_mode


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_is_refused_and_not_run(file: Path, protocol: int) -> None:
    mark = file.with_name("mark")
    file.write_bytes(pickle.dumps(Bomb(mark), protocol))
    with pytest.raises(ValueError, match=r"is a pickle \(torch.save\), .*any code.*model.save\(path\)"):
        load(file)
    assert not mark.exists()
    pickle.loads(file.read_bytes())
    assert mark.exists()  # it would have


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_of_torch_save_is_refused_and_not_run(file: Path, zipped: bool) -> None:
    mark = file.with_name("mark")
    torch.save(Bomb(mark), file, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"is a pickle \(torch.save\)"):
        load(file)
    assert not mark.exists()


def damaged(content: bytes) -> Iterator[bytes]:
    yield b""
    yield content[:4]
    yield content[:200]
    yield content[:-1]
    yield content + b"\0"
    yield random.Random(0).randbytes(len(content))
    yield b"\xff" * len(content)
    yield pickle.dumps({"a": 1}, protocol=0)


@pytest.mark.parametrize("number", range(8))
def test_a_damaged_file_is_refused(file: Path, number: int) -> None:
    file.write_bytes(list(damaged(file.read_bytes()))[number])
    with pytest.raises(ValueError, match=r"model.safetensors is damaged or not a safetensors file: "):
        load(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="there is no file "):
        load(tmp_path)


@pytest.mark.parametrize(
    "metadata",
    [None, {"format": "pt"}, {"sttau": "null"}, {"sttau": "[]"}, {"sttau": '{"format": "other"}'}],
    ids=str,
)
def test_a_safetensors_file_of_another_program_is_refused(file: Path, metadata: Any) -> None:
    save_file({"weight": torch.zeros(2)}, file, metadata=metadata)
    with pytest.raises(ValueError, match="is not a model: it was not written by sttau"):
        load(file)


@pytest.mark.parametrize("version", [0, 4, "1", None])
def test_another_format_version_is_refused(file: Path, version: Any) -> None:
    config = saved_config(file) | {"version": version}
    rewrite(file, config, saved_tensors(file))
    with pytest.raises(ValueError, match=f"has format version {version}; this sttau reads versions up to 3"):
        load(file)


def without(config: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != key}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: without(c, "version"), "format version"),
        (lambda c: without(c, "layer"), "configuration is not valid: .*layer"),
        (lambda c: without(c, "dtype"), "configuration is not valid: .*dtype"),
        (lambda c: c | {"dtype": "float31"}, "configuration is not valid: .*float31"),
        (lambda c: c | {"dtype": "load"}, "configuration is not valid: .*load"),
        (lambda c: c | {"model": "SequenceTagger"}, "configuration is not valid: .*SequenceTagger"),
        (lambda c: c | {"layer": c["layer"] | {"type": "RNN"}}, "configuration is not valid: .*RNN"),
        (lambda c: c | {"arguments": {"classes": 3}}, "configuration is not valid: .*classes"),
        (lambda c: c | {"arguments": {"num_classes": 1}}, "configuration is not valid: num_classes must be"),
        (lambda c: c | {"embedding": {"num_embeddings": 5}}, "configuration is not valid: .*embedding_dim"),
        (
            lambda c: c | {"layer": c["layer"] | {"arguments": c["layer"]["arguments"] | {"mode": "fast"}}},
            "configuration is not valid: mode must be one of .*got 'fast'",
        ),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(
    file: Path, edit: Callable[[dict[str, Any]], dict[str, Any]], message: str
) -> None:
    rewrite(file, edit(saved_config(file)), saved_tensors(file))
    with pytest.raises(ValueError, match=message):
        load(file)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: without(t, "head.bias"), r"head.bias: expected \(3,\), found nothing"),
        (lambda t: t | {"extra": torch.zeros(2)}, r"extra: expected nothing, found \(2,\)"),
        (lambda t: t | {"head.weight": torch.zeros(4, 3)}, r"head.weight: expected \(3, 4\), found \(4, 3\)"),
        (lambda t: t | {"head.bias": torch.zeros(3).int()}, r"head.bias: expected torch.float32, found torch.int32"),
        (lambda t: t | {"head.bias": torch.zeros(3) * 1j}, r"head.bias: expected torch.float32, found .*complex64"),
        (lambda t: t | {"head.bias": torch.zeros(3).double()}, r"head.bias: expected torch.float32, found .*float64"),
    ],
    ids=["missing", "extra", "shape", "integer", "complex", "double"],
)
def test_weights_that_do_not_fit_are_refused(
    file: Path, edit: Callable[[dict[str, Tensor]], dict[str, Tensor]], message: str
) -> None:
    rewrite(file, saved_config(file), edit(saved_tensors(file)))
    with pytest.raises(ValueError, match=f"weights in .* do not fit its configuration; {message}$"):
        load(file)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_neither_saved_nor_loaded(file: Path, value: float, tmp_path: Path) -> None:
    rewrite(file, saved_config(file), saved_tensors(file) | {"head.bias": torch.tensor([0, 0, value])})
    with pytest.raises(ModelFileError, match=r"the weights in .*model.safetensors are not finite: head.bias"):
        load(file)
    model = SequenceClassifier(STTauGRU(2, 4, 3), 3)
    nn.init.constant_(model.get_parameter("layer.weight_hh_l0"), value)
    with pytest.raises(ValueError, match=r"cannot be saved: it has weights that are not finite, layer.weight_hh_l0"):
        model.save(tmp_path / "diverged.safetensors")
    assert not (tmp_path / "diverged.safetensors").exists()


@pytest.mark.parametrize("value", [-1000.0, 1000.0])
def test_a_temperature_of_zero_or_infinity_is_not_loaded(file: Path, value: float) -> None:
    rewrite(file, saved_config(file), saved_tensors(file) | {"layer.log_temperature_l0": torch.tensor(value)})
    with pytest.raises(ModelFileError, match=r"are not finite: layer\.log_temperature_l0"):
        load(file)


def test_the_default_device_does_not_matter_where_a_device_is_named(file: Path) -> None:
    with torch.device("meta"):
        model = load(file)
    assert model.device.type == "cpu"


def test_a_changed_bit_in_a_model_is_found(file: Path) -> None:
    content = file.read_bytes()
    for place in (*range(8, 1400, 7), *range(1400, len(content), 41)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(ModelFileError):
            load(file)


def test_a_model_without_its_checksum_is_refused(file: Path) -> None:
    save_file(saved_tensors(file), file, metadata={"sttau": json.dumps(saved_config(file))})
    with pytest.raises(ModelFileError, match=r"model.safetensors is damaged: it has no checksum"):
        load(file)


HUGE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "layers": lambda c: c["layer"]["arguments"].update(num_layers=10**6),
    "hidden size": lambda c: c["layer"]["arguments"].update(hidden_size=10**6),
    "states": lambda c: c["layer"]["arguments"].update(num_states=10**12),
    "input size": lambda c: c["layer"]["arguments"].update(input_size=10**12),
    "overflow": lambda c: c["layer"]["arguments"].update(hidden_size=10**30),
    "classes": lambda c: c["arguments"].update(num_classes=10**12),
    "labels": lambda c: (
        c["layer"]["arguments"].update(num_states=10**9),
        c["arguments"].update(num_classes=10**9, head="halves"),
    ),
    "tokens": lambda c: c["embedding"].update(num_embeddings=10**12),
    "members": lambda c: c.update(model="DeepEnsemble", members=[dict(c)] * 10**4),
    "device": lambda c: c["layer"]["arguments"].update(device="meta"),
    "a word for a size": lambda c: c["layer"]["arguments"].update(hidden_size="8"),
    "a list for a layer": lambda c: c.update(layer=["STTauGRU"]),
    "a word for members": lambda c: c.update(model="DeepEnsemble", members="two"),
    "deep": lambda c: c.update(data=json.loads("[" * 900 + "]" * 900)),
}


@pytest.mark.parametrize("kind", HUGE)
def test_a_small_file_that_claims_a_large_model_or_none_is_refused_before_memory_is_taken(
    file: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = saved_config(file)
    HUGE[kind](config)
    rewrite(file, config, saved_tensors(file))
    built: list[torch.device] = []
    usual = saved.build

    def note(header: Any) -> Any:
        built.append(torch.empty(0).device)
        return usual(header)

    monkeypatch.setattr(saved, "build", note)
    with pytest.raises(ModelFileError, match=r"model.safetensors"):
        load(file)
    assert built in ([], [torch.device("meta")])


def test_a_file_larger_than_the_limit_is_refused(file: Path) -> None:
    size = file.stat().st_size
    with pytest.raises(ModelFileError, match=rf"has {size} bytes, more than the limit max_bytes={size - 1}"):
        load(file, max_bytes=size - 1)
    load(file, max_bytes=size)
    load(file, max_bytes=None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_named(file: Path) -> None:
    with pytest.raises(ValueError, match="device 'cuda' is not available: PyTorch finds no GPU on this machine"):
        load(file, "cuda")
    with pytest.raises(ValueError, match="device must be the name of a device, such as 'cpu' or 'cuda', got 'gpu'"):
        load(file, "gpu")


def test_a_file_is_read_whatever_the_size_of_its_header(file: Path) -> None:
    """The first bytes of a safetensors file are its header's size, and may look like those of a pickle."""
    tensors, config = saved_tensors(file), saved_config(file)
    seen = set()
    for spaces in range(0, 256, 8):  # a header is padded to a multiple of 8
        rewrite(file, config, tensors, spaces)
        seen.add(file.read_bytes()[0])
        assert torch.equal(load(file).head.weight, tensors["head.weight"])
    assert 0x80 in seen


class OwnGRU(STTauGRU):
    """A layer that no file can name."""


class OwnClassifier(SequenceClassifier):
    """A model that no file can name."""


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SequenceClassifier(OwnGRU(2, 4, 3), 3), "a model on OwnGRU.* cannot be saved: only BayesLSTM, GRU"),
        (OwnClassifier(STTauGRU(2, 4, 3), 3), "OwnClassifier cannot be saved"),
    ],
    ids=["layer", "model"],
)
def test_what_cannot_be_loaded_cannot_be_saved(model: SequenceModel, message: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=message):
        model.save(tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


# -- what a model remembers of its data --------------------------------------------------------------------------------


def test_names_of_classes_features_and_tokens_are_saved_with_the_model(tmp_path: Path) -> None:
    from sttau.data import load as load_data

    model = SequenceClassifier(nn.GRU(4, 8), 2, nn.Embedding(3, 4))
    model.set_metadata(load_data("tomita1", "train"))
    again = load(model.save(tmp_path / "model.safetensors"))
    assert again.vocabulary == ("^", "0", "1")
    assert again.class_names == ("reject", "accept")
    assert again.feature_names == ()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: SequenceClassifier(nn.GRU(4, 8), 2, nn.Embedding(4, 4)), "vocabulary of the data has 3 entries.* 4"),
        (lambda: SequenceClassifier(nn.GRU(4, 8), 3, nn.Embedding(3, 4)), "class_names of the data has 2 entries.* 3"),
        (lambda: SequenceClassifier(nn.GRU(4, 8), 2), "vocabulary of the data has 3 entries.* none"),
        (lambda: SequenceRegressor(nn.GRU(4, 8), embedding=nn.Embedding(3, 4)), "class_names .* has none"),
    ],
)
def test_data_that_does_not_fit_the_model_is_not_remembered(model: Any, message: str) -> None:
    from sttau.data import load as load_data

    made = model()
    with pytest.raises(ValueError, match=message):
        made.set_metadata(load_data("tomita1", "train"))
    assert made.class_names == ()


# -- states with fixed labels (the paper's Algorithm 2) ---------------------------------------------------------------


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


@pytest.mark.parametrize("layer", [nn.LSTM(4, 6), STTauLSTM(4, 6, 3)], ids=["lstm", "st-tau"])
def test_dropout_is_for_training_alone_and_saved_with_the_model(layer: Any, tmp_path: Path) -> None:
    model = SequenceClassifier(layer, 2, nn.Embedding(9, 4), dropout=0.5, word_dropout=0.3)
    x, noise = torch.randint(2, 9, (5, 7)), Noise.of(torch.arange(5))
    torch.manual_seed(0)
    first, second = (model.train()(x, noise=noise) for _ in range(2))
    assert not torch.allclose(first, second)
    model.eval()
    assert torch.equal(model(x, noise=noise), model(x, noise=noise))
    plain = SequenceClassifier(layer, 2, model.embedding)
    plain.load_state_dict(model.state_dict())
    assert torch.equal(plain(x, noise=noise), model(x, noise=noise))
    again = load(model.save(tmp_path / "model"))
    assert (again.dropout, again.word_dropout) == (0.5, 0.3)


def test_word_dropout_reads_the_unknown_word() -> None:
    model = SequenceClassifier(nn.LSTM(4, 6), 2, nn.Embedding(9, 4), word_dropout=0.25)
    inputs = torch.full((100, 100), 5)
    lengths = torch.full((100,), 90)
    read, _ = model.train().prepare(inputs, lengths)
    assert set(read[:, :90].unique().tolist()) == {1, 5}
    assert 0.22 < float((read[:, :90] == 1).float().mean()) < 0.28
    assert not read[:, 90:].any()


def test_dropout_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="word_dropout needs an embedding"):
        SequenceClassifier(nn.LSTM(4, 6), 2, word_dropout=0.1)
    with pytest.raises(ValueError, match=r"dropout must be in \[0, 1\)"):
        SequenceClassifier(nn.LSTM(4, 6), 2, dropout=1.0)


def test_exact_training_drops_the_same_of_a_token_and_of_a_state_in_the_whole_batch() -> None:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(4, 6, 3, mode="exact"), 2, nn.Embedding(9, 4), dropout=0.5).double()
    tokens = torch.tensor([[1, 2, 1, 3], [3, 1, 1, 2], [1, 2, 1, 3]])
    torch.manual_seed(1)
    assert model.embedding is not None
    layer = model.finite_state_layer
    vectors, states = F.dropout(model.embedding.weight, 0.5), F.dropout(layer.states, 0.5)
    pi = layer.state_distribution(vectors[tokens])[:, -1]
    torch.manual_seed(1)
    found = model(tokens).exp()
    torch.testing.assert_close(found, pi @ model.head(states).softmax(-1))
    assert torch.equal(found[0], found[2])
    model.eval()
    torch.testing.assert_close(model(tokens), model(tokens))


def test_noise_on_features_is_there_in_training_only(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = SequenceClassifier(nn.LSTM(3, 8), 2, input_noise=0.5)
    x, lengths = torch.randn(4, 6, 3), torch.tensor([6, 2, 3, 6])
    assert not torch.equal(model(x, lengths), model(x, lengths))
    noisy = model.prepare(x, lengths)[0]
    assert 0.3 < float((noisy - x)[0].std()) < 0.7
    assert not noisy[1, 2:].any()
    model.eval()
    assert torch.equal(model(x, lengths), model(x, lengths))
    assert load(model.save(tmp_path / "m.safetensors")).input_noise == 0.5
    with pytest.raises(ValueError, match="input_noise must be a standard deviation"):
        SequenceClassifier(nn.LSTM(3, 8), 2, input_noise=-1)
    with pytest.raises(ValueError, match="for token ids use word_dropout"):
        SequenceClassifier(nn.LSTM(3, 8), 2, nn.Embedding(5, 3), input_noise=0.1)
