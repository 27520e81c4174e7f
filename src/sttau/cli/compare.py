"""``sttau compare``: several methods on one data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from sttau.cli.common import (
    DeviceOption,
    FeaturesOption,
    LayoutOption,
    TaskOption,
    ThreadsOption,
    WideOption,
    check_folder,
    choose_device,
    choose_layout,
    count,
    plain_errors,
    print_line,
    print_table,
    set_threads,
    split_names,
    usage_error,
)
from sttau.cli.model_files import check_network

#: Settings that options of ``sttau compare`` set, for all methods.
_OF_COMPARE = {
    "seed": "--seeds", "seeds": "--seeds", "updates": "--updates", "batch_size": "--batch-size",
    "learning_rate": "--learning-rate", "samples": "--samples", "device": "--device", "folder": "--out",
    "data": "the argument DATA", "method": "--methods",
}  # fmt: skip


def compare(
    data: Annotated[
        str,
        typer.Argument(
            help="Name of the data set (see sttau data list), or a table of your own: a file, or a folder of files."
        ),
    ],
    target: Annotated[str | None, typer.Option(help="Column of the target of a table; 'label' by default.")] = None,
    id: Annotated[str | None, typer.Option(help="Column that identifies the series of a row.")] = None,
    time: Annotated[str | None, typer.Option(help="Column that orders the rows of a series.")] = None,
    features: FeaturesOption = None,
    layout: LayoutOption = None,
    wide: WideOption = False,
    text: Annotated[str | None, typer.Option(help="Column of texts.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of groups (such as patients) to keep together.")] = None,
    task: TaskOption = None,
    methods: Annotated[str, typer.Option(help="Names of the methods, separated by commas; all by default.")] = "",
    seeds: Annotated[int, typer.Option(min=1, help="Number of networks per method.")] = 3,
    updates: Annotated[int, typer.Option(min=1, help="Largest number of updates per network.")] = 1000,
    batch_size: Annotated[int, typer.Option(min=1, help="Number of sequences per batch.")] = 64,
    learning_rate: Annotated[float, typer.Option(help="Learning rate of AdamW.")] = 0.005,
    hidden_size: Annotated[int, typer.Option(min=1, help="Hidden size of all layers.")] = 64,
    samples: Annotated[int, typer.Option(min=1, help="Monte Carlo samples per member.")] = 10,
    reference: Annotated[
        str, typer.Option(help="Method that the others are tested against; the first by default.")
    ] = "",
    ood: Annotated[str, typer.Option(help="Name of a data set whose sequences are out-of-distribution.")] = "",
    detector: Annotated[
        str, typer.Option(help="Score or detector of OOD sequences: max-probability, entropy, mahalanobis, knn, …")
    ] = "max-probability",
    scaling: Annotated[bool, typer.Option("--scaling", help="Also evaluate after temperature scaling.")] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="Argument of a method, for instance st-tau.num_states=20; repeatable."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for table, figure, results and networks.")] = Path("comparison"),
    device: DeviceOption = "auto",
    threads: ThreadsOption = 1,
) -> None:
    """Train several methods in the same way on a data set, and test their differences.

    Values are means over seeds. Repeat the same command to resume an interrupted comparison.

    Example: sttau compare digits --methods lstm,ensemble,st-tau --out comparison
    """
    from sttau.comparison import METHODS
    from sttau.comparison import compare as run
    from sttau.report.comparison import write_comparison_report

    check_folder(out)
    device = choose_device(device)
    set_threads(threads)
    settings = _settings(setting or [])
    roles = {
        "target": target, "id": id, "time": time, "text": text, "group": group, "task": task,
        "layout": choose_layout(layout, wide), "features": split_names(features),
    }  # fmt: skip
    in_terminal = Console().is_terminal
    with plain_errors():
        result = run(
            [name.strip() for name in methods.split(",")] if methods else list(METHODS),
            _splits(data, roles),
            ood=ood or None,
            detector=detector,
            reference=reference or None,
            seeds=seeds,
            settings=settings,
            hidden_size=hidden_size,
            samples=samples,
            scaling=scaling,
            folder=out / "networks",
            device=device,
            on_network=lambda title: None if in_terminal else print_line(f"training: {title}"),
            updates=updates,
            batch_size=batch_size,
            learning_rate=learning_rate,
        )
        result.save(out)
        page = write_comparison_report(out / "report.html", result)
    header, rows = result.cells()
    lines = [[_two_lines(cell) for cell in row] for row in rows]
    print_table(header, lines, title=f"{data}, {count(seeds, 'seed')}")
    Console().print(result.legend(), highlight=False, markup=False)
    print_line(f"Table: {out / 'table.md'}, figure: {out / 'comparison.png'}, report: {page}")


def _splits(data: str, roles: dict[str, Any]) -> Any:
    """The name of a data set, or training, validation and test data from a table."""
    from sttau.data import DATASETS, read, split

    if data in DATASETS or not (Path(data).suffix or Path(data).is_dir()):
        return data
    table = read(data, missing="keep", **roles)
    print_line(table.summary())
    return split(table, (0.6, 0.2, 0.2), by=roles["group"])


def _settings(given: list[str]) -> dict[str, dict[str, Any]]:
    """Parse ``method.name=value``: a value is JSON, or else a string."""
    settings: dict[str, dict[str, Any]] = {}
    for text in given:
        place, equals, value = text.partition("=")
        method, dot, name = place.partition(".")
        if not (equals and dot and method and name):
            usage_error(f"--set must be method.name=value, for instance st-tau.num_states=20, got {text!r}")
        try:
            settings.setdefault(method, {})[name] = json.loads(value)
        except ValueError:
            settings.setdefault(method, {})[name] = value
    for method, own in settings.items():
        check_network(method, own, _OF_COMPARE)
    return settings


def _two_lines(cell: str) -> Text:
    """Format a cell for a terminal: value and mark above, interval below."""
    value, _, rest = cell.partition(" [")
    bounds, _, mark = rest.partition("]")
    text = Text(value.replace("**", ""), style="bold" if "**" in value else "")
    text.append(mark, style="green" if "▲" in mark else "red")
    return text.append(f"\n{bounds.replace(', ', ' – ')}", style="dim not bold") if bounds else text
