from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sttau.plotting.video import write_video


def test_a_video_holds_every_frame(tmp_path: Path) -> None:
    frames = [np.full((8, 8, 3), shade, dtype=np.uint8) for shade in (0, 100, 200)]
    with Image.open(write_video(frames, tmp_path / "video.gif")) as video:
        assert getattr(video, "n_frames", 1) == 3
    with pytest.raises(ValueError, match=r"written as .gif, got 'video.mp4'"):
        write_video(frames, tmp_path / "video.mp4")
    with pytest.raises(ValueError, match="nothing to show"):
        write_video([], tmp_path / "video.gif")
