"""What all models share: what their heads read, exact mode, padding and dropout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from sttau import SequenceClassifier, SequenceRegressor, STTauGRU, STTauLSTM, load
from sttau.engine import Noise
from sttau.layers import RecurrentLayer, as_layer
from sttau.models import SequenceModel
from tests.models.small_models import DOUBLE, batch_for, bold, both_inputs, close, every_layer, layer_of, table

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


@pytest.mark.parametrize(
    "ask",
    [SequenceClassifier(nn.LSTM(2, 4), 3).state_logits, SequenceRegressor(nn.LSTM(2, 4)).state_outputs],
    ids=["classifier", "regressor"],
)
def test_a_plain_layer_has_no_states_to_ask(ask: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="LSTM has no states"):
        ask()


# -- exact mode ----------------------------------------------------------------------------------------------


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


# -- states with fixed labels (the paper's Algorithm 2) ---------------------------------------------------------------


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


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_nan_in_the_padding_reaches_no_gradient_of_an_adapted_layer(kind: Any, bidirectional: bool) -> None:
    layer, x, lengths = as_layer(kind(2, 4, bidirectional=bidirectional)), torch.randn(2, 4, 2), torch.tensor([4, 2])
    x[1, 2:] = torch.nan
    layer.features(x, lengths).sum().backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in layer.parameters() if weight.grad is not None)


# -- hooks of the embedding --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["exact", "deterministic", "soft"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_hooks_of_the_embedding_change_what_the_layer_reads(mode: Any, dropout: float) -> None:
    embedding = nn.Embedding(5, 2)
    model = bold(SequenceClassifier(STTauGRU(2, 4, 3, mode=mode), 2, embedding, dropout=dropout))
    x, lengths = torch.tensor([[1, 4, 2], [3, 3, 0]]), torch.tensor([3, 2])

    def logits() -> Tensor:
        torch.manual_seed(0)
        return cast(Tensor, model(x, lengths, noise=Noise.of(torch.arange(2))))

    before = logits()
    with embedding.register_forward_hook(lambda module, inputs, output: output):
        close(logits(), before)
    with embedding.register_forward_hook(lambda module, inputs, output: output * 0):
        zeroed = logits()
    with torch.no_grad():
        embedding.weight.zero_()
    close(zeroed, logits())
    assert not torch.allclose(zeroed, before, rtol=0, atol=1e-6)


@pytest.mark.parametrize("mode", ["exact", "deterministic"])
def test_a_hook_of_the_embedding_may_return_a_batch_of_another_size(mode: Any) -> None:
    """Attribution methods replace the vectors of a batch by several interpolations of each."""
    embedding = nn.Embedding(5, 2)
    model = bold(SequenceClassifier(STTauGRU(2, 4, 3, mode=mode), 2, embedding))
    x, vectors = torch.randint(5, (4, 6)), torch.randn(20, 6, 2)
    with embedding.register_forward_hook(lambda module, inputs, output: vectors.to(output)):
        found = model(x)
    other = SequenceClassifier(model.layer, 2)
    other.head = model.head
    close(found, other(vectors.to(embedding.weight)))
