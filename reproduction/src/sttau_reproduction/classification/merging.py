"""Results of a run in another folder, added to those that are there."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from sttau.files import write_atomically
from sttau.jobs import Result, earlier_results, write_results
from sttau_reproduction.classification import cells, cost
from sttau_reproduction.classification.diagnostics.work import merge_results, read_diagnostics, results_path
from sttau_reproduction.classification.history import history_path, read_history
from sttau_reproduction.classification.networks import NETWORKS
from sttau_reproduction.classification.predictions import read_summaries, write_summary


def merge_folder(source: Path, target: Path, renew: bool = False) -> list[str]:
    """Add what another folder has: results, summaries, times of runs and diagnostics.

    The cost of a network is that of its settings, whatever their seed gives: where only one of two rows has it, the
    row that stays gets it.

    Args:
        source: Folder of a run, with some or all of ``results.jsonl.gz``, ``summary.npz``, ``runs.jsonl`` and
            ``diagnostics.jsonl.gz``.
        target: Folder that they are added to.
        renew: Whether results and diagnostics of a network and seed that are in both replace those of the target;
            otherwise these stay as they are, with their summary.

    Returns:
        What was added, by data set, network and seed.
    """
    place = {(network.data, network.name): number for number, network in enumerate(NETWORKS)}
    old = {(row.data, row.method, row.seed): row for row in earlier_results(cells.results_path(target))}
    new = {(row.data, row.method, row.seed): row for row in earlier_results(cells.results_path(source))}
    added = [key for key in new if renew or key not in old]
    kept = {key: _with_costs(row, new.get(key)) for key, row in old.items()}
    if added or kept != old:
        every = kept | {key: _with_costs(new[key], old.get(key)) for key in added}
        ordered = sorted(every, key=lambda key: (place.get(key[:2], len(place)), key[2]))
        write_results((every[key] for key in ordered), cells.results_path(target))
        known, other = dict(read_summaries(target)), read_summaries(source)
        known |= {(data, name): other[data, name] for data, name, seed in added if seed == 0 and (data, name) in other}
        write_summary({name: known[name] for name in place if name in known}, target)
        lines = [json.dumps(asdict(run)) + "\n" for run in (*read_history(target), *read_history(source))]
        write_atomically(history_path(target), "".join(lines).encode())
    there = {(row.data, row.method, row.seed) for row in read_diagnostics(target)}
    diagnosed = [row for row in read_diagnostics(source) if renew or (row.data, row.method, row.seed) not in there]
    if diagnosed:
        merge_results(diagnosed, results_path(target))
    names = [f"{data} {name} {seed}" for data, name, seed in added]
    names += [f"costs: {' '.join(map(str, key))}" for key, row in kept.items() if row != old[key]]
    return [*names, *(f"diagnostics: {row.data} {row.method} {row.seed}" for row in diagnosed)]


def _with_costs(row: Result, other: Result | None) -> Result:
    """A row with the costs that only another one of the same network has."""
    if other is None or row.settings != other.settings:
        return row
    missing = {column.key: other.metrics[column.key] for column in cost.COSTS if column.key in other.metrics}
    return replace(row, metrics=missing | row.metrics)
