"""Settings every test runs under."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)  # small recurrent steps are slower, not faster, when threads fight for a core

settings.register_profile("sttau", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("sttau")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
