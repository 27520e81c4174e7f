from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.stats import binom

from sttau.conformal import conformal_quantile
from sttau.models import Decisions
from sttau.models.decisions import Threshold, clopper_pearson


def drawn(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Uncertainties, and errors that are as frequent as they say."""
    generator = torch.Generator().manual_seed(seed)
    doubt = 0.5 * torch.rand(count, generator=generator, dtype=torch.float64)
    return doubt, (torch.rand(count, generator=generator, dtype=torch.float64) < doubt).double()


def test_the_bound_is_that_of_clopper_and_pearson() -> None:
    for errors, count in ((0, 10), (3, 50), (49, 50)):
        bound = clopper_pearson(errors, count, 0.95)
        assert binom.cdf(errors, count, bound) == pytest.approx(0.05, rel=1e-6)
    assert clopper_pearson(50, 50, 0.95) == 1


def test_the_risk_on_new_data_stays_below_the_wanted_one() -> None:
    new_doubt, new_loss = drawn(100_000, 999)
    failures, coverages = 0, []
    for seed in range(100):
        chosen = Decisions.of(*drawn(2000, seed)).choose_abstention(risk=0.1)
        accepted = new_doubt <= chosen.value
        failures += bool(accepted.any() and new_loss[accepted].mean() > 0.1)
        coverages.append(chosen.coverage)
        assert chosen.bound is None or chosen.bound <= 0.1
    assert failures <= 5
    assert 0.15 < sum(coverages) / 100 < 0.4  # the error rate is 0.1 on average up to a coverage of 0.4


def test_a_wanted_coverage_is_reached() -> None:
    decisions = Decisions.of(*drawn(200, 0))
    chosen = decisions.choose_abstention(coverage=0.8)
    assert chosen.coverage == 0.8
    assert float((decisions.uncertainty <= chosen.value).double().mean()) == 0.8
    assert decisions.choose_abstention(coverage=1.0).coverage == 1


def test_equal_uncertainties_are_accepted_together() -> None:
    doubt = torch.tensor([0.1, 0.2, 0.2, 0.2, 0.3], dtype=torch.float64)
    decisions = Decisions.of(doubt, torch.zeros(5, dtype=torch.float64))
    chosen = decisions.choose_abstention(coverage=0.4)
    assert (chosen.value, chosen.coverage) == (0.2, 0.8)


def test_nothing_is_accepted_where_the_risk_is_out_of_reach() -> None:
    decisions = Decisions.of(torch.rand(50, dtype=torch.float64), torch.ones(50, dtype=torch.float64))
    chosen = decisions.choose_abstention(risk=0.01)
    assert chosen.coverage == 0
    assert not bool((decisions.uncertainty <= chosen.value).any())


def test_false_alarms_and_conformal_levels_hold_on_new_data() -> None:
    alarms, covered = [], []
    for seed in range(200):
        scores = torch.rand(99, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        decisions = Decisions.of(scores, torch.zeros_like(scores))
        alarms.append(1 - decisions.choose_ood(0.1).value)  # a new score is uniform: its chance to lie beyond
        covered.append(decisions.quantile(0.9))
    assert sum(alarms) / 200 == pytest.approx(0.1, abs=0.01)
    assert sum(covered) / 200 == pytest.approx(0.9, abs=0.01)
    assert conformal_quantile(torch.rand(5), 0.9) == float("inf")


def test_values_keep_float64_whatever_the_model_is() -> None:
    decisions = Decisions.of(*drawn(20, 0)).to(torch.float16)
    assert decisions.uncertainty.dtype == torch.float64


def test_at_most_ten_thousand_sequences_are_kept() -> None:
    assert len(Decisions.of(*drawn(25_000, 0)).loss) == 10_000


def test_bad_arguments_are_named() -> None:
    decisions = Decisions.of(*drawn(20, 0))
    for arguments in ({}, {"risk": 0.1, "coverage": 0.5}):
        with pytest.raises(ValueError, match="either risk or coverage"):
            decisions.choose_abstention(**arguments)
    with pytest.raises(ValueError, match="risk must be in"):
        decisions.choose_abstention(risk=0.0)
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1"):
        decisions.choose_abstention(risk=0.1, confidence=1.0)
    with pytest.raises(ValueError, match="level must be in"):
        decisions.quantile(1.1)
    with pytest.raises(ValueError, match="false_alarms must lie between 0 and 1"):
        decisions.choose_ood(0)
    with pytest.raises(ValueError, match="give a coverage"):
        Decisions.of(torch.rand(9), torch.rand(9)).choose_abstention(risk=0.1)


@pytest.mark.parametrize("name", ["value", "wanted", "coverage", "risk"])
def test_a_threshold_that_is_no_number_is_refused(name: str) -> None:
    """A crafted file could hold one, which failed only when the model was printed or used."""
    numbers: dict[str, Any] = {"value": 0.5, "goal": "coverage", "wanted": 0.9, "coverage": 0.9}
    Threshold(**numbers)
    with pytest.raises(TypeError, match=f"{name} of a threshold must be a number"):
        Threshold(**numbers | {name: {}})
