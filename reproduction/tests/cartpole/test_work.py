"""The CartPole experiment: what it declares, what it measures, and its statistics."""

from __future__ import annotations

from pathlib import Path

import pytest

from sttau.jobs import Result, read_results
from sttau.rl import Point
from sttau_reproduction.cartpole.statistics import select, values
from sttau_reproduction.cartpole.work import (
    GRIDS,
    METHODS,
    QUICK,
    SETTINGS,
    Chosen,
    Plan,
    cells,
    choose,
    compute,
    compute_temperature,
    greedy_tuning_cells,
    measure,
    temperature_cells,
    thin,
    tuning_cells,
)

RESULTS = Path(__file__).parents[2] / "results" / "cartpole"
CHOSEN: Chosen = {
    method: {choice: {"learning_rate": 0.01, "layer": {}} for choice in ("sampling", "greedy")} for method in METHODS
}


def _point(number: int, reward: float, tau: float | None = None) -> Point:
    return Point(10 * number, 100 * number, reward, 0.5, tau, 0.0)


def test_the_experiment_is_twenty_seeds_of_four_methods_in_four_settings_seed_by_seed() -> None:
    every = cells(CHOSEN)
    assert len({cell.key for cell in every}) == 20 * 4 * 4
    assert {cell.seed for cell in every[: 4 * 4]} == {0}
    assert {(cell.data, cell.settings["choice"]) for cell in every} == set(SETTINGS)


def test_tuning_tries_the_papers_grids_with_seeds_that_are_used_nowhere_else() -> None:
    tuned = [*tuning_cells(), *greedy_tuning_cells(CHOSEN)]
    assert {cell.seed for cell in tuned}.isdisjoint(cell.seed for cell in [*cells(CHOSEN), *temperature_cells(CHOSEN)])
    assert sorted(layer["dropout"] for layer in GRIDS["dropout"]) == [0.05, 0.1, 0.2]
    assert len(GRIDS["bayes"]) == 4 * 4
    rates = {method: {c.settings["learning_rate"] for c in tuned if c.method == method} for method in METHODS}
    assert len({frozenset(found) for found in rates.values()}) == 1


def test_what_is_chosen_has_the_largest_mean_area() -> None:
    def result(rate: float, area: float) -> Result:
        settings = {"learning_rate": rate, "layer": {"dropout": 0.1}, "choice": "greedy"}
        return Result("cartpole-tuning", "cartpole-mdp", "dropout", None, 0, {"area": area}, settings, 1.0)

    found = choose([result(0.1, 10), result(0.1, 40), result(0.2, 30), result(0.2, 30)])
    assert found == {"dropout": {"greedy": {"learning_rate": 0.2, "layer": {"dropout": 0.1}}}}


def test_the_goal_counts_only_when_the_mean_of_a_whole_window_has_reached_it() -> None:
    spike = [_point(n, 50.0 if n == 3 else 10.0) for n in range(1, 11)]
    assert "steps_to_goal" not in measure(spike)
    late = [_point(n, 50.0 if n > 4 else 10.0) for n in range(1, 13)]
    assert measure(late)["episodes_to_goal"] == 90
    assert measure(late)["steps_to_goal"] == 900


def test_a_thinned_curve_keeps_means_and_the_place_of_their_last_point() -> None:
    curve = thin([_point(n, float(n), 2.0 / n) for n in range(1, 11)])
    assert curve["reward"] == [3.0, 8.0]
    assert curve["steps"] == [500.0, 1000.0]
    assert curve["tau"] == [0.4, 0.2]


@pytest.mark.parametrize("method", METHODS)
def test_a_quick_cell_gives_a_result_and_its_curve(method: str, tmp_path: Path) -> None:
    plan = Plan(1, 50, 1, 20, 8)
    cell = next(c for c in cells(CHOSEN, plan) if c.method == method)
    result = compute(cell, tmp_path)
    assert result.metrics["area"] == pytest.approx(result.settings["curves"]["reward"][0], abs=0.01)
    assert len((tmp_path / cell.key / "log.jsonl").read_text().splitlines()) == 5
    assert result.states == (2 if method == "st-tau" else None)


def test_hotter_states_make_actions_less_certain(tmp_path: Path) -> None:
    result = compute_temperature(temperature_cells(CHOSEN, QUICK)[0], tmp_path)
    bits = [result.metrics[f"entropy at {factor} τ"] for factor in ("0.25", "1", "4")]
    assert result.metrics["tau"] > 0
    assert bits == sorted(bits)


def test_committed_results_are_of_the_declared_cells() -> None:
    results, tuning = (read_results(RESULTS / name) for name in ("results.jsonl.gz", "tuning.jsonl.gz"))
    chosen = choose(tuning)
    seeds = {result.seed for result in results}
    for task, choice in SETTINGS:
        for method in METHODS:
            found = select(results, data=task, choice=choice, method=method)
            assert {result.seed for result in found} == seeds
            assert all(r.settings["learning_rate"] == chosen[method][choice]["learning_rate"] for r in found)
            assert all(0 <= area <= 50 for area in values(found, "area"))
