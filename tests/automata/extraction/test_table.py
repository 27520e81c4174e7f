from __future__ import annotations

import pytest
import torch

from sttau.automata.extraction.table import relaxed_draws


def test_draws_at_a_pure_state_have_the_moments_of_the_relaxation() -> None:
    # two states, p = 0.9 and 0.1: E[α] = 0.816 at τ = 1 (docs/mathematics.md, §5)
    draws = relaxed_draws(torch.tensor([0.9, 0.1], dtype=torch.float64), 1.0, seed=0, draws=100_000)[:, 0]
    assert float(draws.mean()) == pytest.approx(0.816, abs=0.002)
    cold = relaxed_draws(torch.tensor([0.9, 0.1], dtype=torch.float64), 0.01, seed=0, draws=100_000)[:, 0]
    assert float(cold.var()) == pytest.approx(0.09, abs=0.003)  # a Bernoulli draw
