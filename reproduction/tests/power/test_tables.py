from __future__ import annotations

from typing import Any

from sttau.jobs import Result
from sttau_reproduction.power.tables import distributions_table, paper_table, paths_table


def _result(method: str, seed: int, metrics: dict[str, float], **settings: Any) -> Result:
    settings = {"setting": "hour", "head": "law", **settings}
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
