"""Figures as PNG files."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure

from sttau.plotting.style import look

#: Colors of the palette: with so many, no channel of a pixel in our figures is off by more than 9 of 255.
_COLORS = 128


def as_png(figure: Figure, dpi: int = 150) -> bytes:
    r"""Return a figure as a PNG file with a small palette, a quarter as large as with all colors; deterministic.

    Args:
        figure: Figure.
        dpi: Dots per inch.

    Example:
        >>> as_png(Figure(figsize=(1, 1)))[:4]
        b'\x89PNG'
    """
    from PIL import Image

    whole, small = BytesIO(), BytesIO()
    with look():
        figure.savefig(whole, format="png", dpi=dpi, metadata={"Software": None})
    with Image.open(whole) as image:
        reduced = image.convert("RGB").quantize(
            _COLORS,
            method=Image.Quantize.MAXCOVERAGE,  # keeps rare colors, such as that of a single marker
            kmeans=2,
            dither=Image.Dither.NONE,
        )
    reduced.save(small, "PNG", optimize=True, dpi=(dpi, dpi))
    return small.getvalue()
