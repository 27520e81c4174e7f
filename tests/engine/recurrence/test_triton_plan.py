"""The plan of the Triton kernels, which needs no GPU."""

from __future__ import annotations

from itertools import product

import pytest

from sttau.engine.recurrence import triton_plan
from sttau.engine.recurrence.triton_plan import PROCESSORS, Tiles, kind, power_of_2, resident, resident_warps, tiled


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("states", [17, 32, 33, 64, 100, 128])
def test_tiles_cover_all_states_and_fit(backward: bool, states: int) -> None:
    for size, rows, gates in product((1, 5, 100, 128, 256), (1, 8, 256, 300), (3, 4)):
        plan = tiled(states, size, rows, gates, backward=backward)
        assert (plan["NB"] - 1) * plan["KB"] < states <= plan["NB"] * plan["KB"]
        assert plan["KB"] == power_of_2(plan["KB"])
        assert states <= plan["KS"] < states + 4
        assert plan["KS"] % 4 == 0
        assert 1 <= plan["num_warps"] <= 8
        assert 0 <= plan["KEPT"] <= plan["KEPT"] + plan["L1"] <= plan["NB"] * (4 if backward else gates)
        assert plan["KEPT"] * plan["KB"] <= 128  # registers of a thread, which owns one column
        assert plan["L1"] == 0 or 4 * plan["KB"] * size * plan["L1"] + 4 * states * size <= 240 << 10  # of 256 KiB


def test_rows_share_a_program_where_processors_are_too_few() -> None:
    assert tiled(64, 256, PROCESSORS, 4, backward=False)["R"] == 1
    assert tiled(64, 256, PROCESSORS + 1, 4, backward=False)["R"] > 1
    assert tiled(64, 128, 2 * PROCESSORS, 4, backward=False)["R"] == 1


def test_the_table_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(triton_plan.TABLE, ("forward", False), ((1024, Tiles(4, 8, 16, 0)),))
    plan = tiled(64, 256, 8, 4, backward=False)
    assert [plan[name] for name in ("R", "KB", "NB", "KEPT", "L1")] == [4, 8, 8, 2, 0]


def test_few_states_of_a_wide_layer_are_resident() -> None:
    assert resident(10, 512, 5)
    assert not resident(10, 1024, 5)
    assert resident_warps(10, 8, 1) == 1


def test_more_states_or_hidden_units_are_read_in_loops() -> None:
    kinds = [kind(states, size, 5) for states, size in ((16, 256), (17, 256), (129, 256), (17, 257))]
    assert kinds == ["resident", "tiled", "streamed", "streamed"]
