from __future__ import annotations

from io import BytesIO

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from sttau.plotting.png import as_png


def _figure(colors: int) -> Figure:
    figure = Figure(figsize=(2, 1))
    axes = figure.subplots()
    for number in range(colors):
        axes.plot([0, 1], [number, number + 1], color=(number / colors, 0.3, 0.6))
    return figure


def test_a_figure_has_a_palette_its_own_size_and_the_same_bytes_each_time() -> None:
    first = as_png(_figure(3), dpi=100)
    assert first == as_png(_figure(3), dpi=100)
    with Image.open(BytesIO(first)) as image:
        assert (image.mode, image.size) == ("P", (200, 100))
        assert [round(value) for value in image.info["dpi"]] == [100, 100]


def test_the_palette_changes_no_color_visibly() -> None:
    figure, whole = _figure(40), BytesIO()
    figure.savefig(whole, format="png", dpi=100, facecolor="white")
    with Image.open(whole) as exact, Image.open(BytesIO(as_png(figure, dpi=100))) as small:
        difference = np.abs(np.asarray(exact.convert("RGB"), int) - np.asarray(small.convert("RGB"), int))
    assert difference.mean() < 1
    assert difference.max() < 32
