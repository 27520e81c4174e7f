"""Hours of forecasts, made up."""

from __future__ import annotations

from typing import Any

from sttau_reproduction.power.evaluation import BINS


def hours_of(name: str, seed: int, setting: str) -> dict[str, Any]:
    flat = [float(seed)] * 168
    return {
        "name": name, "method": name, "seed": seed, "setting": setting, "power": flat, "squared_error": flat,
        "bands": dict.fromkeys(("2.5", "25", "50", "75", "97.5"), flat), "pit": [1.0 + seed] * BINS,
    }  # fmt: skip
