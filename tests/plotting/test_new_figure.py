"""A figure is added to a copy of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extension import copy_package, run_copy

NEW_FIGURE = '''"""Lengths of sequences."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from sttau.plotting.style import BLUE, look


def lengths_figure(lengths: Sequence[int]) -> Figure:
    """Draw how many sequences have each length."""
    with look():
        figure = Figure(figsize=(4, 3), layout="constrained")
        axes = figure.subplots()
        axes.bar(sorted(set(lengths)), [lengths.count(length) for length in sorted(set(lengths))], color=BLUE)
        axes.set(xlabel="length", ylabel="sequences")
    return figure
'''
USE = """
from sttau.plotting.lengths import lengths_figure
from sttau.plotting.png import as_png
figure = lengths_figure([3, 5, 3])
assert [bar.get_height() for bar in figure.axes[0].patches] == [2, 1]
assert as_png(figure, dpi=50).startswith(b"\\x89PNG")
"""


@pytest.mark.slow
def test_a_new_figure_is_one_file(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    (package / "plotting/lengths.py").write_text(NEW_FIGURE, "utf-8")
    run_copy(package, "-c", USE)
