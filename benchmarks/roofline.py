"""How far the GPU kernels are from their limits: run on a machine with a GPU.

    python benchmarks/roofline.py benchmarks/h200/roofline.jsonl

Three things bound a training step. *Serial*: one row's steps depend on each other, and nothing shortens that chain;
its length is measured by the forward kernel without all that is not the chain (no loads, no stores, no noise).
*Bytes*: what must be read and written at least once, over the memory's bandwidth. *Operations*: of the matrix products,
over what the GPU does in float32. Beside them stand the times of the kernels, as PyTorch's profiler sees them.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import torch
import triton
import triton.language as tl
from torch.profiler import ProfilerActivity, profile

from sttau.bench import GPU_SHAPES, Shape, _Ours
from sttau.engine.recurrence.triton_common import load_gates, load_rows, load_scalars, mix, sum_vectors, tanh
from sttau.jobs import Result, write_results

STEPS = 10


@triton.jit
def chain(x, recurrent, states, alpha, steps, d: tl.constexpr, K: tl.constexpr, D: tl.constexpr):  # noqa: D103
    row = tl.program_id(0)
    columns = tl.arange(0, D)
    on = columns < d
    U = load_rows(recurrent, columns, on, K, 4, d)
    S = load_rows(states, columns, on, K, 1, d)
    xs = load_gates(x + row * 4 * d, columns, on, 4, d)
    c = tl.zeros([D], tl.float32)
    a = load_scalars(alpha + row * K, K)
    for _ in range(steps):
        i = xs[0] + mix(a, U, 0, 4, K)
        f = xs[1] + mix(a, U, 1, 4, K)
        g = xs[2] + mix(a, U, 2, 4, K)
        o = xs[3] + mix(a, U, 3, 4, K)
        c = tl.sigmoid(f) * c + tl.sigmoid(i) * tanh(g)
        u = tl.sigmoid(o) * tanh(c)
        p = ()
        for j in tl.static_range(K):
            p = p + (S[j] * u,)  # noqa: RUF005
        logits = sum_vectors(p, K)
        top = logits[0]
        for j in tl.static_range(1, K):
            top = tl.maximum(top, logits[j])
        e = ()
        for j in tl.static_range(K):
            e = e + (tl.exp(logits[j] - top),)  # noqa: RUF005
        total = e[0]
        for j in tl.static_range(1, K):
            total += e[j]
        a = ()
        for j in tl.static_range(K):
            a = a + (e[j] / total,)  # noqa: RUF005
    for j in tl.static_range(K):
        tl.store(alpha + row * K + j, a[j])


def serial(shape: Shape) -> float:
    """Microseconds a step of the chain alone; the best over numbers of warps, each a median."""
    d, k = shape.hidden, shape.states
    x, U, S = (torch.randn(*size, device="cuda") / 4 for size in ((shape.batch, 4 * d), (k, 4 * d), (k, d)))
    alpha = torch.full((shape.batch, k), 1 / k, device="cuda")
    found = []
    for warps in (1, 2, 4, 8):
        taken = []
        for _ in range(8):
            torch.cuda.synchronize()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            chain[shape.batch,](x, U, S, alpha, shape.time, d=d, K=k, D=triton.next_power_of_2(d), num_warps=warps)
            end.record()
            torch.cuda.synchronize()
            taken.append(begin.elapsed_time(end) * 1e3 / shape.time)
        found.append(statistics.median(taken[2:]))
    return min(found)


def kernels(shape: Shape) -> dict[str, float]:
    """Microseconds a training step spends in each kind of kernel."""
    step = _Ours(shape, "cuda", torch.float32).work("training")
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
    taken = {"forward_us": 0.0, "backward_us": 0.0, "products_us": 0.0, "rest_us": 0.0}
    for event in seen.events():
        if event.device_type != torch.autograd.DeviceType.CUDA or event.name.startswith("_Plain"):
            continue
        name = event.name
        kind = (
            "forward_us" if "forward_" in name
            else "backward_us" if "backward_" in name
            else "products_us" if any(word in name for word in ("gemm", "cutlass", "splitK", "gemv"))
            else "rest_us"
        )  # fmt: skip
        taken[kind] += event.self_device_time_total / STEPS
    return taken


def limits(shape: Shape) -> dict[str, float]:
    """Bytes that a training step must move at least once each way, and operations of its matrix products."""
    cells = shape.batch * shape.time
    d, k, features = shape.hidden, shape.states, shape.features
    inside = features <= 2
    projected = 0 if inside else 4 * d  # written and read, forward and again backward
    numbers = cells * (2 * features + 4 * projected + 2 * d + 2 * 5 * d + 6 * k)
    products = 2 * cells * (0 if inside else 3 * 4 * d * features) + 2 * cells * (2 * k + 2) * 5 * d
    return {"bytes": 4.0 * numbers, "operations": float(products)}


def main(out: Path) -> None:
    """Measure all LSTM shapes and write one line each."""
    results = []
    for shape in GPU_SHAPES:
        if shape.cell != "lstm" or shape.exact:
            continue
        began = time.perf_counter()
        metrics = {"serial_us_per_step": serial(shape), **kernels(shape), **limits(shape)}
        metrics["forward_us_per_step"] = metrics["forward_us"] / shape.time
        metrics["backward_us_per_step"] = metrics["backward_us"] / shape.time
        results.append(
            Result("roofline", shape.name, "st-tau", shape.states, 0, metrics, {"precision": "float32"},
                   seconds=time.perf_counter() - began)
        )  # fmt: skip
        print(shape.name, {name: round(value, 2) for name, value in metrics.items()}, flush=True)
        write_results(results, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
