"""Computes the cells of the experiment on automata, each once, on one thread."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from sttau.jobs import Cell, Outcome, Result, Step, Store, earlier_results, per_cell, run_cells, write_results
from sttau_reproduction.automata import grammars, languages
from sttau_reproduction.automata.declaration import EXPERIMENT, Plan, cells


def measure(cell: Cell, folder: Path) -> Result:
    """Compute one cell. Networks are shared by the cells that one process is given together."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    metrics = {name: round(value, 6) for name, value in _measured(cell).items()}
    seconds = metrics.pop("seconds", time.perf_counter() - began)
    states, settings = _parts(cell)
    return Result(EXPERIMENT, cell.data, cell.method, states, cell.seed, metrics, settings, round(seconds, 3))


def _measured(cell: Cell) -> dict[str, float]:
    kind, number = re.fullmatch(r"([a-z]+)(\d+)", cell.data).groups()  # type: ignore[union-attr]
    which, settings = int(number), cell.settings
    if kind == "random":
        return grammars.drawn(which, cell.seed)
    if kind == "tomita":
        make = grammars.plain_network if settings["network"] == "gru" else grammars.our_network
        network = partial(make, which, cell.seed)
        ways: dict[str, Callable[[], dict[str, float]]] = {
            "st-tau": partial(grammars.ours, which, cell.seed),
            "gru": partial(grammars.plain, which, cell.seed),
            "k-means": partial(grammars.clustering, which, cell.seed, network),
            "l-star": partial(grammars.queries, which, cell.seed, network),
            "one attempt": lambda: grammars.mode(which, cell.seed, settings["mode"], settings["updates"]),
        }
        return ways[cell.method]()
    copies = settings["copies"]
    if cell.method == "alergia":
        return languages.alergia(which, copies)
    if cell.method == "spectral":
        return languages.spectral(which, copies)
    return languages.language(which, settings["states"], cell.seed, copies, settings.get("head", "dense"))


def run(
    folder: Path, plan: Plan | None = None, workers: int = 1, progress: Callable[[Step], None] = lambda _: None
) -> Outcome:
    """Compute every cell that the folder does not hold yet, and append its line to ``results.jsonl.gz``.

    Args:
        folder: Folder of results; finished cells are kept in ``cells`` below it, and lines of ``results.jsonl.gz``
            count as finished cells.
        plan: Cells to compute; all of them by default.
        workers: Number of processes.
        progress: Callback, called with every cell.
    """
    every, path = list(cells(plan or Plan())), folder / "results.jsonl.gz"
    before = earlier_results(path)
    accept_results(every, before, Store(folder / "cells"))
    outcome = run_cells(
        every, per_cell(measure), folder / "cells", workers=workers, group_by=_network, progress=progress
    )
    write_results([*before, *(result for result in outcome.results if result not in before)], path)
    return outcome


def accept_results(cells: Iterable[Cell], results: Iterable[Result], store: Store) -> None:
    """Enter results into a store, so that their cells count as finished."""
    known = {
        _name(result.data, result.method, result.states, result.seed, result.settings): result for result in results
    }
    for cell in cells:
        states, settings = _parts(cell)
        result = known.get(_name(cell.data, cell.method, states, cell.seed, settings))
        if result is not None and store.read(cell) is None:
            store.write(cell, result)


def _parts(cell: Cell) -> tuple[int | None, dict[str, Any]]:
    """The number of states and the other settings, as a result has them."""
    settings = dict(cell.settings)
    return settings.pop("states"), settings


def _name(*parts: object) -> str:
    return json.dumps(parts, sort_keys=True)


def _network(cell: Cell) -> Hashable:
    """What cells on one network have in common."""
    if cell.method in ("st-tau", "k-means", "l-star", "gru") and "network" in cell.settings:
        return cell.data, cell.seed, cell.settings["network"]
    return cell.key
