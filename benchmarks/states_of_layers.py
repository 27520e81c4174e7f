"""A layer of 16 to 128 states on a GPU, compared with cuDNN's LSTM in the same run: speed and accuracy.

    python -m benchmarks.states_of_layers --out states_of_layers.jsonl
    python -m benchmarks.states_of_layers --variants --out states_of_layers.jsonl

Times are of CUDA graphs, in float32. Accuracy is against the reference in float64, for few sequences and steps: the
largest error of the result and of each gradient, relative to its largest value. ``--variants`` also times other plans
of the kernels of more than 16 states. ``--tiny`` runs everything in Triton's interpreter, where times mean nothing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import triton

from sttau.bench import Shape, _captured, _Ours, _Plain, time_alternately
from sttau.engine import Noise, using
from sttau.engine.recurrence import triton as engine
from sttau.engine.recurrence import triton_plan
from sttau.engine.recurrence.triton_plan import Tiles
from sttau.version import __version__

STATES = (16, 17, 32, 64, 100, 128)
SHAPES = ((8, 500, 256, 256), (256, 187, 1, 128), (256, 187, 1, 256))  # batch, time, features, hidden size
GOALS = {17: 1.5, 32: 1.5, 64: 2.5, 100: 5.0, 128: 5.0}  # most times the time of 16 states
VARIED = (32, 64, 128)
#: Plans for both passes, whatever the number of rows: rows, tile, kept registers, cached KiB, columns of a thread.
VARIANTS: dict[str, Tiles | None] = {
    "1 row, tile 16, kept 64": Tiles(1, 16, 64, 160),
    "1 row, tile 32, kept 64": Tiles(1, 32, 64, 192),
    "1 row, tile 32, kept 128": Tiles(1, 32, 128, 192),
    "1 row, tile 32, nothing kept": Tiles(1, 32, 0, 208),
    "1 row, tile 16, 4 warps": Tiles(1, 32, 0, 208, 2),
    "2 rows, tile 16, kept 64": Tiles(2, 16, 64, 192),
    "2 rows, tile 32, kept 64": Tiles(2, 32, 64, 160),
    "2 rows, tile 32, nothing kept": Tiles(2, 32, 0, 232),
    "1 row, tile 32, kept 64, all cached": Tiles(1, 32, 64, 10_000),
    "unrolled": None,  # the kernels of up to 16 states, for up to 32
}
ROUNDS, ROUND_SECONDS = 5, 0.02

Sizes = tuple[int, int, int, int]
Work = tuple[Sizes, int, str | None]


@contextmanager
def _plan(variant: str | None) -> Iterator[None]:
    """Let a variant decide instead of the table; None for the table."""
    saved = dict(triton_plan.TABLE), triton_plan.RESIDENT_STATES, triton_plan.RESIDENT_VALUES
    try:
        if variant is not None:
            tiles = VARIANTS[variant]
            if tiles is None:
                triton_plan.RESIDENT_STATES, triton_plan.RESIDENT_VALUES = 32, 50_000
            else:
                triton_plan.TABLE.update(dict.fromkeys(saved[0], ((1024, tiles),)))
        yield
    finally:
        triton_plan.TABLE.update(saved[0])
        triton_plan.RESIDENT_STATES, triton_plan.RESIDENT_VALUES = saved[1:]


def _shape(sizes: Sizes, states: int) -> Shape:
    batch, steps, features, hidden = sizes
    return Shape("lstm", batch, steps, features, hidden, states)


def _compile(sizes: Sizes, states: int, variant: str | None) -> list[dict[str, Any]]:
    """Compile in a process of its own, and report what the kernels take."""
    torch.set_num_threads(1)
    from benchmarks.kernel_resources import compile_kernels

    with _plan(variant):
        return [{**r._asdict(), "fits": r.fits} for r in compile_kernels(_shape(sizes, states))]


def _milliseconds(layer: Any, tiny: bool) -> dict[str, float]:
    """Times of a training step and of a forward pass."""
    times = {}
    for task in ("training", "forward"):
        call = layer.work(task)
        if tiny:
            began = time.perf_counter()
            call()
            times[task] = 1e3 * (time.perf_counter() - began)
        else:
            replay = _captured(call)
            times[task] = time_alternately({task: replay}, "cuda", ROUNDS, ROUND_SECONDS)[task]
            del replay
    return times


def _error(sizes: Sizes, states: int, tiny: bool, truth: dict[Any, Any]) -> float:
    """The largest relative error of outputs and gradients on a small batch."""
    device = "cpu" if tiny else "cuda"
    shape = _shape((min(sizes[0], 6), min(sizes[1], 40), *sizes[2:]), states)

    def evaluate(dtype: torch.dtype) -> list[torch.Tensor]:
        torch.manual_seed(0)
        ours = _Ours(shape, device, torch.float32)
        layer = ours.layer.to(dtype)
        noise = Noise.of(torch.arange(shape.batch, device=device), 1, seed=3)
        with using("triton" if dtype == torch.float32 else "reference"):
            output = layer.features(ours.inputs.to(dtype), noise=noise, steps="last")
            output.sin().sum().backward()
        slopes = [p.grad for p in layer.parameters() if p.grad is not None]
        return [value.detach().double() for value in (output, *slopes)]

    key, pieces, processors = (sizes, states), engine._PIECE_VALUES, triton_plan.PROCESSORS
    if key not in truth:
        truth[key] = evaluate(torch.float64)
    try:
        vars(engine)["_PIECE_VALUES"] = 1  # several pieces, and rows per processor, as for the whole batch
        triton_plan.PROCESSORS = processors * shape.batch // sizes[0]
        pairs = zip(evaluate(torch.float32), truth[key], strict=True)
    finally:
        vars(engine)["_PIECE_VALUES"] = pieces
        triton_plan.PROCESSORS = processors
    return max(float((a - b).abs().max() / (b.abs().max() + 1e-30)) for a, b in pairs)


def _attempt(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The results, or why there are none."""
    try:
        return work()
    except Exception as error:  # a plan that cannot be compiled or launched is reported, and the others are measured
        return {"failed": f"{type(error).__name__}: {str(error).strip().splitlines()[-1][:200] if str(error) else ''}"}


class _Run:
    """Measurements, each of which is printed and appended to a file."""

    def __init__(self, out: Path | None, tiny: bool, seconds: float) -> None:
        self.out, self.tiny, self.end = out, tiny, time.perf_counter() + seconds
        self.truth: dict[Any, Any] = {}
        self.rows: list[dict[str, Any]] = []
        device = "interpreter" if tiny else torch.cuda.get_device_name()
        versions = {"sttau": __version__, "torch": torch.__version__, "triton": triton.__version__}
        self.about = {"versions": {**versions, "python": platform.python_version()}, "hardware": device}

    def write(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        if row["method"] != "compiled" or "failed" in row:
            print(json.dumps(row), flush=True)
        if self.out is not None:
            with self.out.open("a") as file:
                file.write(json.dumps({**row, **self.about}) + "\n")

    def plain(self, sizes: Sizes) -> None:
        """Measure cuDNN's LSTM."""
        device = "cpu" if self.tiny else "cuda"
        work = lambda: _milliseconds(_Plain(_shape(sizes, 1), device, torch.float32), self.tiny)  # noqa: E731
        self.write({"shape": sizes, "method": "nn.LSTM", **_attempt(work)})

    def ours(self, sizes: Sizes, states: int, variant: str | None) -> None:
        """Measure a layer, with a plan or with the table's."""
        if time.perf_counter() > self.end:
            self.write(
                {"shape": sizes, "method": "st-tau", "states": states, "plan": variant, "failed": "no time left"}
            )
            return

        def work() -> dict[str, Any]:
            device = "cpu" if self.tiny else "cuda"
            torch.manual_seed(0)
            with using("triton"):
                times = _milliseconds(_Ours(_shape(sizes, states), device, torch.float32), self.tiny)
            return {**times, "error": _error(sizes, states, self.tiny, self.truth)}

        with _plan(variant):
            row = {"shape": sizes, "method": "st-tau", "states": states, "plan": variant or "table", **_attempt(work)}
        base = next((r for r in self.rows if r["shape"] == sizes and r.get("states") == 16 and "training" in r), None)
        if base is not None and "training" in row:
            row |= {f"{task}_ratio": row[task] / base[task] for task in ("training", "forward")}
        self.write(row)


def _show(rows: list[dict[str, Any]]) -> None:
    """One table per shape and number of states, the best last; then the ratios to 16 states, with the goals."""
    ours = [row for row in rows if row["method"] == "st-tau"]
    for sizes, states in sorted({(row["shape"], row["states"]) for row in ours}):
        group = [row for row in ours if (row["shape"], row["states"]) == (sizes, states)]
        print(f"\nB{sizes[0]} T{sizes[1]} F{sizes[2]} d{sizes[3]} k{states}: training, forward, difference (ms); error")
        for row in sorted(group, key=lambda row: -row.get("training", float("inf"))):
            if "failed" in row:
                print(f"  {row['plan']}: {row['failed']}")
                continue
            times = f"{row['training']:7.3f} {row['forward']:7.3f} {row['training'] - row['forward']:7.3f}"
            print(f"  {times}  {row['error']:.1e}  {row['plan']}")
    print("\nRatios to 16 states (training, forward; goal)")
    for row in ours:
        if row["plan"] == "table" and "training_ratio" in row and row["states"] in GOALS:
            ratios = row["training_ratio"], row["forward_ratio"]
            met = "met" if max(ratios) <= GOALS[row["states"]] else "missed"
            name = f"{row['shape']} k{row['states']}"
            print(f"  {name}: {ratios[0]:.2f}, {ratios[1]:.2f}; {GOALS[row['states']]} {met}")


def _compiled(run: _Run, work: list[Work], workers: int, end: float) -> list[Work]:
    """The part of the work whose kernels are compiled in time, by several processes; the rest is reported."""
    done = []
    with multiprocessing.get_context("spawn").Pool(workers) as pool:  # terminated when left
        waiting = [(each, pool.apply_async(_compile, each)) for each in work]
        for each, result in waiting:
            left = max(0.1, end - time.perf_counter())
            found = _attempt(lambda result=result, left=left: {"kernels": result.get(left)})  # type: ignore[misc]
            sizes, states, variant = each
            row = {"shape": sizes, "method": "compiled", "states": states, "plan": variant or "table", **found}
            run.write(row)
            if (
                variant is None or "kernels" in found
            ):  # what the table says is compiled where it is launched, if need be
                done.append(each)
    return done


def main() -> None:
    """Compile everything in parallel, then measure."""
    parser = argparse.ArgumentParser(description="Speed and accuracy of layers of 16 to 128 states.")
    parser.add_argument("--variants", action="store_true", help="also time other plans of the kernels")
    parser.add_argument("--out", type=Path, help="file to which JSON lines are appended")
    parser.add_argument("--seconds", type=float, default=190, help="time after which nothing more is measured")
    parser.add_argument("--compiling", type=float, default=80, help="seconds after which compiling ends")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes that compile; 0 for none")
    parser.add_argument("--tiny", action="store_true", help="small sizes in Triton's interpreter, without a GPU")
    options = parser.parse_args()
    began = time.perf_counter()
    run = _Run(options.out, options.tiny, options.seconds)
    shapes = ((2, 3, 3, 8), (3, 2, 1, 8)) if options.tiny else SHAPES
    work: list[Work] = [(sizes, states, None) for sizes in shapes for states in STATES]
    if options.variants:
        work += [
            (sizes, states, name)
            for states in VARIED
            for sizes in shapes
            for name, tiles in VARIANTS.items()
            if tiles is not None or states <= 32
        ]
    if options.workers and not options.tiny:
        work = _compiled(run, work, options.workers, began + options.compiling)
        print(f"compiled after {time.perf_counter() - began:.0f} s", flush=True)
    for sizes in shapes:
        run.plain(sizes)
    for each in work:
        run.ours(*each)
    _show(run.rows)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
