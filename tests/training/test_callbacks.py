from __future__ import annotations

import io

from rich.console import Console

from sttau.training import Update
from sttau.training.callbacks import ProgressBar

UPDATE = Update(3, 10, loss=0.7, temperature=(1.25,), validation=0.5)


def _shown(terminal: bool) -> str:
    out = io.StringIO()
    with ProgressBar("digits", Console(file=out, force_terminal=terminal, width=120)) as show:
        show(UPDATE)
    return out.getvalue()


def test_a_terminal_shows_how_far_it_is_and_how_well_it_goes() -> None:
    shown = _shown(terminal=True)
    for part in ("digits", "3/10", "loss 0.7", "validation 0.5", "τ 1.25"):
        assert part in shown


def test_elsewhere_nothing_is_shown() -> None:
    assert _shown(terminal=False).strip() == ""
