"""All pages of the documentation that show results, and the tables and figures of each."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.figure import Figure

from sttau.comparison import Comparison
from sttau.jobs import read_results
from sttau.plotting.speed import HEADER, compare_speed, speed_figure, speed_table
from sttau.plotting.style import look
from sttau.tables import markdown_table
from sttau_reproduction.automata import figures as automata_figures
from sttau_reproduction.automata import tables as automata_tables
from sttau_reproduction.automata.snapshots import read_snapshots
from sttau_reproduction.automata.words import WordMove, words_figure
from sttau_reproduction.cartpole import figures as cartpole_figures
from sttau_reproduction.cartpole import tables as cartpole_tables
from sttau_reproduction.classification.report import write_report
from sttau_reproduction.pages import renew_file, save_figure
from sttau_reproduction.power import figures as power_figures
from sttau_reproduction.power import tables as power_tables
from sttau_reproduction.power.shown import read_hours
from sttau_reproduction.speed.tables import BASELINES, COMPILED, ROOFLINE, baseline_table, compiled_rows, roofline_table

#: Pages on classification, from the root of the repository.
CLASSIFICATION = tuple(f"reproduction/docs/{name}.md" for name in ("results", "analyses", "log"))

_RESULTS = Path("reproduction/results")
_BYTES, _OPERATIONS = 4.8e12, 67e12  # of an H200, per second
_DPI = {"power": 110}
_FOLDERS = {"stochastic-learned": "reproduction/docs/images"}  # of figures that are not on a page of the library
_MACHINES = {"cpu": "two CPU cores", "cpu-passive": "two CPU cores, passive waiting", "h200": "NVIDIA H200"}


def renew_documentation(root: Path) -> Iterator[Path]:
    """Renew every table and figure of the documentation from the committed results, and yield the files written.

    Args:
        root: Root of the repository.
    """
    with TemporaryDirectory() as folder:
        written = write_report(root / _RESULTS / "paper", Path(folder), [root / page for page in CLASSIFICATION])
        yield from (path for path in written if not path.is_relative_to(folder))
    for page, tables in page_tables(root).items():
        yield renew_file(root / page, tables, {})
    results = root / _RESULTS
    drawn = (
        automata_figures.draw(read_snapshots(results / "automata/snapshots.json"))
        | cartpole_figures.draw(results / "cartpole")
        | power_figures.draw(read_hours(results / "household-power/hours.jsonl.gz"))
    )
    review_automaton = json.loads((root / "benchmarks/review_automaton.json").read_text("utf-8"))
    if "drawn" in review_automaton:
        drawn["review-automaton"] = draw_words(review_automaton["drawn"])
    for name, figure in drawn.items():
        images = root / _FOLDERS.get(name, "docs/images")
        yield save_figure(figure, images / f"{name}.png", _DPI.get(name.partition("-")[0], 150))
    for path, figure, dpi in _library_figures(root):
        yield save_figure(figure, path, dpi)


def draw_words(values: dict[str, Any]) -> Figure:
    """Draw the automaton of reviews from what ``benchmarks/review_automaton.py`` wrote.

    Example:
        >>> move = {"start": 0, "end": 1, "moves": 2.0, "words": ["superb"]}
        >>> len(draw_words({"visits": [0.6, 0.4], "positive": [0.1, 0.9], "moves": [move]}).axes)
        1
    """
    moves = [WordMove(**{**move, "words": tuple(move["words"])}) for move in values["moves"]]
    return words_figure(values["visits"], values["positive"], moves)


def _library_figures(root: Path) -> Iterator[tuple[Path, Figure, int]]:
    """Figures of ``sttau bench`` and ``sttau compare`` with their resolution, from the results of these commands."""
    for name, machine in _MACHINES.items():
        folder = root / "benchmarks" / name
        speeds = [
            speed for speed in compare_speed(read_results(folder / "results.jsonl")) if speed.precision == "float32"
        ]
        with look():
            yield folder / "speed.png", speed_figure(speeds, f"ST-τ compared with PyTorch's layers, {machine}"), 110
    folder = root / "docs/results/compare-digits"
    yield folder / "comparison.png", read_comparison(folder).figure(), 150


def read_comparison(folder: Path) -> Comparison:
    """Read what ``Comparison.save`` wrote; the trained networks are not part of it."""
    results = read_results(folder / "results.jsonl")
    with (folder / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = [{name: _value(name, cell) for name, cell in row.items()} for row in csv.DictReader(file)]
    return Comparison(data=rows[0]["data"], reference=rows[0]["method"], level=0.95, rows=rows, results=results)


def _value(name: str, cell: str) -> Any:
    if name in ("data", "method", "metric", "mark"):
        return cell
    if not cell:
        return None
    return cell if name == "goal" else int(cell) if name == "seeds" else float(cell)


def page_tables(root: Path) -> dict[str, dict[str, str]]:
    """The tables of each page of the library's documentation, by their names in its markers."""
    results = root / _RESULTS
    automata = automata_tables.tables(read_results(results / "automata/results.jsonl.gz"))
    compiled = compiled_rows(read_results(results / "automata/speed.jsonl"))
    power = power_tables.tables(read_results(results / "household-power/results.jsonl.gz"))
    return {
        "docs/automata.md": _named("automata", {"compiled": markdown_table(compiled, COMPILED)}),
        "reproduction/docs/automata.md": _named("automata", automata),
        "docs/regression.md": _named("power", power),
        "docs/rl.md": _named("cartpole", cartpole_tables.tables(results / "cartpole")),
        "docs/performance.md": _speed(root),
    }


def _speed(root: Path) -> dict[str, str]:
    tables = {
        f"baselines-{path.stem}": markdown_table(baseline_table(read_results(path)), BASELINES)
        for path in sorted((root / _RESULTS / "baseline-speed").glob("*.jsonl"))
    }
    benchmarks = root / "benchmarks"
    for path in sorted(benchmarks.glob("*/results.jsonl")):
        tables[f"speed-{path.parent.name}"] = markdown_table(speed_table(compare_speed(read_results(path))), HEADER)
    limits = roofline_table(read_results(benchmarks / "h200/roofline.jsonl"), _BYTES, _OPERATIONS)
    return tables | {"roofline": markdown_table(limits, ROOFLINE)}


def _named(prefix: str, tables: dict[str, str]) -> dict[str, str]:
    return {f"{prefix}-{name}": table for name, table in tables.items()}
