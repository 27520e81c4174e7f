"""Validation in the course of training, from the logs beside trained networks.

    python -m sttau_reproduction.classification.curves results/paper/networks results/paper/trials/curves.jsonl

Of all declared networks whose logs are in the folder or, with ``--trials trials.json``, of those trials.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from sttau.files import write_atomically
from sttau.jobs.runner import Cell
from sttau.training import read_log
from sttau_reproduction.classification.cells import cells_of
from sttau_reproduction.classification.networks import NETWORKS
from sttau_reproduction.classification.trained import network_path, trainings_of
from sttau_reproduction.classification.trials import read_trials


def curves(cells: Iterable[Cell], folder: Path) -> list[dict[str, Any]]:
    """What was measured on validation data, update by update, for each cell whose log is there.

    Beside it stand the medians of loss and norm of the gradient over the updates since the measurement before.

    Args:
        cells: of networks that are trained by themselves; ensembles are left out.
        folder: with trained networks.

    Example:
        >>> curves([], Path("nowhere"))
        []
    """
    found = []
    for cell in cells:
        training, *more = trainings_of(cell)
        path = network_path(folder, training).with_suffix(".jsonl")
        if more or not path.exists():
            continue
        log = read_log(path)
        measured = [update for update in log if update.validation is not None]
        row: dict[str, Any] = {"data": cell.data, "method": cell.method, "seed": cell.seed}
        row["update"] = [update.number for update in measured]
        for name in ("error", "nll"):
            row[name] = [round(update.metrics[name], 5) for update in measured]
        for name in ("loss", "gradient_norm"):
            row[name] = [
                float(f"{median(getattr(update, name) for update in log if first < update.number <= last):.4g}")
                for first, last in pairwise([0, *row["update"]])
            ]
        found.append(row)
    return found


def main(arguments: Sequence[str]) -> None:
    """Write the curves of a folder, one line a network."""
    parser = argparse.ArgumentParser(prog="python -m sttau_reproduction.classification.curves", description=__doc__)
    parser.add_argument("folder", type=Path, help="with trained networks")
    parser.add_argument("out", type=Path, help="for curves, .jsonl")
    parser.add_argument("--trials", type=Path, help="a JSON file, as sttau_reproduction.classification.trials takes it")
    given = parser.parse_args(arguments)
    cells = cells_of(NETWORKS) if given.trials is None else read_trials(given.trials)
    lines = [json.dumps(row) + "\n" for row in curves(cells, given.folder)]
    write_atomically(given.out, "".join(lines).encode())
    print(f"{len(lines)} networks: {given.out}")


if __name__ == "__main__":
    main(sys.argv[1:])
