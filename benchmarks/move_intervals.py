"""Intervals for the moves of random PAs: how often they hold the true probability, and how wide they are.

    python benchmarks/move_intervals.py --out benchmarks/move_intervals.jsonl.gz

Random PAs of 2 and 3 states over two symbols (``random_pa``), all strings of 1 to 8 symbols with 100 labels each. The
maximum of the likelihood is the one that is reached from the truth, so that states have the same numbers. Seeds from
62000; they were run once.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from json_lines import show_and_write

from sttau.automata import as_dataset, move_intervals, random_pa


def measure(states: int, labels: int, seed: int) -> dict[str, Any]:
    """Intervals of one language."""
    truth = random_pa(states, seed=seed)
    strings = ["".join(word) for length in range(1, 9) for word in product("01", repeat=length)]
    chances = truth.probability(strings).numpy().clip(0, 1)
    accepted = torch.from_numpy(np.random.default_rng([seed, labels]).binomial(labels, chances))
    counts = torch.stack([labels - accepted, accepted], -1).float()
    data = as_dataset(strings, torch.zeros(len(strings)), "01")
    began = time.perf_counter()
    found = move_intervals(truth, data, frequencies=counts)
    seconds = time.perf_counter() - began
    inside = (found.lower - 1e-6 <= truth.matrices) & (truth.matrices <= found.upper + 1e-6)
    width = found.upper - found.lower
    return {
        "states": states,
        "labels": labels,
        "seed": seed,
        "inside": int(inside.sum()),
        "moves": inside.numel(),
        "width": round(float(width.median()), 4),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Measure all languages and write one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--seed", type=int, default=62000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for states, languages in ((2, 60), (3, 8)):
        for number in range(languages):
            rows.append(measure(states, options.labels, options.seed + number))
            show_and_write(rows, options.out)
    for states in (2, 3):
        chosen = [row for row in rows if row["states"] == states]
        inside, moves = (sum(row[key] for row in chosen) for key in ("inside", "moves"))
        width = float(np.median([row["width"] for row in chosen]))
        print(f"{states} states: {inside} of {moves} inside, median width {width:.3f}")


if __name__ == "__main__":
    main()
