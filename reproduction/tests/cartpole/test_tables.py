"""Tables, figures, videos and automata of reinforcement learning."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sttau.engine import Noise
from sttau.jobs.results import Result
from sttau.jobs.runner import Cell, Each, Outcome
from sttau.rl import Episodes, find_task, make_policy
from sttau_reproduction.cartpole import work as cartpole
from sttau_reproduction.cartpole.tables import (
    cartpole_table,
    curves_figure,
    observed_automaton,
    overall_table,
    tables,
    temperature_figure,
    write_video,
)
from sttau_reproduction.cartpole.work import METHODS, QUICK, SETTINGS, Plan, run

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "cartpole"
TASK = find_task("cartpole-pomdp")


def _results(seeds: int = 3) -> list[Result]:
    made = []
    for (task, choice), method, seed in product(SETTINGS, METHODS, range(seeds)):
        curves = {"episodes": [50, 100], "steps": [1e3, 3e3], "reward": [20 + seed, 40.0], "entropy": [1.0, 0.5]}
        if method == "st-tau":
            curves["temperature"] = [1.0, 0.9]
        metrics = {"area": 30.0 + seed, "last": 40.0}
        if choice == "sampling" and seed < 2:
            metrics |= {"episodes_to_goal": 100 + seed, "steps_to_goal": 3000 + seed}
        settings = {"choice": choice, "curves": curves}
        made.append(Result("cartpole", task, method, None, seed, metrics, settings, 1.0))
    return made


def test_the_table_tells_means_intervals_and_who_never_reached_the_goal() -> None:
    rows = cartpole_table(_results())
    assert len(rows) == 16
    assert rows[0] == (
        "MDP, sampling", "LSTM", "31.0 [30.0, 32.0]", "40.0 [40.0, 40.0]", "2 of 3", "101 [100, never]",
        "3,001 [3,000, never]",
    )  # fmt: skip
    assert rows[4][4:] == ("0 of 3", "never", "never")


def test_the_interquartile_mean_needs_every_setting() -> None:
    results = _results()
    assert [row[0] for row in overall_table(results)] == ["LSTM", "Bayes LSTM", "variational dropout", "ST-τ LSTM"]
    some = [r for r in results if not (r.method == "lstm" and r.settings["choice"] == "greedy")]
    assert len(overall_table(some)) == 3


def test_the_whole_experiment_gives_every_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def here(cells: Sequence[Cell], work: Each, folder: Path, **_: object) -> Outcome:
        return Outcome([result for _, result in work(cells, folder)], [])  # in this process, to save its start

    monkeypatch.setattr(cartpole, "run_cells", here)
    plan = Plan(seeds=1, episodes=10, tuning_seeds=1, tuning_episodes=10, hidden_size=4, grids=QUICK.grids)
    outcome = run(tmp_path / "cells", tmp_path, plan)
    assert len(outcome.results) == 4 * 4 + 2 * 2
    made = tables(tmp_path)
    assert set(made) == {"cartpole", "overall", "tuned", "temperature", "entropy"}
    assert made["cartpole"].count("of 1") == 16


def test_the_figures_show_four_settings_and_every_method() -> None:
    curves = curves_figure(_results())
    assert [axes.get_title(loc="left") for axes in curves.axes] == [
        "MDP, sampling", "MDP, greedy", "POMDP, sampling", "POMDP, greedy",
    ]  # fmt: skip
    assert all(len(axes.lines) == 1 + len(METHODS) for axes in curves.axes)
    tau = temperature_figure(_results()).axes[0]
    assert np.asarray(tau.lines[0].get_ydata(), dtype=float).tolist() == pytest.approx([1.0, 0.9])


def test_a_video_holds_every_frame(tmp_path: Path) -> None:
    frames = [np.full((8, 8, 3), shade, dtype=np.uint8) for shade in (0, 100, 200)]
    with Image.open(write_video(frames, tmp_path / "video.gif")) as video:
        assert getattr(video, "n_frames", 1) == 3
    with pytest.raises(ValueError, match=r"written as .gif, got 'video.mp4'"):
        write_video(frames, tmp_path / "video.mp4")
    with pytest.raises(ValueError, match="nothing to show"):
        write_video([], tmp_path / "video.gif")


def _episodes(states: list[list[int]], angles: list[list[float]], lengths: list[int]) -> Episodes:
    path = torch.tensor(states)
    p = torch.nn.functional.one_hot(path, 2).float()
    x = torch.stack([torch.zeros(path.shape), torch.tensor(angles)], dim=-1)
    return Episodes(x, p, p, path, torch.ones(path.shape), torch.tensor(lengths), Noise.of(torch.arange(len(path))))


def test_the_automaton_counts_moves_between_states_by_the_sign_that_was_read() -> None:
    episodes = _episodes([[0, 1, 1, 0], [1, 0, 0, 0]], [[1, 1, 1, -1], [-1, -1, 9, 9]], [4, 2])
    pa = observed_automaton(make_policy("st-tau", TASK, hidden_size=4), episodes, TASK)
    assert pa.alphabet == ("angle −", "angle +")
    assert pa.initial.tolist() == [0.5, 0.5]
    assert pa.matrices[1].tolist() == [[0, 1], [0, 1]]  # beyond an episode's end nothing counts
    assert pa.matrices[0].tolist() == [[0.5, 0.5], [1, 0]]  # from 0 under a negative angle: never seen
    assert pa.output.tolist() == [0, 1]


def test_only_states_that_are_actions_make_an_automaton() -> None:
    episodes = _episodes([[0, 1]], [[1, 1]], [2])
    with pytest.raises(ValueError, match="whose states are its actions"):
        observed_automaton(make_policy("lstm", TASK, hidden_size=4), episodes, TASK)
    with pytest.raises(ValueError, match="shows no 'speed'; choose one of position, angle"):
        observed_automaton(make_policy("st-tau", TASK, hidden_size=4), episodes, TASK, by="speed")


@pytest.mark.skipif(not (RESULTS / "results.jsonl").exists(), reason="the experiment was not run")
def test_the_tables_in_the_docs_are_those_of_the_committed_results() -> None:
    page = (ROOT / "docs" / "rl.md").read_text("utf-8")
    for name, table in tables(RESULTS).items():
        assert table.strip() in page, name
