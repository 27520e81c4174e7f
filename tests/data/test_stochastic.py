from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from sttau.data import SPLITS, SequenceDataset, load
from sttau.languages import STOCHASTIC_LANGUAGES, stochastic


def strings(data: SequenceDataset) -> list[str]:
    assert data.vocabulary is not None
    words = [
        "".join(data.vocabulary[token] for token in row[:length])
        for row, length in zip(data.inputs.tolist(), data.lengths.tolist(), strict=True)
    ]
    assert all(word[0] == "^" for word in words)
    return [word[1:] for word in words]


@pytest.mark.parametrize(("number", "count", "longest"), [(1, 1017, 9), (2, 2046, 10)])
def test_training_strings_are_all_short_ones_ten_times_and_longer_ones_are_held_out(
    number: int, count: int, longest: int
) -> None:
    seen = {split: Counter(strings(load(f"stochastic{number}", split))) for split in SPLITS}
    assert len(seen["train"]) == count
    for counter in seen.values():
        assert set(counter.values()) == {10}
    assert {len(string) for string in seen["train"]} == set(range(1, longest + 1))
    assert sum(len(string) < longest for string in seen["train"]) == 2**longest - 2
    assert {len(string) for string in seen["validation"]} == {longest + 1, longest + 2}
    assert {len(string) for string in seen["test"]} == set(range(longest + 3, longest + 7))


@pytest.mark.parametrize("number", STOCHASTIC_LANGUAGES)
@pytest.mark.parametrize("split", SPLITS)
def test_labels_are_drawn_with_the_probability_of_the_automaton(number: int, split: str) -> None:
    data = load(f"stochastic{number}", split)
    chances = stochastic(number).probability(strings(data)).numpy()
    labels = data.labels.numpy()
    for low in (0.0, 0.2, 0.4, 0.6, 0.8):
        inside = (chances >= low) & (chances < low + 0.2)
        if inside.any():
            spread = np.sqrt((chances * (1 - chances))[inside].sum())
            assert abs((labels - chances)[inside].sum()) <= 4 * spread + 1e-9
    mixed = (chances > 0.05) & (chances < 0.95)
    groups = labels[mixed].reshape(-1, 10)
    assert groups.std(axis=1).mean() > 0  # each copy of a string has its own label
