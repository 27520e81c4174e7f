from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from sttau import SequenceClassifier
from sttau.automata import PrefixTree, extract_dfa, learn, learn_stochastic, tomita
from sttau.data import load
from sttau.data.strings import as_dataset
from sttau.inference import predict
from sttau.languages import accepts
from sttau.training import Update


def test_tomita_5_is_learned_from_its_strings_and_proved() -> None:
    taus: list[float] = []

    def record(attempt: int, update: Update, model: SequenceClassifier) -> None:
        taus.extend(update.temperature)

    learned = learn(load("tomita5", "train"), load("tomita5", "validation"), warm_start=False, seed=1, callbacks=record)
    assert learned.reached
    assert learned.wrong == 0
    assert learned.log[-1].loss <= 1e-4
    assert extract_dfa(learned.model).equivalent_to(tomita(5))
    assert len(taus) >= len(learned.log)
    assert set(taus) == {1.0}  # exact training does not depend on τ
    long = as_dataset(["01" * 500, "01" * 499 + "00", "0" * 1000], torch.tensor([1, 0, 1]), "01")
    assert predict(learned.model, long.inputs, long.lengths).label.tolist() == long.labels.tolist()


def test_learning_repeats_and_leaves_the_global_generator_alone() -> None:
    before = torch.random.get_rng_state()
    first, second = (learn(load("tomita1", "train"), seed=3, updates=5, attempts=1, warm_start=False) for _ in range(2))
    assert [update.loss for update in first.log] == [update.loss for update in second.log]
    assert torch.equal(before, torch.random.get_rng_state())
    assert not first.reached


def test_attempts_are_those_made_and_the_best_one_is_named() -> None:
    numbers: list[int] = []
    losses: dict[int, float] = {}

    def record(attempt: int, update: Update, model: SequenceClassifier) -> None:
        numbers.append(attempt)
        losses[attempt] = update.loss

    learned = learn(load("tomita3", "train"), attempts=3, updates=3, warm_start=False, seed=0, callbacks=[record])
    assert not learned.reached
    assert learned.attempts == max(numbers) == 3
    assert learned.best_attempt < 3  # so that the two differ
    assert learned.log[-1].loss == losses[learned.best_attempt]


@pytest.mark.parametrize("mode", ["soft", "hard"])
def test_sampled_training_learns_tomita_1_and_moves_the_temperature(mode: str) -> None:
    learned = learn(load("tomita1", "train"), mode=mode, updates=200, attempts=1, target_loss=0.01, learning_rate=0.01)  # type: ignore[arg-type]
    assert extract_dfa(learned.model).equivalent_to(tomita(1))
    assert learned.log[-1].temperature[0] != 1.0


def test_the_model_has_the_vocabulary_of_its_data() -> None:
    dfa = tomita(1)
    strings = ["1" * length for length in range(6)] + ["10", "0", "01", "011", "101"]
    learned = learn(as_dataset(strings, accepts(dfa, strings), "01"), attempts=3)
    assert learned.model.vocabulary == ("^", "0", "1")


def test_validation_over_another_alphabet_is_refused() -> None:
    train, validation = (as_dataset(["", *alphabet], [True, False, True], alphabet) for alphabet in ("ab", "bc"))
    with pytest.raises(ValueError, match=r"validation is over the vocabulary \^, b, c, but train over \^, a, b"):
        learn(train, validation)
    with pytest.raises(ValueError, match=r"over the vocabulary \^, 0, 1, but train"):
        learn(train, load("tomita1", "validation"))
    moved = replace(train, inputs=torch.where(train.inputs == 0, 1, train.inputs), lengths=torch.ones(3).long())
    with pytest.raises(ValueError, match="validation begins with 'a', but train with '\\^'"):
        learn(train, moved)


def test_wrong_arguments_are_rejected() -> None:
    data = load("tomita1", "train")
    with pytest.raises(ValueError, match="seconds must be positive"):
        learn(data, seconds=0)
    with pytest.raises(ValueError, match="tomita1 is empty"):
        learn(data.select(torch.zeros(0, dtype=torch.int64)))
    with pytest.raises(ValueError, match="num_states must be at least 2, got 1"):
        learn_stochastic(load("stochastic1", "train"), num_states=1)
    with pytest.raises(ValueError, match="mode must be"):
        learn(data, mode="deterministic")
    with pytest.raises(ValueError, match="updates must be at least 1"):
        learn(data, updates=0)
    with pytest.raises(ValueError, match="target_loss must be positive"):
        learn(data, target_loss=0)
    with pytest.raises(ValueError, match="use learn_stochastic"):
        learn(load("stochastic1", "train"))
    with pytest.raises(ValueError, match="strings over a vocabulary"):
        learn(load("digits", "train"))
    with pytest.raises(ValueError, match="begin with one start token"):
        learn(replace(data, inputs=data.inputs.roll(1, dims=1), lengths=data.lengths))
    with pytest.raises(ValueError, match="distinct must be from 2 to num_states = 4"):
        learn_stochastic(load("stochastic1", "train"), distinct=5)
    with pytest.raises(ValueError, match="frequencies must have shape"):
        PrefixTree(data, torch.ones(3, 2))
