from __future__ import annotations

from pathlib import Path

import pytest

from reproduction.tests.classification.small_networks import cells
from sttau.jobs import Store
from sttau_reproduction.classification.history import noted, read_history


def test_time_counts_though_no_cell_was_done_in_it(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), noted(cells("lstm"), Store(tmp_path / "cells"), tmp_path):
        raise KeyboardInterrupt
    (stretch,) = read_history(tmp_path)
    assert not stretch.computed
