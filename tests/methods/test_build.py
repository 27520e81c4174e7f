from __future__ import annotations

import pytest
import torch

from sttau import create_model, fit
from sttau.data import SequenceDataset, load
from sttau.methods import METHODS, DataSpec, build, resolve
from sttau.models import DeepEnsemble, Predictor, SequenceClassifier, SequenceRegressor


def numbers(features: int = 3, outputs: int = 1, sequences: int = 40) -> SequenceDataset:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(sequences, 6, features, generator=generator)
    y = x[:, 0, :1] + torch.arange(outputs)
    labels = y[:, 0] if outputs == 1 else y
    return SequenceDataset("numbers", "train", x, torch.full((sequences,), 6), labels, (), "made up")


def weights(model: Predictor) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("data", ["digits", "tomita1", "numbers"])
def test_every_method_reads_every_kind_of_data(name: str, data: str) -> None:
    train = numbers(outputs=2) if data == "numbers" else load(data, "train")
    task = DataSpec.of(train)
    settings = resolve(name, task, {}, 8)
    model = build(name, task, settings, train, 0)
    assert isinstance(model.members[0], SequenceRegressor if data == "numbers" else SequenceClassifier)
    assert isinstance(model, DeepEnsemble) == (METHODS[name].sampling == "members")
    lengths = model.check_inputs(train.inputs[:3], train.lengths[:3])
    targets = model.check_targets(train.labels[:3], 3)
    assert model.loss(train.inputs[:3], targets, lengths).isfinite()
    again, other = build(name, task, settings, train, 0), build(name, task, settings, train, 1)
    assert torch.equal(weights(model), weights(again))
    assert not torch.equal(weights(model), weights(other))


def test_members_of_ensembles_under_different_seeds_start_apart() -> None:
    train = load("digits", "train")
    task = DataSpec.of(train)
    settings = resolve("ensemble", task, {"size": 3}, 4)
    starts = [weights(member) for seed in (0, 1) for member in build("ensemble", task, settings, train, seed).members]
    assert len({start[0].item() for start in starts}) == 6


def test_what_is_given_stands_before_what_is_usual() -> None:
    task = DataSpec.of(load("digits", "train"))
    usual = resolve("st-tau", task, {}, 32)
    assert usual.items() >= {"cell": "lstm", "hidden_size": 32, "readout": "cell", "scale": True}.items()
    given = {"cell": "gru", "hidden_size": 5, "num_states": 3, "readout": "state", "scale": False}
    assert resolve("st-tau", task, given, 32) == usual | given
    assert resolve("dropout", DataSpec.of(numbers(features=1)), {}, 32)["input_dropout"] == 0


def test_bayes_is_no_wider_than_the_data_pays_for() -> None:
    few, many = DataSpec.of(numbers(sequences=400)), DataSpec.of(numbers(sequences=100_000))
    size = resolve("bayes", few, {}, 64)["hidden_size"]
    assert 4 * size * (size + 5) <= 800 < 4 * (size + 1) * (size + 6)
    assert resolve("bayes", many, {}, 64)["hidden_size"] == 64
    assert resolve("bayes", few, {"hidden_size": 50}, 64)["hidden_size"] == 50


def test_names_and_settings_that_make_no_sense_are_refused() -> None:
    train = load("digits", "train")
    task = DataSpec.of(train)
    with pytest.raises(ValueError, match=r"method must be one of lstm, gru, .*, got 'rnn'"):
        resolve("rnn", task, {}, 8)
    with pytest.raises(ValueError, match="cell of 'bayes' must be one of lstm, got 'gru'"):
        resolve("bayes", task, {"cell": "gru"}, 8)
    with pytest.raises(ValueError, match=r"settings of 'st-tau' do not fit STTauLSTM: .*'states'"):
        build("st-tau", task, resolve("st-tau", task, {"states": 3}, 8), train, 0)


def test_what_is_of_the_model_is_told_apart_from_what_is_of_the_layer() -> None:
    train = load("tomita1", "train")
    task = DataSpec.of(train)
    given = {"embedding_scale": 0.01, "embedding_size": 200, "model": {"dropout": 0.5, "word_dropout": 0.2}}
    model = build("dropout", task, resolve("dropout", task, {**given, "dropout": 0.3}, 8), train, 0)
    assert isinstance(model, SequenceClassifier)
    assert (model.dropout, model.word_dropout) == (0.5, 0.2)
    assert model.embedding is not None
    assert 0.008 < float(model.embedding.weight.detach().std()) < 0.012


def words(vocabulary: int) -> SequenceDataset:
    ids = torch.arange(40 * 6).reshape(40, 6) % vocabulary
    names = tuple(map(str, range(vocabulary)))
    return SequenceDataset(
        "words", "train", ids, torch.full((40,), 6), ids[:, 0] % 2, ("a", "b"), "made up", vocabulary=names
    )


def test_words_are_dropped_in_training_and_symbols_of_an_alphabet_are_not() -> None:
    text, alphabet = create_model(words(201), hidden_size=8), create_model(words(200), hidden_size=8)
    assert isinstance(text, SequenceClassifier)
    assert isinstance(alphabet, SequenceClassifier)
    assert text.dropout > 0 < text.word_dropout
    assert alphabet.dropout == alphabet.word_dropout == 0
    assert float(text.embedding.weight.detach().std()) < 0.2 < float(alphabet.embedding.weight.detach().std())  # type: ignore[union-attr]


def test_an_argument_of_the_model_leaves_the_defaults_of_the_others() -> None:
    usual, given = create_model(words(201)), create_model(words(201), model={"paths": 4, "word_dropout": 0.0})
    assert isinstance(usual, SequenceClassifier)
    assert isinstance(given, SequenceClassifier)
    assert (given.paths, given.word_dropout, given.dropout) == (4, 0.0, usual.dropout)


def test_texts_can_be_trained_exactly_with_the_defaults() -> None:
    train = words(201)
    model = create_model(train, cell="gru", mode="exact", readout="state", num_states=3, hidden_size=8)
    assert len(fit(model, train, updates=2)) == 2
    assert len(fit(create_model(train, "mixture", hidden_size=8), train, updates=2)) == 2
