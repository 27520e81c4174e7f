from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from sttau_reproduction.pages import save_figure


def test_a_figure_is_written_with_a_palette_and_the_same_each_time(tmp_path: Path) -> None:
    def draw() -> Figure:
        figure = Figure(figsize=(2, 1))
        figure.subplots().plot([1, 3, 2], color="red")
        return figure

    first, second = (save_figure(draw(), tmp_path / name, dpi=100) for name in ("a.png", "b.png"))
    assert first.read_bytes() == second.read_bytes()
    with Image.open(first) as image:
        assert (image.mode, image.size) == ("P", (200, 100))
