from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from sttau.data import SequenceDataset
from sttau_reproduction.power import data


@pytest.fixture
def series(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A household whose log power is an autoregression with a daily wave: the form of the real data, and quick."""
    source, hours = np.random.default_rng(0), 1200
    wave = np.sin(np.arange(hours) * 2 * np.pi / 24)
    log = np.zeros(hours)
    for hour in range(1, hours):
        log[hour] = 0.7 * log[hour - 1] + 0.3 * wave[hour] + 0.3 * source.standard_normal()
    whole = torch.from_numpy(np.stack([np.exp(log) / 10, *source.random((6, hours))], axis=-1)).float()

    def load(name: str, split: str, history: int) -> SequenceDataset:
        first, end = {"train": (0, 700), "validation": (700, 900), "test": (900, hours - 1)}[split]
        rows = torch.arange(first, end)
        lengths = (rows + 1).clamp_max(history)
        steps = torch.arange(history)
        inputs = whole[(rows[:, None] - lengths[:, None] + 1 + steps).clamp(0, end)]
        times = np.datetime64("2010-01-01", "h") + rows.numpy() + 1
        return SequenceDataset(
            name,
            split,
            inputs,
            lengths,
            whole[rows + 1, 0],
            (),
            "",
            ids=tuple(map(str, times)),
            label_scale=(0.0, 10.0),
        )

    monkeypatch.setattr(data, "load", load)
    data.hours.cache_clear()
    yield
    data.hours.cache_clear()
