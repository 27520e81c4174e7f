from __future__ import annotations

import pytest
import torch

from sttau.metrics import gaussian_crps
from sttau_reproduction.power.evaluation import LEVELS, evaluate, recalibrate

SHARES = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000


def test_points_of_a_gaussian_have_its_crps_and_intervals() -> None:
    power = torch.randn(5000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    points = torch.special.ndtri(SHARES)[:, None].expand(-1, len(power))
    found = evaluate(points, torch.zeros_like(power), power)
    exact = gaussian_crps(torch.zeros(len(power), 1), torch.ones(len(power), 1), power[:, None])
    assert found["crps"] == pytest.approx(exact, abs=1e-3)
    for level in LEVELS:
        assert found[f"coverage_{100 * level:.0f}"] == pytest.approx(100 * level, abs=2)
        width = 2 * float(torch.special.ndtri(torch.tensor((1 + level) / 2, dtype=torch.float64)))
        assert found[f"width_{100 * level:.0f}"] == pytest.approx(width, rel=1e-2)


def test_recalibration_corrects_a_shift_and_a_scale() -> None:
    held_out, power = torch.randn(2, 5000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    said = (3 * torch.special.ndtri(SHARES) + 1)[:, None].expand(-1, len(power))
    found = evaluate(recalibrate(said, said, held_out), torch.zeros_like(power), power)
    assert [found[f"coverage_{100 * level:.0f}"] for level in LEVELS] == pytest.approx([50, 80, 95], abs=2)
    assert found["crps"] < 0.95 * evaluate(said, torch.zeros_like(power), power)["crps"]
