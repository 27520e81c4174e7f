"""Trials: a declared network with something changed, judged on validation data alone.

    python -m sttau_reproduction.classification.trials trials.json results/paper/trials/NAME.jsonl --device cuda

``trials.json`` is a list of trials: what is given is put in the place of what is declared. Part of the training data
can be held out in addition, so that chance plays a smaller part: ``"part": {"held_out": 3000}``.

    [{"name": "longer", "data": "imdb", "network": "st-tau-best", "training": {"updates": 4000}, "part": {}}]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sttau.calibration import TemperatureScaling, to_logits
from sttau.jobs.results import Result, write_results
from sttau.jobs.runner import Cell
from sttau_reproduction.classification.cells import cells_of
from sttau_reproduction.classification.evaluation import measure
from sttau_reproduction.classification.networks import Network, find
from sttau_reproduction.classification.splits import ask, load_splits
from sttau_reproduction.classification.trained import read_network, train, trainings_of

EXPERIMENT = "trial"


def change(declared: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Put what is given in the place of what is declared, also inside dictionaries.

    Example:
        >>> change({"num_states": 10, "model": {"dropout": 0.1, "paths": 2}}, {"model": {"paths": 4}})
        {'num_states': 10, 'model': {'dropout': 0.1, 'paths': 4}}
    """
    whole = dict(declared)
    for name, value in given.items():
        both = isinstance(value, Mapping) and isinstance(whole.get(name), Mapping)
        whole[name] = change(whole[name], value) if both else value
    return whole


def cell_of(trial: Mapping[str, Any]) -> Cell:
    """The cell of a trial; its name is that of the trial."""
    known = {"name", "data", "network", "settings", "training", "part", "seed"}
    if not {"name", "data", "network"} <= set(trial) <= known:
        raise ValueError(
            f"a trial has name, data, network and perhaps others of {', '.join(sorted(known))}; got {trial}"
        )
    declared: Network = find(trial["data"], trial["network"])
    tried = replace(
        declared,
        name=trial["name"],
        settings=change(declared.settings, trial.get("settings", {})),
        training=change(declared.training, trial.get("training", {})),
        part=trial.get("part", {}),
    )
    return replace(cells_of([tried], seeds=1)[0], experiment=EXPERIMENT, seed=trial.get("seed", 0))


def read_trials(path: Path) -> list[Cell]:
    """The cells of a file of trials."""
    return [cell_of(trial) for trial in json.loads(path.read_text("utf-8"))]


def run(
    cells: Sequence[Cell], out: Path, device: str = "cpu", progress: Callable[[str], None] = lambda _: None
) -> list[Result]:
    """Train and judge; all results so far are in ``out`` after each. Networks are kept in a folder beside it.

    Args:
        cells: of :func:`cell_of`.
        out: file for results.
        device: ``cpu`` or ``cuda``.
        progress: is told of every trial.
    """
    folder = out.parent / "networks"
    by_training = {trainings_of(cell)[0].key: cell for cell in cells}
    results: list[Result] = []
    for training, seconds, error in train([trainings_of(cell)[0] for cell in cells], folder, device):
        cell = by_training[training.key]
        if error is not None:
            progress(f"{cell.method} failed: {error}")
            continue
        results.append(_judge(cell, folder, device, seconds))
        write_results(results, out)
        shown = {name: round(value, 3) for name, value in results[-1].metrics.items()}
        progress(f"{cell.method}, seed {cell.seed}: {shown}")
    return results


def _judge(cell: Cell, folder: Path, device: str, seconds: float) -> Result:
    model, log = read_network(folder, cell, device)
    data = load_splits(cell.data, cell.settings["part"], device).validation
    answers = ask(model, data, cell.settings["samples"])
    metrics = {f"validation_{name}": value for name, value in measure(answers.mean(0), data.labels).items()}
    metrics["temperature"] = TemperatureScaling().fit(to_logits(answers), data.labels).temperature
    metrics["best_update"] = float(min((u.validation, u.number) for u in log if u.validation is not None)[1])
    if log[-1].temperature:
        metrics["tau"] = log[-1].temperature[0]
    states = cell.settings["settings"].get("num_states")
    return Result(EXPERIMENT, cell.data, cell.method, states, cell.seed, metrics, cell.settings, seconds)


def main(arguments: Iterable[str]) -> None:
    """Run the trials of a file."""
    parser = argparse.ArgumentParser(prog="python -m sttau_reproduction.classification.trials", description=__doc__)
    parser.add_argument("trials", type=Path, help="a JSON file")
    parser.add_argument("out", type=Path, help="for results, .jsonl")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    given = parser.parse_args(list(arguments))
    run(read_trials(given.trials), given.out, given.device, print)


if __name__ == "__main__":
    main(sys.argv[1:])
