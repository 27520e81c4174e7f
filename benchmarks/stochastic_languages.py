"""Random PAs learned from strings with random labels: distance to the truth, against a fit that starts at the truth.

    python benchmarks/stochastic_languages.py --out benchmarks/stochastic_languages.jsonl

Random PAs of 2 to 4 states over two symbols (``random_pa``), all strings of 1 to 8 symbols with 10, 100 or 1,000 labels
each. Ours chooses the number of states by the expected likelihood, without the truth. "reference" is L-BFGS on the
same likelihood, started at the truth with its number of states. Distances are the largest difference in probability
over all strings of 1 to 12 symbols. Seeds from 60000; they were run once.
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

from sttau.automata import PA, as_dataset, distance, learn_pa, random_pa
from sttau.version import __version__


def measure(states: int, labels: int, seed: int) -> dict[str, Any]:
    """Learn one language from one number of labels."""
    truth = random_pa(states, seed=seed)
    strings = ["".join(word) for length in range(1, 9) for word in product("01", repeat=length)]
    chances = truth.probability(strings).numpy().clip(0, 1)
    accepted = torch.from_numpy(np.random.default_rng([seed, labels]).binomial(labels, chances))
    counts = torch.stack([labels - accepted, accepted], -1).float()
    data = as_dataset(strings, torch.zeros(len(strings)), "01")
    row: dict[str, Any] = {"states": states, "labels": labels, "seed": seed}
    began = time.perf_counter()
    learned = learn_pa(data, frequencies=counts, attempts=8, seed=seed)
    row["ours"] = _sup(learned.pa, truth)
    row["found"] = learned.pa.num_states
    row["seconds"] = round(time.perf_counter() - began, 1)
    reference = learn_pa(data, states, frequencies=counts, initial=truth, attempts=1, seed=seed)
    row["reference"] = _sup(reference.pa, truth)
    row["ratio"] = round(row["ours"] / max(row["reference"], 1e-9), 3)
    row["log-likelihood"] = round(learned.log_likelihood - reference.log_likelihood, 3)
    return row


def _sup(pa: PA, truth: PA) -> float:
    return round(max(distance(pa, truth, length=12).sup_by_length[1:]), 5)


def main() -> None:
    """Measure all languages and write one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--languages", type=int, default=10)
    parser.add_argument("--seed", type=int, default=60000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    versions = {"sttau": __version__, "torch": torch.__version__, "python": platform.python_version()}
    rows = []
    for labels in (10, 100, 1000):
        for number in range(options.languages):
            rows.append(measure(2 + number % 3, labels, options.seed + number))
            print(json.dumps(rows[-1]), flush=True)
            if options.out is not None:
                lines = (json.dumps(row | {"versions": versions, "hardware": "one CPU thread"}) for row in rows)
                options.out.write_text("\n".join(lines) + "\n")
    for labels in (10, 100, 1000):
        ratios = [row["ratio"] for row in rows if row["labels"] == labels]
        print(labels, f"{sum(ratio <= 1.3 for ratio in ratios)} of {len(ratios)} within 1.3")


if __name__ == "__main__":
    main()
