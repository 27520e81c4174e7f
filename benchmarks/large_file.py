"""Memory of ``sttau predict`` on a file larger than it may hold: peak resident memory of the process.

    python benchmarks/large_file.py benchmarks/large_file/memory.jsonl --gigabytes 2

It trains a small model, writes a table of that size to a temporary folder, and predicts all of its series.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import sttau
from sttau.jobs import Result, write_results

STEPS, FEATURES, SEED = 100, 8, 0


def write_table(path: Path, size: float) -> int:
    """Write series of 100 steps until the file has that many bytes; return their number."""
    generator = np.random.default_rng(SEED)
    count = 0
    with path.open("w") as file:
        file.write("series,t," + ",".join(f"x{place}" for place in range(FEATURES)) + "\n")
        while file.tell() < size:
            values = generator.normal(size=(200, STEPS, FEATURES)) + np.arange(200)[:, None, None] % 2
            for series in values:
                rows = (",".join(f"{value:.7f}" for value in row) for row in series)
                file.write("".join(f"s{count},{step},{row}\n" for step, row in enumerate(rows)))
                count += 1
    return count


def make_model(path: Path) -> None:
    """Train a model for a few updates and save it with the schema of its data."""
    table = path.with_suffix(".csv")
    generator = np.random.default_rng(SEED)
    lines = ["series,t," + ",".join(f"x{place}" for place in range(FEATURES)) + ",label"]
    for number in range(40):
        for step in range(STEPS):
            values = ",".join(f"{value:.5f}" for value in generator.normal(size=FEATURES) + number % 2)
            lines.append(f"a{number},{step},{values},{'odd' if number % 2 else 'even'}")
    table.write_text("\n".join(lines) + "\n")
    data = sttau.data.read(table)
    model = sttau.create_model(data, seed=SEED)
    sttau.fit(model, data, updates=20, seed=SEED, progress=False)
    model.save(path)


def main() -> None:
    """Measure, and write one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model, table, out = (Path(folder) / name for name in ("model.safetensors", "large.csv", "predictions.csv"))
        make_model(model)
        count = write_table(table, given.gigabytes * 1e9)
        start = time.perf_counter()
        command = [sys.executable, "-c", "from sttau.cli import app; app()", "predict", str(model), str(table)]
        subprocess.run([*command, "--out", str(out)], check=True)
        seconds = time.perf_counter() - start
        with out.open() as file:
            rows = sum(1 for _ in file) - 1
        assert rows == count, f"{rows} predictions for {count} series"
        size = table.stat().st_size
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024  # kilobytes on Linux
    metrics = {"file_bytes": float(size), "peak_bytes": float(peak), "megabytes_per_second": size / 1e6 / seconds}
    settings = {"series": count, "steps": STEPS, "features": FEATURES}
    write_results([Result("large-file", "generated", "st-tau", 10, SEED, metrics, settings, seconds)], given.out)
    print(f"{size / 1e9:.2f} GB, {count:,} series: peak memory {peak / 1e6:.0f} MB, {seconds:.0f} s")


if __name__ == "__main__":
    main()
