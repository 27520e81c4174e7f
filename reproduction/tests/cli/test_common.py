from __future__ import annotations

import pytest
import typer

from sttau.jobs import Cell, Step
from sttau_reproduction.cli.common import show_failures, show_steps

CELL = Cell("paper", "bih", "lstm", 0, {}, 1)


def test_failures_are_named_and_end_the_command_with_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        show_failures([(CELL, "too hot")])
    assert ended.value.exit_code == 1
    assert f"{CELL.title} failed: too hot" in capsys.readouterr().out
    show_failures([])
    assert not capsys.readouterr().out


def test_a_finished_cell_has_the_time_that_is_left_and_a_failed_one_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show = show_steps(lambda cell: cell.method)
    show(Step(CELL, None, 1, 2, 120.0))
    show(Step(CELL, "too hot", 2, 2, 0.0))
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("1/2 lstm: about 2")
    assert second == "2/2 lstm: failed"
