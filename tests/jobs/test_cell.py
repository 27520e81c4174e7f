from __future__ import annotations

from typing import Any

import pytest

from sttau.jobs import Cell


@pytest.mark.parametrize("change", [{"version": 2}, {"seed": 5}, {"settings": {"a": 2}}, {"data": "x"}])
def test_a_cell_is_named_by_all_it_depends_on(change: dict[str, Any]) -> None:
    base: dict[str, Any] = {"experiment": "e", "data": "d", "method": "m", "seed": 0, "settings": {"a": 1, "b": [1]}}
    assert Cell(**base).key == Cell(**(base | {"settings": {"b": [1], "a": 1}})).key
    assert Cell(**base).key != Cell(**(base | change)).key


def test_settings_that_cannot_be_written_down_are_rejected() -> None:
    with pytest.raises(ValueError, match="settings must be plain values"):
        _ = Cell("e", "d", "m", 0, {"a": object()}).key
