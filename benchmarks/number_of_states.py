"""The number of states of random PAs by three criteria, from the same fits, and how many attempts a fit needs.

    python benchmarks/number_of_states.py --out benchmarks/number_of_states.jsonl

Random PAs of 2 to 4 states over two symbols (``random_pa``), all strings of 1 to 8 symbols with 10, 100 or 1,000 labels
each. Automata of 1 to 4 states are fitted with ``learn_pa``; each criterion chooses one. "sup" is the largest
difference from the true probabilities over all strings of 1 to 12 symbols, for each number of states. "reference" has
the largest likelihood of fits that start at the truth and at four places around it, with the true number of states.
"more" is the log-likelihood that twice as many attempts add at the true number of states. Seeds from 61000, reserved
for this choice; those of ``stochastic_languages.py`` are others.
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
from stochastic_languages import around

from sttau.automata import PA, as_dataset, distance, learn_pa, random_pa

LARGEST = 4


def measure(states: int, labels: int, attempts: int, seed: int) -> dict[str, Any]:
    """Fit one language with each number of states."""
    truth = random_pa(states, seed=seed)
    strings = ["".join(word) for length in range(1, 9) for word in product("01", repeat=length)]
    chances = truth.probability(strings).numpy().clip(0, 1)
    accepted = torch.from_numpy(np.random.default_rng([seed, labels]).binomial(labels, chances))
    counts = torch.stack([labels - accepted, accepted], -1).float()
    data = as_dataset(strings, torch.zeros(len(strings)), "01")
    row: dict[str, Any] = {"states": states, "labels": labels, "seed": seed, "sup": {}}
    scores: dict[str, dict[int, float]] = {"aic": {}, "bic": {}, "held-out": {}}
    began = time.perf_counter()
    for size in range(1, LARGEST + 1):
        found = learn_pa(data, size, frequencies=counts, attempts=attempts, criterion="held-out", seed=seed)
        row["sup"][size] = _sup(found.pa, truth)
        scores["aic"][size], scores["bic"][size] = found.expected[size], -found.criteria[size]
        scores["held-out"][size] = found.held_out[size]
        if size == states:
            more = learn_pa(data, size, frequencies=counts, attempts=2 * attempts, seed=seed + 1)
            row["more"] = round(more.log_likelihood - found.log_likelihood, 3)
            fitted = found.log_likelihood
    row["seconds"] = round(time.perf_counter() - began, 1)
    row["chosen"] = {name: max(values, key=lambda size: values[size]) for name, values in scores.items()}
    starts = [truth, *(around(truth, seed + number) for number in range(4))]
    fits = [learn_pa(data, states, frequencies=counts, initial=start, attempts=1, seed=seed) for start in starts]
    best = max(fits, key=lambda fit: fit.log_likelihood)
    row["reference"] = _sup(best.pa, truth)
    row["single reference"] = _sup(fits[0].pa, truth)
    row["fit − reference"] = round(fitted - best.log_likelihood, 3)
    return row


def _sup(pa: PA, truth: PA) -> float:
    return round(max(distance(pa, truth, length=12).sup_by_length[1:]), 5)


def main() -> None:
    """Measure all languages and write one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--languages", type=int, default=12)
    parser.add_argument("--attempts", type=int, default=10)
    parser.add_argument("--seed", type=int, default=61000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for number in range(options.languages):
        for labels in (10, 100, 1000):
            rows.append(measure(2 + number % 3, labels, options.attempts, options.seed + number))
            show_and_write(rows, options.out)
    for labels in (10, 100, 1000):
        chosen = [row for row in rows if row["labels"] == labels]
        for name in ("aic", "bic", "held-out"):
            sups = [row["sup"][row["chosen"][name]] for row in chosen]
            ratios = [sup / max(row["reference"], 1e-9) for sup, row in zip(sups, chosen, strict=True)]
            right = sum(row["chosen"][name] == row["states"] for row in chosen)
            print(
                f"{labels} labels, {name}: right number {right} of {len(chosen)}, "
                f"{sum(ratio <= 1.3 for ratio in ratios)} within 1.3, median sup {np.median(sups):.4f}, "
                f"geometric mean of the ratio {np.exp(np.mean(np.log(ratios))):.3f}"
            )


if __name__ == "__main__":
    main()
