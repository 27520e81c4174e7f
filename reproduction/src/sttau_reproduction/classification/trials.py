"""Trials: a declared network with something changed, evaluated on validation data alone.

A JSON file lists trials: values that are given replace those declared. Part of the training data can be held out in
addition, so that chance plays a smaller part: ``"part": {"held_out": 3000}``.

    [{"name": "longer", "data": "imdb", "network": "st-tau-best", "training": {"updates": 4000}, "part": {}}]

``"random": 64`` makes 64 trials of one line, with values drawn from the search space of ``search.py`` in addition.

A record of a trial has ``date`` and ``question``, and the fields of a result. Trials of the first day, recorded by
another script, have a ``name``, and a list ``validation`` of values during training instead of ``metrics``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from sttau.calibration import TemperatureScaling, to_logits
from sttau.jobs import Cell, Outcome, Result, Step, Store, run_cells
from sttau_reproduction.classification import search
from sttau_reproduction.classification.cells import Work, cells_of
from sttau_reproduction.classification.evaluation import measure
from sttau_reproduction.classification.networks import Network, find
from sttau_reproduction.classification.splits import load_splits, predict_probabilities
from sttau_reproduction.classification.trained import read_network
from sttau_reproduction.records import append_records, read_records

EXPERIMENT = "trial"


def change(declared: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Replace declared values by those given, also in nested dictionaries.

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
    return [cell_of(trial) for line in json.loads(path.read_text("utf-8")) for trial in _drawn(line)]


def _drawn(line: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The trials of one line: itself, or as many random ones as it asks for."""
    given = {name: value for name, value in line.items() if name != "random"}
    if "random" not in line:
        yield given
        return
    network = find(given["data"], given["network"])
    for number, changes in enumerate(search.draw(network.data, network.method, line["random"])):
        yield change(changes, given) | {"name": f"{given['name']} {number}"}


@dataclass(frozen=True)
class Trial(Work):
    """Trains changed networks, and evaluates each on validation data alone."""

    def evaluate(self, cell: Cell, seconds: float) -> Result:
        """Evaluate a cell whose network is there."""
        model, log = read_network(self.folder / "networks", cell, self.device)
        data = load_splits(cell.data, cell.settings["part"], self.device).validation
        drawn = predict_probabilities(model, data, cell.settings["samples"])
        metrics = {f"validation_{name}": value for name, value in measure(drawn.mean(0), data.labels).items()}
        metrics["scaling_temperature"] = TemperatureScaling().fit(to_logits(drawn), data.labels).temperature
        metrics["best_update"] = float(min((u.validation, u.number) for u in log if u.validation is not None)[1])
        if log[-1].temperature:
            metrics["tau"] = log[-1].temperature[0]
        states = cell.settings["settings"].get("num_states")
        return Result(EXPERIMENT, cell.data, cell.method, states, cell.seed, metrics, cell.settings, seconds)


def run(
    cells: Sequence[Cell],
    out: Path,
    question: str,
    *,
    workers: int = 1,
    device: str = "cpu",
    at_once: int = 16,
    progress: Callable[[Step], None] = lambda _: None,
) -> Outcome:
    """Train and evaluate on validation data; append each result to a file as soon as it is there.

    Finished trials and networks are kept in folders next to the file; the same call resumes an interrupted run.

    Args:
        cells: Cells of :func:`cell_of`.
        out: File of trials; each line has the date and the question in addition to a result.
        question: Question that the trials answer.
        workers: Number of processes on CPUs.
        device: ``cpu`` or ``cuda``.
        at_once: Number of concurrent trainings on a GPU.
        progress: Callback, called with every cell.
    """
    folder = out.parent
    store = Store(folder / "cells")
    recorded = {_identity(record) for record in (read_records(out) if out.exists() else ())}

    def record(result: Result | None) -> None:
        if result is None or _identity(asdict(result)) in recorded:
            return
        append_records([{"date": date.today().isoformat(), "question": question, **asdict(result)}], out)
        recorded.add(_identity(asdict(result)))

    def record_step(step: Step) -> None:
        record(store.read(step.cell))
        progress(step)

    outcome = run_cells(
        cells,
        Trial(folder, device, at_once),
        store.folder,
        workers=workers,
        group_by=(lambda _: 0) if device == "cuda" else None,  # a GPU trains several at once, in one process
        gpus=1 if device == "cuda" else 0,
        progress=record_step,
    )
    for result in outcome.results:  # of a run that ended before it was recorded
        record(result)
    return outcome


def _identity(record: Mapping[str, Any]) -> str:
    """What a recorded trial is of."""
    return json.dumps([record.get(name) for name in ("data", "method", "seed", "settings")], sort_keys=True)
