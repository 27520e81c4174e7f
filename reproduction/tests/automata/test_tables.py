from __future__ import annotations

from sttau.jobs import Result
from sttau_reproduction.automata.tables import attempts_table, extraction_table, languages_table


def _result(data: str, method: str, seed: int, metrics: dict[str, float], **settings: object) -> Result:
    return Result("automata", data, method, 4, seed, metrics, settings, seconds=float(seed + 1))


def test_seeds_are_counted_and_the_network_stands_beside_its_readers() -> None:
    net = {"network": "st-tau gru"}
    found = {"equal": 1.0, "dfa_states": 5, "wrong": 0}
    results = [
        _result("tomita3", "st-tau", 0, found | {"network_wrong": 2}, **net),
        _result("tomita3", "st-tau", 1, found | {"network_wrong": 3}, **net),
        _result("tomita3", "l-star", 1, {"equal": 0.0, "dfa_states": 7, "wrong": 9}, **net),
        _result("tomita3", "gru", 0, {"network_wrong": 8}, network="gru"),
        _result("tomita3", "k-means", 0, found, network="gru"),
    ]
    assert extraction_table(results) == [
        ("3", "ST-τ", "ours", "2 of 2", "5", "1.5", "2.0", "0", "5"),
        ("3", "ST-τ", "L*", "0 of 1", "7", "2.0", "2.0", "9", "3"),
        ("3", "`nn.GRU`", "k-means", "1 of 1", "5", "1.0", "1.0", "0", "8"),
    ]


def test_attempts_are_counted_by_the_way_of_training() -> None:
    results = [
        _result("tomita1", "one attempt", seed, {"equal": equal}, mode=mode)
        for mode in ("exact", "exact, batches", "soft", "straight_through")
        for seed, equal in ((0, 1.0), (1, float(mode == "exact")))
    ]
    *_, last = attempts_table(results)
    assert last == ("all", "2 of 2, 1.5 s", "1 of 2, 1.5 s", "1 of 2, 1.5 s", "1 of 2, 1.5 s")


def test_what_the_labels_allow_stands_below_what_was_reached() -> None:
    metrics = {"sup": 0.02, "sup_beyond_training": 0.01, "mean_gap": 0.001, "p_0": 0.1, "pa_states": 2}
    ours, bound = languages_table([_result("stochastic1", "st-tau", 0, metrics, copies=10)])
    assert ours[:6] == ("PA-1", "10", "ours, k = 4", "1", "0.0200", "0.0200")
    assert bound[2] == "*what labels allow*"
    assert 0.02 < float(bound[4]) < 0.035
