from __future__ import annotations

from pathlib import Path

import pytest
from torch import nn

from sttau import SequenceClassifier, STTauGRU


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A model saved with its embedding."""
    return SequenceClassifier(STTauGRU(2, 4, 3), 3, nn.Embedding(5, 2)).save(tmp_path / "model.safetensors")
