"""Coverage of conformal sets on heartbeats and film reviews.

The predictions of two trained networks on their whole test sets are committed with the reproduction
(``reproduction/results/paper/predictions``). For each of 10 seeds, 10,000 of them are drawn for the test and the others
are the calibration data. Run from the repository:

    python benchmarks/conformal.py            # writes benchmarks/conformal/coverage.jsonl.gz
"""

from __future__ import annotations

import time
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sttau.conformal import Score, class_scores, conformal_quantile, label_scores, quantile_per_class
from sttau.inference.prediction import tie_breaks
from sttau.jobs import Result, write_results

ROOT = Path(__file__).parents[1]
PREDICTIONS = ROOT / "reproduction/results/paper/predictions"
NETWORKS = {"bih": "bih-lstm", "imdb": "imdb-state-regularized"}
METHODS: dict[str, tuple[Score, bool]] = {"lac": ("lac", False), "aps": ("aps", False), "lac by class": ("lac", True)}
LEVELS = (0.8, 0.9, 0.95, 0.99)
SEEDS = range(10)
TEST = 10_000


def predictions(name: str) -> tuple[Tensor, Tensor]:
    """Probabilities and labels of the whole test set."""
    with np.load(PREDICTIONS / f"{name}.npz") as file:
        p, labels = torch.from_numpy(file["probabilities"]), torch.from_numpy(file["labels"]).long()
    return p / p.sum(1, keepdim=True), labels


def main() -> None:
    """Measure every method, level and seed."""
    results = []
    for data, network in NETWORKS.items():
        p, labels = predictions(network)
        draws = tie_breaks(p)
        for seed, (method, (score, by_class)), level in product(SEEDS, METHODS.items(), LEVELS):
            began = time.perf_counter()
            order = torch.randperm(len(p), generator=torch.Generator().manual_seed(seed))
            test, known = order[:TEST], order[TEST:]
            scores = label_scores(p[known], labels[known], score, draws[known])
            if by_class:
                threshold = quantile_per_class(scores, labels[known], p.shape[1], level)
            else:
                threshold = torch.full((p.shape[1],), conformal_quantile(scores, level), dtype=torch.float64)
            sets = class_scores(p[test], score, draws[test]) <= threshold
            held = sets.gather(1, labels[test, None])[:, 0].double()
            worst = min(float(held[labels[test] == number].mean()) for number in range(p.shape[1]))
            metrics = {
                "set_coverage": 100 * float(held.mean()),
                "set_size": float(sets.sum(1).double().mean()),
                "lowest_class_coverage": 100 * worst,
            }
            settings = {"network": network, "level": level, "calibration": len(known), "test": TEST}
            took = round(time.perf_counter() - began, 3)
            results.append(Result("conformal", data, method, None, seed, metrics, settings, seconds=took))
    write_results(results, ROOT / "benchmarks/conformal/coverage.jsonl.gz")


if __name__ == "__main__":
    main()
