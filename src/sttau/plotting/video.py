"""Videos of policies, as animated GIFs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sttau.files import write_atomically


def write_video(frames: Sequence[NDArray[np.uint8]], path: str | os.PathLike[str], fps: int = 50) -> Path:
    """Write pictures, each (height, width, 3), as an animated GIF.

    Example:
        >>> import tempfile
        >>> frames = [np.full((4, 4, 3), shade, dtype=np.uint8) for shade in (0, 255)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_video(frames, f"{folder}/video.gif").read_bytes()[:6]
        b'GIF89a'
    """
    if Path(path).suffix.lower() != ".gif":
        raise ValueError(f"a video is written as .gif, got {Path(path).name!r}")
    if not frames:
        raise ValueError("frames are empty: there is nothing to show")
    from PIL import Image

    first, *rest = (Image.fromarray(frame) for frame in frames)
    buffer = BytesIO()
    first.save(buffer, "GIF", save_all=True, append_images=rest, duration=max(20, 1000 // fps), loop=0)
    return write_atomically(path, buffer.getvalue())
