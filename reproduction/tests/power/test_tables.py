from __future__ import annotations

from typing import Any

from sttau.jobs import Result
from sttau_reproduction.power.tables import WEEKS, distributions_table, paper_table, paths_table, weeks_table


def _result(method: str, seed: int, metrics: dict[str, float], **settings: Any) -> Result:
    settings = {"setting": "hour", "head": "distribution", **settings}
    return Result("household-power", "household_power", method, None, seed, metrics, settings, 1.0)


def test_a_distribution_is_compared_with_persistence_and_has_its_spread_over_seeds() -> None:
    results = [
        _result("persistence", 0, {"mse": 0.4, "crps": 0.3}),
        _result("lstm", 0, {"mse": 0.2, "crps": 0.1, "coverage_95": 94.0}),
        _result("lstm", 1, {"mse": 0.3, "crps": 0.2, "coverage_95": 96.0}),
        _result("st-tau", 0, {"mse": 0.1, "crps": 0.1}, made={"paths": 1}),
        _result("lstm", 0, {"mse": 9.0, "crps": 9.0}, setting="day"),
    ]
    persistence, lstm, alone = distributions_table(results, "hour")
    assert (persistence[0], persistence[3], persistence[6]) == ("persistence", "+0 %", "0.3000")
    assert (lstm[0], lstm[1], lstm[2], lstm[3]) == ("LSTM", "2", "0.250", "-38 %")
    assert (lstm[6], lstm[9]) == ("0.1500 ± 0.0707", "95.0")
    assert alone[0] == "ST-τ LSTM, one path"


def test_tables_of_other_settings_have_their_own_columns() -> None:
    metrics = {"mse": 0.25, "crps": 0.2, "epistemic": 0.01, "coverage_95": 3.2, "crps_at_24": 0.4}
    (row,) = paper_table([_result("bayes", 0, metrics, setting="paper", head="mean")])
    assert row == ("Bayes LSTM", "1", "0.2500", "", "0.010", "", "3.2")
    (row,) = paths_table([_result("seasonal, 24 h", 0, metrics, setting="paths")])
    assert (row[0], row[2], row[6]) == ("seasonal, 24 h", "0.200", "0.400")


def _weeks(name: str, **sums: list[float]) -> dict[str, Any]:
    return {
        "setting": "hour", "name": name, "week": [1, 2], "measured": [1, 1], "hours": [100, 100], "sums": sums,
        "over_hours": {metric: [0.25, 0.75] for metric in sums},
    }  # fmt: skip


def test_intervals_over_weeks_stand_beside_the_difference_to_the_lstm() -> None:
    lines = [
        _weeks("persistence", crps=[60.0, 60.0]),
        _weeks("lstm", crps=[40.0, 60.0], nll=[20.0, 20.0]),
        _weeks("bayes", crps=[50.0, 70.0], nll=[10.0, 10.0]),
        {**_weeks("lstm"), "setting": "day"},
    ]
    rows = [dict(enumerate(row)) for row in weeks_table(lines, "hour")]
    assert [len(row) for row in rows] == [len(WEEKS)] * 3
    persistence, lstm, bayes = rows
    assert [lstm[column] for column in range(5)] == ["LSTM", "0.5000", "[0.2500, 0.7500]", "[0.4000, 0.6000]", ""]
    assert (bayes[4], bayes[5], bayes[9]) == (*["+0.1000 [+0.1000, +0.1000]"] * 2, "-0.100 [-0.100, -0.100]")
    assert (persistence[4], persistence[6], persistence[9]) == ("+0.1000 [+0.0000, +0.2000]", "", "")
