from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sttau.data import SequenceDataset, from_arrays, load, read, separate, split
from sttau.data.split import draw_uniform, hold_out, shuffle
from sttau.errors import DataError


def test_an_order_is_fixed_for_good() -> None:
    assert shuffle(8, seed=7).tolist() == [6, 3, 4, 0, 2, 7, 5, 1]


@given(st.integers(0, 200), st.integers(0, 2**32))
def test_an_order_holds_every_row_once(count: int, seed: int) -> None:
    assert sorted(shuffle(count, seed).tolist()) == list(range(count))


def test_draws_are_uniform_and_below_one() -> None:
    draws = draw_uniform(100_000, seed=1)
    assert 0 <= draws.min() < draws.max() < 1
    counts = np.histogram(draws, bins=10, range=(0, 1))[0]
    assert abs(counts - 10_000).max() < 5 * 100


@given(st.lists(st.integers(0, 4), min_size=1, max_size=300), st.integers(2, 10))
def test_held_out_rows_are_a_share_of_each_class_and_none_is_kept_too(labels: list[int], part: int) -> None:
    kept, held = hold_out(np.array(labels), part, seed=3)
    assert len(held) == len(labels) // part
    assert sorted([*kept.tolist(), *held.tolist()]) == list(range(len(labels)))
    for label in set(labels):
        share = sum(labels[row] == label for row in held.tolist())
        assert abs(share - labels.count(label) / part) <= 1


def make(labels: list[int], groups: list[str] | None = None) -> SequenceDataset:
    inputs = np.arange(len(labels) * 2, dtype=np.float64).reshape(-1, 2) + 1
    return from_arrays(inputs, labels, groups=groups, task="classification")


@given(st.lists(st.integers(0, 3), min_size=30, max_size=200), st.sampled_from([(0.8, 0.2), (0.6, 0.2, 0.2)]))
def test_parts_hold_every_series_once_and_their_share_of_each_class(
    labels: list[int], shares: tuple[float, ...]
) -> None:
    data = make([*labels, 0, 1])
    parts = split(data, shares)
    assert sorted(name for part in parts for name in part.ids or ()) == sorted(data.ids or ())
    for share, part in zip(shares, parts, strict=True):
        for label in data.labels.unique().tolist():
            wanted = share * int((data.labels == label).sum())
            assert abs(int((part.labels == label).sum()) - wanted) <= 1
    assert [part.split for part in parts] == ["train", "validation", "test"][: len(parts)]
    again = split(data, shares)
    assert all(one.ids == two.ids for one, two in zip(parts, again, strict=True))


@given(st.lists(st.integers(0, 9), min_size=20, max_size=100), st.integers(0, 5))
def test_groups_stay_together(groups: list[int], seed: int) -> None:
    names = [f"patient {group}" for group in [*groups, 10, 11]]
    data = make([row % 2 for row in range(len(names))], names)
    train, validation = split(data, validation=0.3, by="patient", seed=seed)
    assert not set(train.groups or ()) & set(validation.groups or ())
    assert len(train) + len(validation) == len(data)


def test_groups_are_balanced_in_size_and_classes() -> None:
    names = [f"{row // 10}" for row in range(400)]
    data = make([row // 10 % 2 for row in range(400)], names)
    train, validation = split(data, by=names)
    assert (len(train), len(validation)) == (320, 80)
    assert validation.labels.bincount().tolist() == [40, 40]


def test_the_column_of_groups_is_kept_and_is_no_feature(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{series},{series // 2},{step},{series % 2}" for series in range(8) for step in (1, 5)]
    path.write_text("\n".join(["id,patient,x,label", *rows]), "utf-8")
    data = read(path, group="patient")
    assert data.feature_names == ("x",)
    assert data.groups == tuple("00112233")
    assert data[[0, 7]].groups == ("0", "3")
    train, validation = split(data, validation=0.25, by="patient")
    assert (len(train), len(validation)) == (6, 2)
    with pytest.raises(DataError, match="has the groups of column 'patient', but by='ward'; read it with group='ward'"):
        split(data, by="ward")


def test_splits_that_cannot_be_are_refused() -> None:
    data = make([0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"must be above 0 and add up to 1, got fractions=\(0\.8, 0\.3\)"):
        split(data, (0.8, 0.3))
    with pytest.raises(ValueError, match=r"got validation=1"):
        split(data, validation=1.0)
    with pytest.raises(DataError, match="too few series"):
        split(data, validation=0.01)
    with pytest.raises(DataError, match="has no groups, but by='patient'; read it with group='patient'"):
        split(data, by="patient")
    with pytest.raises(DataError, match="there are 1 groups for 2 parts"):
        split(data, by=["a"] * 4)


def test_early_stopping_and_calibration_share_no_series_and_no_group() -> None:
    data = load("digits", "validation")
    stopping, calibration = separate(data, seed=1)
    rows = [tuple(row.flatten().tolist()) for part in (stopping, calibration) for row in part.inputs]
    assert sorted(rows) == sorted(tuple(row.flatten().tolist()) for row in data.inputs)
    groups = tuple(str(number // 7) for number in range(len(data)))
    first, second = separate(replace(data, groups=groups))
    assert not set(first.groups or ()) & set(second.groups or ())
    alone = replace(data, groups=("one",) * len(data))
    assert all(part is alone for part in separate(alone))
