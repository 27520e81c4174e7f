"""``sttau bench``: speed on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from sttau.cli.common import (
    DeviceOption,
    SecondsOption,
    ThreadsOption,
    check_folder,
    choose_device,
    plain_errors,
    print_line,
    print_table,
    set_threads,
)

if TYPE_CHECKING:
    from sttau.bench import Precision, Shape

    Plan = tuple[tuple[Shape, ...], tuple[Precision, ...]]


def bench(
    out: Annotated[Path, typer.Option(help="Folder for results, table and figure.")] = Path("bench"),
    device: DeviceOption = "auto",
    threads: ThreadsOption = 0,
    seconds: SecondsOption = 0.15,
    reference: Annotated[bool, typer.Option(help="Also time the step-by-step reference.")] = True,
) -> None:
    """Time ST-τ compared with nn.LSTM and nn.GRU on this machine: training, forward pass, ten samples, memory.

    Example: sttau bench --out bench
    """
    from sttau.bench import measure
    from sttau.files import write_atomically
    from sttau.jobs import write_results
    from sttau.plotting.png import as_png
    from sttau.plotting.speed import HEADER, compare_speed, speed_figure, speed_table
    from sttau.plotting.style import look
    from sttau.tables import markdown_table

    check_folder(out)
    device = choose_device(device)
    set_threads(threads)
    results = []
    with plain_errors(), Console().status("") as status:
        for shapes, precisions in _plans(device):
            for result in measure(
                shapes,
                device,
                precisions,
                reference=reference,
                graphs=device == "cuda",
                round_seconds=seconds,
                progress=status.update,
            ):
                results.append(result)
                write_results(results, out / "results.jsonl")
    comparisons = compare_speed(results)
    hardware, rows = results[0].hardware, speed_table(comparisons)
    print_table(HEADER, rows, title=f"Times faster than PyTorch's layer, {hardware}", align="llr")
    with look():
        shown = [comparison for comparison in comparisons if comparison.precision == "float32"]
        figure = speed_figure(shown, f"ST-τ compared with PyTorch's layers, {hardware}")
    write_atomically(out / "speed.png", as_png(figure))
    write_atomically(out / "table.md", markdown_table(rows, HEADER).encode())
    print_line(f"Results: {out / 'results.jsonl'}, table: {out / 'table.md'}, figure: {out / 'speed.png'}")


def _plans(device: str) -> list[Plan]:
    """Return what is measured: all shapes in float32, and on a GPU some of them in tf32 and bfloat16."""
    from sttau.bench import CPU_SHAPES, GPU_SHAPES

    if device == "cpu":
        return [(CPU_SHAPES, ("float32",))]
    return [(GPU_SHAPES, ("float32",)), (GPU_SHAPES[:1] + GPU_SHAPES[3:4], ("tf32", "bfloat16"))]
