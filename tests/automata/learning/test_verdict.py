from __future__ import annotations

from pathlib import Path

import pytest

from sttau import load as load_model
from sttau.automata import learn
from sttau.data import SequenceDataset
from tests.automata.learning.strings import ALL, hash_of, labeled


@pytest.mark.parametrize(
    ("train", "validation", "states", "reason"),
    [
        (  # a language that needs more states than there are
            labeled(ALL, lambda string: string.count("a") % 7 == 0),
            None,
            4,
            "state merging finds 7 states, more than num_states = 4: raise num_states",
        ),
        (  # random labels
            labeled(ALL, lambda string: hash_of(string) % 2 == 0),
            None,
            4,
            "no automaton of up to 8 states fits the training labels, even if some are wrong",
        ),
        (  # a language that is not regular
            labeled(ALL, lambda string: string == "a" * (len(string) // 2) + "b" * (len(string) // 2)),
            None,
            6,
            "probably not regular: automata that fit have 3 states up to length 2, 5 up to length 4, 7 up to length 6",
        ),
        (  # too few strings
            labeled(["", "a", "b", "aa"], lambda string: string.count("a") % 2 == 0),
            labeled(ALL, lambda string: string.count("a") % 2 == 0 and "bb" not in string),
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
