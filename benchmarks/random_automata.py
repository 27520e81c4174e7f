"""Random minimal DFAs learned from labeled strings: how many are found, by state merging and by ``learn``.

    python benchmarks/random_automata.py --states 5 12 --each 5 --seed 1000 --out benchmarks/random_automata.jsonl.gz

For each number of states, ``--each`` languages over two and three symbols in turn. Training strings: up to 64 of each
label and each length up to 16; validation: up to 32 of lengths 17 to 24. k = max(12, 2n) states, at most 30 seconds on
one thread. A line of the result is one language; "network" is whether the network labels all of 200 random strings
of 500 to 1,000 symbols correctly.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import Any

import torch
from automata.fa.dfa import DFA
from json_lines import show_and_write

from sttau.automata import (
    accepts,
    as_dataset,
    balanced_strings,
    compare,
    extract_dfa,
    learn,
    learn_by_merging,
    random_dfa,
)
from sttau.inference import predict

SECONDS = 30.0


def measure(states: int, alphabet: str, seed: int, random_start: bool) -> dict[str, Any]:
    """Learn one language in each way."""
    truth = random_dfa(states, alphabet, seed=seed)
    train, validation = (
        as_dataset(*balanced_strings(truth, lengths, count, seed=0), alphabet, split=split)
        for split, lengths, count in (("train", range(17), 64), ("validation", range(17, 25), 32))
    )
    row: dict[str, Any] = {"states": states, "alphabet": alphabet, "seed": seed, "strings": len(train)}
    for name, order in (("rpni", "canonical"), ("edsm", "evidence")):
        began = time.perf_counter()
        dfa = learn_by_merging(train, order)  # type: ignore[arg-type]
        row[name] = {"equal": _equal(dfa, truth), "seconds": round(time.perf_counter() - began, 3)}
    for name, warm in (("learn", True), ("learn, random start", False))[: 1 + random_start]:
        began = time.perf_counter()
        learned = learn(train, validation, num_states=max(12, 2 * states), warm_start=warm, seconds=SECONDS, seed=seed)
        took = time.perf_counter() - began
        row[name] = {
            "equal": _equal(extract_dfa(learned.model).dfa, truth),
            "reached": learned.reached,
            "attempts": learned.attempts,
            "network": _is_right_on_long_strings(learned.model, truth, alphabet, seed),
            "seconds": round(took, 2),
        }
    return row


def _equal(dfa: DFA | None, truth: DFA) -> bool:
    return dfa is not None and compare(dfa, truth).equal


def _is_right_on_long_strings(model: Any, truth: DFA, alphabet: str, seed: int) -> bool:
    source = random.Random(seed)
    strings = ["".join(source.choices(alphabet, k=source.randint(500, 1000))) for _ in range(200)]
    data = as_dataset(strings, accepts(truth, strings), alphabet)
    return bool((predict(model, data.inputs, data.lengths).label == data.labels).all())


def main() -> None:
    """Measure all languages and write one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, nargs=2, default=(5, 12))
    parser.add_argument("--each", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/random_automata.jsonl.gz"))
    parser.add_argument("--warm-only", action="store_true", help="leave out learning from random weights")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for states in range(options.states[0], options.states[1] + 1):
        for number in range(options.each):
            alphabet = ("01", "abc")[number % 2]
            rows.append(measure(states, alphabet, options.seed + number, not options.warm_only))
            show_and_write(rows, options.out)
    for name in ("rpni", "edsm", "learn", "learn, random start")[: 3 + (not options.warm_only)]:
        found = sum(row[name]["equal"] for row in rows)
        slowest = max(row[name]["seconds"] for row in rows)
        print(f"{name}: {found} of {len(rows)} proved equal, at most {slowest} s")


if __name__ == "__main__":
    main()
