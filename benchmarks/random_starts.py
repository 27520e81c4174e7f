"""How often a single random start of ``learn_pa`` reaches the best maximum, for several spreads of its parameters.

    python benchmarks/random_starts.py --out benchmarks/random_starts.jsonl

Random PAs of 2 to 4 states, all strings of 1 to 8 symbols with 10, 100 or 1,000 labels each. For each standard
deviation of the parameters ten starts of L-BFGS; "reached" counts those within 0.1 nats of the largest log-likelihood
of all starts and of one from the truth. Seeds from 63001, reserved for this choice.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sttau.automata import PrefixTree, as_dataset, random_pa
from sttau.automata.learning.maximum_likelihood import Problem, maximize_from
from sttau.version import __version__

SPREADS = (0.5, 1.0, 2.0, 4.0, 8.0)
STARTS = 10
LANGUAGES = ((2, 63001, 10), (2, 63004, 10), (4, 63002, 1000), (2, 63007, 10), (3, 63003, 10), (4, 63005, 100))


def measure(states: int, seed: int, labels: int) -> dict[str, Any]:
    """All starts on one language."""
    truth = random_pa(states, seed=seed)
    strings = ["".join(word) for length in range(1, 9) for word in product("01", repeat=length)]
    chances = truth.probability(strings).numpy().clip(0, 1)
    accepted = torch.from_numpy(np.random.default_rng([seed, labels]).binomial(labels, chances))
    counts = torch.stack([labels - accepted, accepted], -1).float()
    problem = Problem(
        PrefixTree(as_dataset(strings, torch.zeros(len(strings)), "01"), counts).double(), states, ("0", "1")
    )
    source = np.random.default_rng(1)
    began = time.perf_counter()
    found = {
        spread: [maximize_from(problem, source.normal(0, spread, problem.size), 1000)[0] for _ in range(STARTS)]
        for spread in SPREADS
    }
    total = float(problem.counts.sum())
    from_truth = maximize_from(problem, problem.parameters(truth), 1000)[0]
    best = min(from_truth, *(min(losses) for losses in found.values()))
    return {
        "states": states,
        "labels": labels,
        "seed": seed,
        "reached": {spread: sum(total * (loss - best) < 0.1 for loss in losses) for spread, losses in found.items()},
        "from the truth": round(total * (best - from_truth), 3),
        "seconds": round(time.perf_counter() - began, 1),
    }


def main() -> None:
    """Measure all languages and write one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    versions = {"sttau": __version__, "torch": torch.__version__, "python": platform.python_version()}
    rows = []
    for language in LANGUAGES:
        rows.append(measure(*language))
        print(json.dumps(rows[-1]), flush=True)
        if options.out is not None:
            lines = (json.dumps(row | {"versions": versions, "hardware": "one CPU thread"}) for row in rows)
            options.out.write_text("\n".join(lines) + "\n")
    for spread in SPREADS:
        print(spread, sum(row["reached"][spread] for row in rows), "of", STARTS * len(rows))


if __name__ == "__main__":
    main()
