"""Throughput of compiled automata on Python strings and on tensors, in million symbols per second.

    python benchmarks/compiled_strings.py --out benchmarks/compiled_strings.json

1,000 strings of 200 or 2,000 symbols over {0, 1}; a network of k states. The best of 20 repetitions.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from sttau import SequenceClassifier, STTauGRU
from sttau.automata import compile
from sttau.version import __version__


def best(function: Callable[[], object], repetitions: int = 20) -> float:
    """Shortest duration in seconds."""
    times = []
    for _ in range(repetitions):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    source = random.Random(0)
    rows = []
    for states, count, length in ((4, 1000, 200), (4, 1000, 2000), (10, 1000, 200), (10, 1000, 2000)):
        torch.manual_seed(0)
        model = SequenceClassifier(STTauGRU(8, 100, states, mode="exact"), 2, nn.Embedding(3, 8))
        compiled = compile(model, ("^", "0", "1"))
        strings = ["".join(source.choices("01", k=length)) for _ in range(count)]
        inputs, lengths = compiled.encode(strings)
        million = count * length / 1e6
        row = {
            "states": states,
            "strings": count,
            "length": length,
            "from str": round(million / best(lambda: compiled.probabilities(strings)), 1),  # noqa: B023
            "from tensors": round(million / best(lambda: compiled.probabilities(inputs, lengths)), 1),  # noqa: B023
        }
        rows.append(row)
        print(row, flush=True)
    versions = {"sttau": __version__, "torch": torch.__version__, "python": platform.python_version()}
    if options.out is not None:
        hardware = f"{options.threads} CPU threads, {platform.machine()}"
        options.out.write_text(json.dumps({"rows": rows, "versions": versions, "hardware": hardware}, indent=1) + "\n")


if __name__ == "__main__":
    main()
