from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure
from PIL import Image

from sttau_reproduction.pages import save_figure


def test_a_figure_is_written_as_a_png_of_its_size(tmp_path: Path) -> None:
    path = save_figure(Figure(figsize=(2, 1)), tmp_path / "deep" / "a.png", dpi=100)
    with Image.open(path) as image:
        assert (image.format, image.size) == ("PNG", (200, 100))
