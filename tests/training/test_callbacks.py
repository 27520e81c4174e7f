from __future__ import annotations

import io
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn

from sttau import SequenceClassifier, compare
from sttau.training import FitJob, TrainOptions, Update, fit, fit_many
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


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _fit(**options: Any) -> None:
    torch.manual_seed(0)
    fit(SequenceClassifier(nn.GRU(2, 4), 2), torch.randn(8, 3, 2), torch.arange(8) % 2, updates=3, **options)


def _stderr_of(work: Callable[[], object], stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    work()
    monkeypatch.undo()
    return stream.getvalue()


def test_fit_shows_a_bar_in_a_terminal_only_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "3/3" in _stderr_of(_fit, _Terminal(), monkeypatch)
    assert _stderr_of(_fit, io.StringIO(), monkeypatch) == ""
    assert _stderr_of(partial(_fit, progress=False), _Terminal(), monkeypatch) == ""
    assert "3/3" in _stderr_of(partial(_fit, progress=True), io.StringIO(), monkeypatch)
    monkeypatch.setattr("sys.stderr", None)  # as without a console on Windows
    _fit()


def test_trainings_at_once_and_bars_of_one_s_own_have_no_second_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_a_thread() -> None:
        thread = threading.Thread(target=_fit)
        thread.start()
        thread.join()

    def with_a_bar() -> None:
        with ProgressBar("mine") as bar:
            _fit(callbacks=bar)

    def many() -> None:
        model, x = SequenceClassifier(nn.GRU(2, 4), 2), torch.randn(8, 3, 2)
        list(fit_many([FitJob(model, x, torch.arange(8) % 2, options=TrainOptions(updates=3))]))

    assert _stderr_of(in_a_thread, _Terminal(), monkeypatch) == ""
    assert _stderr_of(many, _Terminal(), monkeypatch) == ""
    shown = _stderr_of(with_a_bar, _Terminal(), monkeypatch)
    assert "mine" in shown
    assert "training" not in shown


def test_a_comparison_has_its_own_bar_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for progress in (True, False):
        run = partial(compare, ["lstm"], "digits", seeds=1, hidden_size=4, updates=2, rounds=9, progress=progress)
        shown = _stderr_of(run, _Terminal(), monkeypatch)
        assert ("lstm, seed 0" in shown) == progress
        assert "training" not in shown
