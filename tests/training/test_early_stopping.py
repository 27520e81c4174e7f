from __future__ import annotations

import math

import pytest

from sttau.training.early_stopping import EarlyStopping


@pytest.mark.parametrize(("mode", "sign"), [("min", 1), ("max", -1)])
def test_the_best_value_is_kept_and_validations_since_are_counted(mode: str, sign: int) -> None:
    stopping = EarlyStopping(mode, patience=2)
    found = [stopping.improved(sign * value) for value in (3.0, 2.0, 2.0, 1.0, 4.0)]
    assert found == [True, True, False, True, False]
    assert (stopping.best, stopping.stale, stopping.should_stop) == (sign * 1.0, 1, False)
    stopping.improved(sign * 1.5)
    assert stopping.should_stop


def test_nan_is_never_an_improvement() -> None:
    stopping = EarlyStopping("max", patience=1)
    assert not stopping.improved(math.nan)
    assert stopping.best is None
    assert stopping.should_stop


def test_without_patience_it_never_stops() -> None:
    stopping = EarlyStopping()
    for _ in range(100):
        stopping.improved(1.0)
    assert not stopping.should_stop
