"""The plan of the Triton kernels, which needs no GPU."""

from __future__ import annotations

import pytest

from sttau.engine.recurrence import triton_plan
from sttau.engine.recurrence.triton_plan import PROCESSORS, Tiles, power_of_2, resident, resident_warps, streamed


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("states", [17, 32, 33, 64, 100, 128, 1000])
@pytest.mark.parametrize("size", [1, 5, 100, 128, 256, 1000])
@pytest.mark.parametrize("rows", [1, 8, 256, 300])
@pytest.mark.parametrize("gates", [3, 4])
def test_tiles_cover_all_states_and_fit(backward: bool, states: int, size: int, rows: int, gates: int) -> None:
    plan = streamed(states, size, rows, gates, backward=backward)
    assert (plan["NB"] - 1) * plan["KB"] < states <= plan["NB"] * plan["KB"]
    assert plan["KB"] == power_of_2(plan["KB"])
    assert states <= plan["KS"] < states + 4
    assert plan["KS"] % 4 == 0
    assert 1 <= plan["num_warps"] <= 16
    tiles = plan["NB"] * (4 if backward else gates)
    assert 0 <= plan["KEPT"] <= plan["KEPT"] + plan["L1"] <= tiles
    threads = 32 * plan["num_warps"]
    registers = plan["KEPT"] * plan["KB"] * max(1, power_of_2(size) // threads)
    assert registers <= 128
    assert registers * threads * 4 <= 160 << 10
    tables = 4 * plan["KB"] * size * plan["L1"] + 4 * states * size
    assert plan["L1"] == 0 or tables <= 200 << 10


def test_rows_share_a_program_where_processors_are_too_few() -> None:
    assert streamed(64, 256, PROCESSORS, 4, backward=False)["R"] == 1
    assert streamed(64, 256, PROCESSORS + 1, 4, backward=False)["R"] > 1
    assert streamed(64, 128, 2 * PROCESSORS, 4, backward=False)["R"] == 1
    assert streamed(64, 1024, 500, 4, backward=True)["R"] == 1  # a thread that owns two columns has no registers left


def test_the_table_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(triton_plan.TABLE, ("forward", False), ((1024, Tiles(4, 8, 16, 0)),))
    plan = streamed(64, 256, 8, 4, backward=False)
    assert [plan[name] for name in ("R", "KB", "NB", "KEPT", "L1")] == [4, 8, 8, 2, 0]


def test_few_states_of_a_wide_layer_are_resident() -> None:
    assert resident(10, 512, 5)
    assert not resident(10, 1024, 5)
    assert resident_warps(10, 8, 1) == 1
