from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from aalpy.learning_algs import run_RPNI
from torch import nn

from sttau import SequenceClassifier, STTauGRU
from sttau import load as load_model
from sttau.automata import (
    PrefixTree,
    balanced_strings,
    compare,
    distance,
    extract_dfa,
    extract_pa,
    learn,
    learn_by_merging,
    learn_stochastic,
    learn_with_noise,
    random_dfa,
    stochastic,
    tomita,
)
from sttau.automata.learning import imitation, label_noise, state_merging
from sttau.automata.learning.imitation import imitate
from sttau.automata.learning.state_merging import Order
from sttau.automata.learning.stochastic import _groupings
from sttau.data import SequenceDataset, load
from sttau.data.strings import as_dataset
from sttau.inference import predict
from sttau.languages import accepts
from sttau.layers import LayerMode
from sttau.models import Head
from sttau.training import Update


def _model(states: int = 5, head: Head = "dense") -> SequenceClassifier:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(4, 8, states, mode="exact"), 2, nn.Embedding(3, 4), head=head)
    with torch.no_grad():
        model.finite_state_layer.states.mul_(3)
    return model


@pytest.mark.parametrize("head", ["dense", "halves"])
def test_the_tree_gives_the_loss_and_the_gradient_of_the_strings_one_by_one(head: Head) -> None:
    data = load("stochastic1", "train").select(torch.arange(0, 10170, 7))
    model = _model(4, head).double()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    tree = PrefixTree(data).double().loss(model)
    single = model.loss(data.inputs, data.labels, data.lengths)
    torch.testing.assert_close(tree, single)
    for ours, theirs in zip(
        torch.autograd.grad(tree, parameters, allow_unused=True),
        torch.autograd.grad(single, parameters, allow_unused=True),
        strict=True,
    ):
        if theirs is not None:
            torch.testing.assert_close(ours, theirs)


def test_the_first_levels_of_the_tree_are_the_shorter_strings() -> None:
    data, model = load("tomita5", "train"), _model()
    short = data.select(data.lengths <= 5)
    torch.testing.assert_close(
        PrefixTree(data).loss(model, depth=4), model.loss(short.inputs, short.labels, short.lengths)
    )


def test_copies_and_their_frequencies_are_the_same() -> None:
    data, model = load("stochastic1", "train"), _model()
    once = data.select(torch.arange(0, len(data), 10))
    accepted = data.labels.view(-1, 10).sum(-1)
    tree = PrefixTree(once, torch.stack([10 - accepted, accepted], -1).float())
    torch.testing.assert_close(tree.loss(model), PrefixTree(data).loss(model))
    assert tree.counts.sum() == len(data)


def test_lengths_have_equal_weight_after_reweighting() -> None:
    tree = PrefixTree(load("stochastic2", "train")).weighted_by_length()
    sums = [float(tree.counts[begin:end].sum()) for begin, end in zip([0, *tree.ends], tree.ends, strict=False)]
    assert sums == pytest.approx([0.0] + [1.0] * 10)


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


def test_the_shape_of_a_stochastic_language_is_found_by_the_criterion() -> None:
    data = load("stochastic1", "train")
    learned = learn_stochastic(data, num_states=4, attempts=1, updates=80, iterations=80)
    assert learned.distinct == 2
    assert learned.criteria[2] < learned.criteria[3]
    states = learned.model.finite_state_layer.states
    assert torch.equal(states[0], states[1])
    assert torch.equal(states[2], states[3])
    pa = extract_pa(learned.model, tolerance=1e-4).pa
    assert pa.num_states == 2
    # labels allow a standard error of about 0.02 (sttau_reproduction.automata.cramer_rao)
    assert max(distance(pa, stochastic(1), length=15).sup_by_length[1:]) < 0.05


def test_with_fixed_labels_the_edges_themselves_are_learned() -> None:
    data = load("stochastic1", "train")
    learned = learn_stochastic(data, num_states=4, head="halves", distinct=2, attempts=1, updates=80, iterations=80)
    pa = extract_pa(learned.model, tolerance=1e-4).pa
    assert pa.num_states == 2
    assert pa.output.tolist() == [0.0, 1.0]
    # the labels allow standard errors of 0.015 to 0.022 (sttau_reproduction.automata.cramer_rao)
    torch.testing.assert_close(pa.matrices, stochastic(1).matrices, atol=0.06, rtol=0)


def test_equal_rows_have_equal_labels() -> None:
    groupings = _groupings(6, 3, "halves")
    assert [group.tolist() for group in groupings] == [[0, 0, 0, 1, 1, 2], [0, 0, 1, 2, 2, 2]]
    assert _groupings(4, 4, "halves")[0].tolist() == [0, 1, 2, 3]
    assert _groupings(4, 3, "dense")[0].tolist() == [0, 0, 1, 2]


def test_from_probabilities_the_automaton_itself_is_learned() -> None:
    alphabet = "01"
    strings = ["".join(word) for length in range(1, 6) for word in product(alphabet, repeat=length)]
    data = as_dataset(strings, torch.zeros(len(strings)), alphabet)
    p = stochastic(1).probability(strings)
    learned = learn_stochastic(
        data,
        num_states=3,
        frequencies=torch.stack([1 - p, p], -1).float(),
        distinct=3,
        attempts=1,
        updates=80,
        iterations=150,
    )
    gaps = distance(extract_pa(learned.model).pa, stochastic(1), length=12).sup_by_length
    assert max(gaps[1:]) < 0.01


def test_the_model_has_the_vocabulary_of_its_data() -> None:
    dfa = tomita(1)
    strings = ["1" * length for length in range(6)] + ["10", "0", "01", "011", "101"]
    learned = learn(as_dataset(strings, accepts(dfa, strings), "01"), attempts=3)
    assert learned.model.vocabulary == ("^", "0", "1")


def _labeled(strings: list[str], inside: Callable[[str], bool], alphabet: str = "ab") -> SequenceDataset:
    return as_dataset(strings, [inside(string) for string in strings], alphabet)


def hash_of(string: str) -> int:
    return int.from_bytes(hashlib.sha256(string.encode()).digest()[:4], "big")


ALL = ["".join(word) for length in range(9) for word in product("ab", repeat=length)]


ORDERS: tuple[Order, ...] = ("evidence", "canonical")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(4))
def test_state_merging_is_consistent_with_any_labels(order: Order, seed: int) -> None:
    source = random.Random(seed)
    strings = source.sample(ALL, 60)
    data = _labeled(strings, lambda string: hash_of(f"{seed} {string}") % 2 == 0)  # no structure at all
    dfa = learn_by_merging(data, order)
    assert dfa is not None
    assert torch.equal(accepts(dfa, strings), data.labels.bool())
    assert learn_by_merging(data, order, largest=len(dfa.states) - 1) is None


@pytest.mark.parametrize(("states", "alphabet"), [(5, "abc"), (9, "ab"), (12, "ab")])
def test_merging_finds_a_language_that_the_strings_determine_as_rpni_of_aalpy_does(states: int, alphabet: str) -> None:
    truth = random_dfa(states, alphabet, seed=1001)
    strings, labels = balanced_strings(truth, range(17), 64, seed=0)
    data = as_dataset(strings, labels, alphabet)
    for order in ORDERS:
        dfa = learn_by_merging(data, order)
        assert dfa is not None
        assert compare(dfa, truth)
    theirs = run_RPNI(list(zip(map(tuple, strings), labels.bool().tolist(), strict=True)), "dfa", print_info=False)
    assert theirs.size == states


def test_contradictory_labels_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match="contradictory labels"):
        learn_by_merging(as_dataset(["a", "a"], [True, False], "a"))


def test_too_few_rows_cannot_imitate() -> None:
    model = _model(3, "dense")
    model.set_metadata(load("tomita4", "train"))
    assert imitate(model, tomita(4)) is None
    halves = _model(6, "halves")  # three rows of each label
    halves.set_metadata(load("tomita4", "train"))
    assert imitate(halves, random_dfa(8, seed=0)) is None


def test_the_network_starts_from_the_automaton_of_state_merging() -> None:
    truth = random_dfa(9, "abc", seed=5)
    train, validation = (
        as_dataset(*balanced_strings(truth, lengths, count, seed=0), "abc")
        for lengths, count in ((range(11), 30), (range(17, 25), 8))
    )
    learned = learn(train, validation, num_states=18, attempts=1)
    assert learned.merged is not None
    assert compare(learned.merged, truth)
    assert (learned.reached, learned.attempts, learned.reason) == (True, 1, "")
    assert extract_dfa(learned.model).equivalent_to(truth)
    strings = ["".join(random.Random(seed).choices("abc", k=1000)) for seed in range(20)]
    long = as_dataset(strings, accepts(truth, strings), "abc")
    assert predict(learned.model, long.inputs, long.lengths).label.tolist() == long.labels.tolist()


def test_a_counting_language_is_learned() -> None:
    """(a + 2b) mod 5 with an even number of c: ten states, not found from random weights in 40 attempts."""

    def inside(string: str) -> bool:
        return (string.count("a") + 2 * string.count("b")) % 5 == 0 and string.count("c") % 2 == 0

    short = ["".join(word) for length in range(7) for word in product("abc", repeat=length)]
    source = random.Random(0)
    long = ["".join(source.choices("abc", k=source.randint(20, 30))) for _ in range(100)]
    train, validation = (as_dataset(part, [inside(string) for string in part], "abc") for part in (short, long))
    learned = learn(train, validation, num_states=20, head="halves", attempts=1)
    assert learned.reached
    assert len(extract_dfa(learned.model).dfa.states) == 10


@pytest.mark.parametrize(
    ("train", "validation", "states", "reason"),
    [
        (  # a language that needs more states than there are
            _labeled(ALL, lambda string: string.count("a") % 7 == 0),
            None,
            4,
            "state merging finds 7 states, more than num_states = 4: raise num_states",
        ),
        (  # random labels
            _labeled(ALL, lambda string: hash_of(string) % 2 == 0),
            None,
            4,
            "no automaton of up to 8 states fits the training labels, even if some are wrong",
        ),
        (  # a language that is not regular
            _labeled(ALL, lambda string: string == "a" * (len(string) // 2) + "b" * (len(string) // 2)),
            None,
            6,
            "probably not regular: automata that fit have 3 states up to length 2, 5 up to length 4, 7 up to length 6",
        ),
        (  # too few strings
            _labeled(["", "a", "b", "aa"], lambda string: string.count("a") % 2 == 0),
            _labeled(ALL, lambda string: string.count("a") % 2 == 0 and "bb" not in string),
            4,
            "so the training strings do not determine the language: add strings",
        ),
    ],
)
def test_a_failure_is_warned_of_with_its_reason_and_kept_with_the_model(
    train: SequenceDataset,
    validation: SequenceDataset | None,
    states: int,
    reason: str,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    learned = learn(train, validation, num_states=states, attempts=2, updates=3)
    assert not learned.reached
    assert "after 2 attempts the loss is" in learned.reason
    assert reason in learned.reason
    assert f"learn did not reach its goal: {learned.reason}" in caplog.text
    again = load_model(learned.model.save(tmp_path / "model.safetensors"))
    assert isinstance(again.notes["learned"], dict)
    assert {"reached": False, "reason": learned.reason, "verdict": "failed"}.items() <= again.notes["learned"].items()
    assert (learned.verdict.kind, learned.verdict.evidence) == ("failed", learned.reason)
    assert not learned.verdict


@pytest.mark.parametrize("mode", ["exact", "soft"])
def test_a_time_limit_ends_all_attempts(mode: LayerMode, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("sttau.automata.learning.attempt.time.monotonic", lambda: now[0])

    def wait(attempt: int, update: Update, model: SequenceClassifier) -> None:
        now[0] += 1.0

    learned = learn(load("tomita5", "train"), mode=mode, warm_start=False, seconds=3, callbacks=wait)
    assert (learned.attempts, len(learned.log), learned.reached) == (1, 3, False)
    assert "the time limit of 3 seconds is over" in learned.reason


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_every_part_of_learning_ends_with_the_time_limit(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of the search takes a second, each update of the network a tenth, by a clock of the test's own."""
    now, begun = [0.0], {"search": 0, "imitation": 0}
    monkeypatch.setattr("sttau.automata.learning.attempt.time.monotonic", lambda: now[0])

    def slow(owner: object, name: str, seconds: float, kind: str) -> None:
        original = getattr(owner, name)

        def wrapped(*arguments: object, **options: object) -> object:
            now[0] += seconds
            begun[kind] += 1
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, wrapped)

    slow(label_noise._Search, "descended", 1.0, "search")
    slow(imitation, "_terms", 0.1, "imitation")
    slow(state_merging._Fringe, "merge", 0.01, "search")
    strings = [format(n, "b")[1:] for n in range(1, 512)]
    wrong = torch.rand(len(strings), generator=torch.Generator().manual_seed(0)) < share
    data = as_dataset(strings, accepts(tomita(5), strings) ^ wrong, "01")
    learned = learn(data, seconds=10, attempts=1000, updates=20, callbacks=lambda *_: now.__setitem__(0, now[0] + 0.1))
    assert begun["search"] > 0
    assert begun["imitation"] > 0
    assert now[0] <= 11, (now, begun)  # the limit, and one step of the search
    assert learned.reached or "the time limit of 10 seconds is over" in learned.reason


def test_a_search_that_is_stopped_returns_what_it_has() -> None:
    strings = [format(n, "b")[1:] for n in range(1, 128)]
    data = as_dataset(strings, accepts(tomita(5), strings), "01")
    assert learn_by_merging(data, stop=lambda: True) is None
    assert len(learn_with_noise(data, stop=lambda: True).dfa.states) == 1
    assert compare(learn_with_noise(data, initial=tomita(5), stop=lambda: True).dfa, tomita(5))
    torch.manual_seed(0)
    model = _model()
    model.set_metadata(data)
    stopped = imitate(model, tomita(1), stop=lambda: True)
    assert stopped is not None
    assert stopped > 0.1


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


def test_the_number_of_distinct_states_is_chosen_by_any_criterion_and_all_are_reported() -> None:
    truth = stochastic(1)
    strings = ["".join(word) for length in range(1, 4) for word in product("01", repeat=length)]
    chances = truth.probability(strings)
    counts = (torch.stack([1 - chances, chances], -1) * 200).round()
    data = as_dataset(strings, torch.zeros(len(strings)), "01")
    options = {"num_states": 3, "frequencies": counts, "attempts": 1, "updates": 30, "iterations": 20}
    found = learn_stochastic(data, criterion="held-out", **options)  # type: ignore[arg-type]
    assert found.distinct == max(found.held_out, key=found.held_out.__getitem__)
    assert set(found.held_out) == set(found.expected) == set(found.criteria) == {2, 3}
    labels = float(counts.sum())
    # held-out likelihood cannot exceed the entropy of the labels by more than its standard error
    entropy = float((counts * (counts / counts.sum(-1, keepdim=True)).clamp_min(1e-9).log()).sum())
    assert all(-labels < value < entropy + 60 for value in found.held_out.values())
    akaike = learn_stochastic(data, criterion="aic", **options)  # type: ignore[arg-type]
    assert akaike.distinct == max(akaike.expected, key=akaike.expected.__getitem__)
    assert not akaike.held_out
    with pytest.raises(ValueError, match="criterion must be one of"):
        learn_stochastic(data, criterion="mdl", **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_stochastic_languages_are_learned_the_same_in_several_processes() -> None:
    data = load("stochastic1", "train")
    options = {"distinct": 2, "attempts": 2, "updates": 20, "iterations": 10}
    one, two = (learn_stochastic(data, workers=workers, **options) for workers in (1, 2))  # type: ignore[arg-type]
    assert one.loss == two.loss
    for name, value in one.model.state_dict().items():
        assert torch.equal(value, two.model.state_dict()[name]), name
    with pytest.raises(ValueError, match="callbacks cannot be called from other processes"):
        learn_stochastic(data, workers=2, callbacks=lambda update, model: None, **options)  # type: ignore[arg-type]
