from __future__ import annotations

from sttau.jobs import Result
from sttau_reproduction.classification.report import tables


def test_goals_of_detection_stand_only_below_values_that_have_them() -> None:
    """Regression: the goal of an AUROC stood below its interval, and at equal length too, in the wrong direction."""
    key = "customer_entropy_auroc"
    metrics = {key: 90.0, f"{key}_low": 85.0, f"{key}_high": 94.0, "customer_entropy_matched_auroc": 51.0}
    row = Result("paper", "imdb", "st-tau-best", 16, 0, metrics, {}, 1.0)
    lines = tables([], {}, diagnostics=[row])["table2-entropy"].splitlines()
    header, shown, goals = ([cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[-2:]))
    value, equal = header.index("Customer: O-AUROC %"), header.index("Customer, equal length: O-AUROC %")
    assert (shown[value], goals[value]) == ("90.0 [85.0, 94.0]", "≥ 88.0 ✓")
    assert (shown[equal], goals[equal]) == ("51.0", "")
    assert sum(bool(goal) for goal in goals[2:]) == 4
