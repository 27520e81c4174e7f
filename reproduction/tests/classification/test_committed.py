"""The committed numbers behind the report follow from the committed predictions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reproduction.tests.classification.fabricated import areas, errors, fabricate
from sttau.jobs import Result, read_results, write_results
from sttau_reproduction.classification import table2
from sttau_reproduction.classification.networks import NETWORKS, TRIED, find
from sttau_reproduction.classification.predictions import Summaries, read_summaries

RESULTS = Path(__file__).parents[2] / "results" / "paper"
COMPUTED = sorted({(row.data, row.method) for row in read_results(RESULTS / "results.jsonl.gz")})
#: Networks whose full predictions are committed.
FULL = (("bih", "lstm"), ("imdb", "state-regularized"))


def test_what_is_committed_of_a_network_is_complete() -> None:
    """Networks may be computed one after another, but each with all its seeds, and a summary of the first."""
    found = {(row.data, row.method, row.seed) for row in read_results(RESULTS / "results.jsonl.gz")}
    networks = {(network.data, network.name): network for network in NETWORKS}
    for data, name in COMPUTED:
        assert {(data, name, seed) for seed in range(networks[data, name].seeds)} <= found
    assert set(read_summaries(RESULTS)) == {(data, name) for data, name in COMPUTED if name not in TRIED}


@pytest.mark.parametrize(("data", "network"), FULL)
def test_committed_results_follow_from_the_committed_predictions(data: str, network: str) -> None:
    """One run has the row's number; of n runs with their deviation s, none is further than s √(n - 1) from the mean."""
    check_against_predictions(RESULTS, data, network)


@pytest.fixture(scope="module")
def committed() -> tuple[list[Result], Summaries]:
    return read_results(RESULTS / "results.jsonl.gz"), read_summaries(RESULTS)


@pytest.mark.parametrize(("data", "network"), [pair for pair in COMPUTED if pair[1] not in TRIED])
def test_committed_results_agree_with_the_committed_summaries(
    data: str, network: str, committed: tuple[list[Result], Summaries]
) -> None:
    rows, summaries = committed
    (row,) = (row for row in rows if (row.data, row.method, row.seed) == (data, network, 0))
    summary = summaries[data, network]
    curve = summary.reliability
    held = curve.count > 0
    gaps = (curve.confidence - curve.accuracy)[held].abs()
    found = {
        "pe": 100 * summary.wrong.mean(),
        "ece": 100 * float(gaps @ curve.count[held].double()) / int(summary.sequences),
        "mce": 100 * float(gaps.max()),
        "aurc": 100 * float(summary.area),
    }
    for key, value in found.items():
        reach = row.metrics.get(f"{key}_std", 0.0) * max(row.settings["prediction_runs"] - 1, 0) ** 0.5
        assert abs(row.metrics[key] - value) <= 0.02 + reach, key


def check_against_predictions(folder: Path, data: str, network: str) -> None:
    rows = read_results(folder / "results.jsonl.gz")
    (row,) = (row for row in rows if (row.data, row.method, row.seed) == (data, network, 0))
    with np.load(folder / "predictions" / f"{data}-{network}.npz") as file:
        arrays = dict(file)
    found = errors(arrays["probabilities"], arrays["labels"])
    if data == "imdb":
        for out in table2.OOD:
            inside = arrays["probabilities"][arrays[f"inside_{out}"]]
            assert len(inside) == len(arrays[out])
            scores = (1 - inside.astype(float).max(1), 1 - arrays[out].astype(float).max(1))
            found |= {f"{out}_max_probability_{key}": value for key, value in areas(*scores).items()}
    runs = row.settings["prediction_runs"]
    for key, value in found.items():
        reach = row.metrics.get(f"{key}_std", 0.0) * max(runs - 1, 0) ** 0.5
        assert abs(row.metrics[key] - value) <= 0.02 + reach, key


@pytest.mark.parametrize("network", ["lstm", "st-tau-best"])
def test_a_number_that_does_not_follow_from_the_predictions_is_noticed(network: str, tmp_path: Path) -> None:
    fabricate(tmp_path, networks=(replace(find("imdb", network), seeds=1),))
    check_against_predictions(tmp_path, "imdb", network)
    path = tmp_path / "results.jsonl.gz"
    row = read_results(path)[0]
    row.metrics["ece"] += 0.05 + 6 * row.metrics.get("ece_std", 0.0)
    write_results([row], path)
    with pytest.raises(AssertionError, match="ece"):
        check_against_predictions(tmp_path, "imdb", network)


def test_our_own_measures_agree_with_values_known_by_hand() -> None:
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.35, 0.65]])
    assert errors(p, np.array([0, 1, 1])) == pytest.approx({"pe": 100 / 3, "ece": 125 / 3, "mce": 80.0})
    assert areas(np.array([0.1, 0.2, 0.6]), np.array([0.5, 0.9])) == pytest.approx({"auroc": 250 / 3, "aupr": 250 / 3})
