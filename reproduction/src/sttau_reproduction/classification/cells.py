"""One cell per network and seed; the work: train the networks it needs, evaluate them.

FOLDER/results.jsonl.gz     one line a cell
FOLDER/runs.jsonl           one line for every run that had something to compute
FOLDER/predictions/         the predictions of each network's first seed
FOLDER/summary.npz          what tables and figures need of them
FOLDER/cells/, networks/    finished cells and trained networks: what is there is not computed again
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch

from sttau.data import load
from sttau.data.source import load_arrays
from sttau.jobs import Backend, Cell, Outcome, Result, Step, Store, earlier_results, per_cell, run_cells, write_results
from sttau_reproduction.classification import (
    ablation,
    ablation_best,
    cost,
    dropout_sweep,
    inter_patient,
    table1,
    table2,
    table3,
    tuning,
    variants,
)  # fmt: skip
from sttau_reproduction.classification.declaration import Table
from sttau_reproduction.classification.evaluation import evaluate
from sttau_reproduction.classification.figures import FIGURES, READING
from sttau_reproduction.classification.history import noted
from sttau_reproduction.classification.networks import NETWORKS, TRIED, Network, find, make_quick
from sttau_reproduction.classification.predictions import predictions_path, write_arrays, write_summaries
from sttau_reproduction.classification.splits import OOD, load_splits
from sttau_reproduction.classification.timing import Timing, timed_cells
from sttau_reproduction.classification.trained import read_network, train, trainings_of

EXPERIMENT = "paper"
#: Version of the evaluation; to be raised with any change that gives other metrics for the same weights.
VERSION = 1

SAMPLES = 10  # Monte Carlo samples per prediction
_EVALUATIONS = 8  # cells that are evaluated at the same time with a GPU
RUNS = 10  # predictions of a network's first seed, where they differ
_DRAWING = ("bayes", "dropout", "st-tau")  # methods of which they do; SP-GRU draws its last output alone

#: What can be computed, and its tables.
TABLES: dict[str, tuple[Table, ...]] = {
    "table1": table1.TABLES,
    "table2": table2.TABLES,
    "table3": table3.TABLES,
    "ablation": ablation.TABLES,
    "ablation-best": ablation_best.TABLES,
    "cost": cost.TABLES,
    "dropout-sweep": dropout_sweep.TABLES,
    "inter-patient": inter_patient.TABLES,
    "tuning": tuning.TABLES,
}
CHOICES = (*TABLES, "figures", "all")

RESULTS = "results.jsonl.gz"  # name of the file of results in a folder


def results_path(folder: Path) -> Path:
    """Path of the results of a folder."""
    return folder / RESULTS


def tables_of(what: str) -> tuple[Table, ...]:
    """The tables of one of :data:`CHOICES`.

    Example:
        >>> [table.name for table in tables_of("ablation")]
        ['ablation']
    """
    if what not in CHOICES:
        raise ValueError(f"what to reproduce must be one of {', '.join(CHOICES)}, got {what!r}")
    return tuple(table for name, tables in TABLES.items() for table in tables if what in (name, "all"))


def networks_of(what: str) -> list[Network]:
    """The networks that are needed for one of :data:`CHOICES`, ensembles last: others train their members.

    Example:
        >>> [network.data for network in networks_of("ablation")] == ["imdb"] * 8
        True
    """
    needed = [table.networks for table in tables_of(what)]
    needed += FIGURES.values() if what in ("figures", "all") else ()
    names = {(data, name) for networks in needed for data, listed in networks.items() for name in listed}
    for data, name in names:
        find(data, name)  # or say that there is none
    chosen = [network for network in NETWORKS if (network.data, network.name) in names]
    return sorted(chosen, key=lambda network: network.method == "ensemble")


def choose(networks: Iterable[Network], data: Sequence[str] = (), names: Sequence[str] = ()) -> list[Network]:
    """Some of the networks: those on these data sets, of these names; all where none are given.

    Example:
        >>> [network.name for network in choose(networks_of("table1"), ["imdb"], ["lstm", "bayes"])]
        ['lstm', 'bayes']
    """
    networks = list(networks)
    for what, given, known in (
        ("data set", data, {network.data for network in networks}),
        ("network", names, {network.name for network in networks}),
    ):
        for name in given:
            if name not in known:
                raise ValueError(f"there is no {what} {name!r} here; choose among {', '.join(sorted(known))}")
    return [n for n in networks if (not data or n.data in data) and (not names or n.name in names)]


def cells_of(networks: Iterable[Network], seeds: int | None = None, quick: bool = False) -> list[Cell]:
    """List the cells of networks.

    Args:
        networks: Declared networks.
        seeds: Number of seeds, instead of those declared; an ensemble has one.
        quick: Whether to train small networks on a part of the data.

    Example:
        >>> [cell.seed for cell in cells_of([find("bih", "st-tau-10"), find("bih", "ensemble")], seeds=2)]
        [0, 1, 0]
    """
    if seeds is not None and seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    found = []
    for network in map(make_quick, networks) if quick else networks:
        count = 1 if network.method == "ensemble" else network.seeds if seeds is None else seeds
        draws = network.settings.get("member", network.method) in _DRAWING and network.settings.get("mode") != "exact"
        once = network.name in TRIED or network.name in variants.TITLES
        runs = 1 if not draws or once else 2 if quick else RUNS
        for seed in range(count):
            settings: dict[str, Any] = {
                "method": network.method,
                "settings": dict(network.settings),
                "training": dict(network.training),
                "samples": SAMPLES,
                "prediction_runs": 1 if seed else runs,
                "part": dict(network.part),
            }
            found.append(Cell(EXPERIMENT, network.data, network.name, seed, settings, VERSION))
    return found


def check_data(cells: Iterable[Cell]) -> None:
    """Load all data that cells need, so that missing data is reported before any work."""
    for data in sorted({cell.data for cell in cells}):
        for name in (data, *OOD.get(data, {}).values()):
            load(name, "test")


@dataclass(frozen=True)
class Work:
    """Trains the networks of cells, and evaluates each cell as soon as its networks are there.

    Attributes:
        folder: Folder for networks and prediction files.
        device: ``cpu`` or ``cuda``.
        at_once: Number of concurrent trainings on a GPU.
    """

    folder: Path
    device: str = "cpu"
    at_once: int = 16

    def __call__(self, cells: Sequence[Cell], scratch: Path) -> Iterator[tuple[Cell, Result | Exception]]:
        """Yield each cell with its result, or with why there is none."""
        torch.set_num_threads(1)  # of small steps, and of several cells that are evaluated at a time
        networks = self.folder / "networks"
        needs = {cell.key: trainings_of(cell) for cell in cells}
        trainings = {training.key: training for cell in cells for training in needs[cell.key]}
        waiting = {cell.key: {training.key for training in needs[cell.key]} for cell in cells}
        seconds = dict.fromkeys(waiting, 0.0)
        ready = []
        for training, took, error in train(list(trainings.values()), networks, self.device, self.at_once):
            for cell in cells:
                if training.key not in waiting.get(cell.key, ()):
                    continue
                if error is not None:
                    del waiting[cell.key]
                    yield cell, error
                    continue
                seconds[cell.key] += took
                waiting[cell.key].discard(training.key)
                if not waiting[cell.key]:
                    del waiting[cell.key]
                    if self.device == "cpu":
                        yield cell, self._try(cell, seconds[cell.key])
                    else:
                        ready.append(cell)
        # A GPU is busy with training until here. Then it predicts for some while the CPU evaluates others.
        pool = ThreadPoolExecutor(min(_EVALUATIONS, os.cpu_count() or 1))
        try:
            pending = {pool.submit(self._try, cell, seconds[cell.key]): cell for cell in ready}
            for future in as_completed(pending):
                yield pending[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)  # who interrupts waits for what is begun, no longer

    def _try(self, cell: Cell, seconds: float) -> Result | Exception:
        try:
            return self.evaluate(cell, seconds)
        except Exception as failure:
            return failure

    def evaluate(self, cell: Cell, seconds: float) -> Result:
        """Evaluate a cell whose networks are there; ``seconds`` is the time that their training took."""
        began = time.perf_counter()
        settings = cell.settings
        model, log = read_network(self.folder / "networks", cell, self.device)
        found = evaluate(
            model,
            load_splits(cell.data, settings["part"], self.device),
            log,
            samples=settings["samples"],
            runs=settings["prediction_runs"],
            first=_has_file(cell),
            reads=cell.method in READING,
            sweeps=cell.method not in variants.TITLES,
        )
        if found.arrays:
            name = {"cell": np.array(cell.key)}  # whose predictions they are
            write_arrays(found.arrays | name, _kept_at(self.folder, cell))
        states = settings["settings"].get("num_states")
        shown = {name: value for name, value in settings.items() if value != {}}  # no part means all
        took = seconds + time.perf_counter() - began
        return Result(EXPERIMENT, cell.data, cell.method, states, cell.seed, found.metrics, shown, took)


def _kept_at(folder: Path, cell: Cell) -> Path:
    return predictions_path(folder / "predictions", cell.data, cell.method)


def _has_file(cell: Cell) -> bool:
    """Whether the predictions of a cell are kept."""
    return cell.seed == 0 and cell.method not in TRIED


def missing_cells(cells: Iterable[Cell], folder: Path) -> list[Cell]:
    """Those that are still to be computed."""
    store = Store(folder / "cells")
    return [cell for cell in cells if store.read(cell) is None or _lost(cell, folder)]


def _lost(cell: Cell, folder: Path) -> bool:
    """Whether the predictions of a first seed are missing, or are those of another network of that name."""
    if not _has_file(cell):
        return False
    try:
        return str(load_arrays(_kept_at(folder, cell), ["cell"])["cell"]) != cell.key
    except (OSError, KeyError, ValueError, BadZipFile):
        return True


def check_folder(folder: Path, quick: bool, name: str = RESULTS) -> None:
    """Refuse a folder whose file of that name has results of the other kind: of all data, or of a part of it."""
    if any(("part" in result.settings) != quick for result in earlier_results(folder / name)):
        has, wants = ("all the data", "a part of it") if quick else ("a part of the data", "all of it")
        raise ValueError(f"{folder} has results of {has}, and these would be of {wants}; name another folder")


def run(
    cells: Sequence[Cell],
    folder: Path,
    *,
    on: Backend = "local",
    workers: int = 1,
    device: str = "cpu",
    at_once: int = 16,
    timing: bool = True,
    progress: Callable[[Step], None] = lambda _: None,
) -> Outcome:
    """Compute what is missing, and write ``results.jsonl.gz``; rows of other networks in it stay.

    Args:
        cells: Cells, from :func:`cells_of`.
        folder: Folder for all files.
        on: ``local`` or ``ray``.
        workers: Number of processes on CPUs. One GPU is used by one process, which trains several networks at once.
        device: ``cpu`` or ``cuda``.
        at_once: Number of concurrent trainings on a GPU.
        timing: Whether to measure the time of each network alone, after all trainings.
        progress: Callback, called with every cell.
    """
    store = Store(folder / "cells")
    for cell in cells:
        if _lost(cell, folder):
            store.path(cell).unlink(missing_ok=True)
    gpus = 1 if device == "cuda" else 0
    options: dict[str, Any] = {"on": on, "gpus": gpus, "progress": progress}
    together: Callable[[Cell], Hashable] | None = None
    if gpus:
        together = _data if on == "ray" else _all  # a GPU works best with many small networks at once
    work = Work(folder, device, at_once)
    with noted(cells, store, folder):
        outcome = run_cells(cells, work, store.folder, workers=workers, group_by=together, **options)
    done = {(result.data, result.method) for result in outcome.results if result.seed == 0}
    shown = [cell for cell in cells if _has_file(cell) and (cell.data, cell.method) in done]
    write_summaries(folder)
    failures, results = outcome.failures, _with_times(outcome.results, shown, store)
    _write(results, results_path(folder))
    if timing:
        timed = list({cell.key: cell for cell, _ in timed_cells(shown).values()}.values())
        failures = failures + run_cells(timed, per_cell(Timing(device)), store.folder, workers=1, **options).failures
        results = _with_times(outcome.results, shown, store)
        _write(results, results_path(folder))
    return Outcome(results, failures)


def _with_times(results: Sequence[Result], cells: Sequence[Cell], store: Store) -> list[Result]:
    """Results, those of first seeds with what was measured of their times, now or before."""
    timed = timed_cells(cells)
    times = {
        (cell.data, cell.method): {name: timed[cell.key][1] * seconds for name, seconds in found.metrics.items()}
        for cell in cells
        if (found := store.read(timed[cell.key][0])) is not None
    }
    return [
        replace(result, metrics=result.metrics | times.get((result.data, result.method), {}))
        if result.seed == 0
        else result
        for result in results
    ]


def _data(cell: Cell) -> str:
    return cell.data


def _all(cell: Cell) -> int:
    return 0


def _write(results: Sequence[Result], path: Path) -> None:
    """Add results to those that are there, in the place of older ones: of the same seed, or with other settings."""
    mine = {(result.data, result.method): _same(result) for result in results}
    seeds = {(result.data, result.method, result.seed) for result in results}
    others = [
        old
        for old in earlier_results(path)
        if (old.data, old.method, old.seed) not in seeds and mine.get((old.data, old.method), _same(old)) == _same(old)
    ]
    place = {(network.data, network.name): number for number, network in enumerate(NETWORKS)}
    every = [*others, *results]
    every.sort(key=lambda result: (place.get((result.data, result.method), len(place)), result.seed))
    write_results(every, path)


def _same(result: Result) -> dict[str, Any]:
    """Settings that all seeds of a network have in common."""
    return {name: value for name, value in result.settings.items() if name != "prediction_runs"}
