"""How often ``learn_pa`` with the true number of states reaches the likelihood of a fit that starts at the truth.

    python benchmarks/search_of_automata.py --search NAME --out benchmarks/search_of_automata.jsonl

Sparse PAs of 3 states like PA-2 (every move has two targets, one state accepts) with all strings of 1 to 9 symbols and
100 or 1,000 labels each. The search was developed on these languages, on others of the same kind and on random PAs,
never on those of ``stochastic_languages.py``; the first two are here because an earlier search had missed their
maximum. "gaps" are log-likelihoods of two runs minus that of the reference, in nats; NAME says which version of the
search was run.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stochastic_languages import ATTEMPTS, around

from sttau.automata import PA, as_dataset, learn_pa
from sttau.version import __version__

STATES = 3
SEEDS = (65015, 65020, 65030, 65031)


def sparse_pa(states: int, seed: int) -> PA:
    """A PA whose moves have two targets each and whose only accepting state is random; it begins in state 0."""
    source = np.random.default_rng([seed, 7])
    moves = torch.zeros(2, states, states, dtype=torch.float64)
    for symbol, state in product(range(2), range(states)):
        targets = source.choice(states, 2, replace=False)
        share = source.integers(1, 10) / 10
        moves[symbol, state, targets[0]], moves[symbol, state, targets[1]] = share, 1 - share
    output = torch.zeros(states, dtype=torch.float64)
    output[int(source.integers(states))] = 1
    return PA(torch.eye(states, dtype=torch.float64)[0], moves, output, ("0", "1"))


def measure(labels: int, seed: int) -> dict[str, Any]:
    """Learn one language twice, with the number of its states."""
    truth = sparse_pa(STATES, seed)
    strings = ["".join(word) for size in range(1, 10) for word in product("01", repeat=size)]
    chances = truth.probability(strings).numpy().clip(0, 1)
    accepted = torch.from_numpy(np.random.default_rng([seed, labels]).binomial(labels, chances))
    counts = torch.stack([labels - accepted, accepted], -1).float()
    data = as_dataset(strings, torch.zeros(len(strings)), "01")
    began = time.process_time()
    found = [learn_pa(data, STATES, frequencies=counts, attempts=ATTEMPTS, seed=run).log_likelihood for run in (0, 1)]
    took = time.process_time() - began
    starts = [truth, *(around(truth, seed + number) for number in range(4))]
    reference = max(learn_pa(data, STATES, frequencies=counts, initial=s, attempts=1).log_likelihood for s in starts)
    gaps = [round(value - reference, 3) for value in found]
    return {"states": STATES, "labels": labels, "seed": seed, "gaps": gaps, "seconds": round(took, 1)}


def main() -> None:
    """Measure all languages, one line each, and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--search", required=True)
    parser.add_argument("--out", type=Path, help="lines are added to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for seed, labels in product(SEEDS, (100, 1000)):
        rows.append({"search": options.search} | measure(labels, seed) | {"version": __version__})
        print(json.dumps(rows[-1]), flush=True)
        if options.out is not None:
            with options.out.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
    gaps = [gap for row in rows for gap in row["gaps"]]
    print(f"{sum(gap > -0.1 for gap in gaps)} of {len(gaps)} reach the reference, lowest {min(gaps)}")


if __name__ == "__main__":
    main()
