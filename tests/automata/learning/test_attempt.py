from __future__ import annotations

import pytest
import torch

from sttau import SequenceClassifier
from sttau.automata import compare, learn, learn_by_merging, learn_with_noise, tomita
from sttau.automata.learning import imitation, label_noise, state_merging
from sttau.automata.learning.imitation import imitate
from sttau.data import load
from sttau.data.strings import as_dataset
from sttau.languages import accepts
from sttau.layers import LayerMode
from sttau.training import Update
from tests.automata.learning.strings import small_model


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
    model = small_model()
    model.set_metadata(data)
    stopped = imitate(model, tomita(1), stop=lambda: True)
    assert stopped is not None
    assert stopped > 0.1
