"""The report on the paper's experiments: every table and figure from the files alone, and pages of the docs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from matplotlib.figure import Figure

from sttau.data import DATASETS, load
from sttau.data.source import data_folders, find, is_prepared
from sttau.files import write_atomically
from sttau.jobs import Result, read_results
from sttau_reproduction.classification import ablation, cost, dropout_sweep, figures, table1
from sttau_reproduction.classification.cells import results_path
from sttau_reproduction.classification.declaration import DATA
from sttau_reproduction.classification.diagnostics.drawing import corruption_figure, cost_figure
from sttau_reproduction.classification.diagnostics.work import read_diagnostics
from sttau_reproduction.classification.drawing import (
    Traces,
    ablation_figure,
    heartbeat_figure,
    reliability_figure,
    risk_coverage_figure,
    sentence_figure,
    sweep_figure,
    temperature_figure,
    tradeoff_figure,
)
from sttau_reproduction.classification.history import read_history
from sttau_reproduction.classification.page import write_page
from sttau_reproduction.classification.predictions import Array, Summaries, read_summaries
from sttau_reproduction.classification.tables import TABLES, tables
from sttau_reproduction.pages import markers, renew_file, save_figure

__all__ = ["FIGURES", "draw", "figure_links", "tables", "write_report"]

FIGURES = {
    **{f"reliability-{data}": f"Reliability diagrams, first seed: {DATA[data]}" for data in ("bih", "imdb")},
    "tradeoff": "Error against calibration error: large marks are means, dots are seeds",
    **{f"risk-coverage-{data}": f"Risk–coverage curves, first seed: {DATA[data]}" for data in ("bih", "imdb")},
    "dropout-sweep": "Variational dropout with other rates at prediction time, and ST-τ, which has no rate",
    "temperature": "The learned τ over training, first seed",
    "ablation": "OOD detection over the number of states; error bars over repeated predictions, rings for other seeds",
    "reading-bih": "Class probabilities of ST-τ while it reads a heartbeat: mean and central 80 % of samples",
    "reading-imdb": "Probability of a positive review word by word: mean and central 80 % of samples",
    **{
        f"cost-{data}": f"Quality against cost; marks on the line are on the front: {DATA[data]}"
        for data in cost.TABLES[0].networks
    },
    "corrupted": "Calibration over the severity of corruptions: means over seeds",
}


def write_report(folder: Path, out: Path, docs: Sequence[Path] = ()) -> list[Path]:
    """Write every table and every figure that there are results for; ``report.md`` and ``report.html`` have them all.

    Nothing is trained. The same files give the same report, byte for byte. Only the ECG trace above a reading needs
    data, and is left out where BIH is not on this machine.

    Args:
        folder: Folder with ``results.jsonl.gz`` and ``summary.npz``, as ``sttau-reproduce paper`` writes it.
        out: Folder for the report.
        docs: Pages whose marked tables and figures are renewed.

    Returns:
        Paths of all files that were written.
    """
    path = results_path(folder)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; name the folder of sttau-reproduce paper, which writes it")
    results, summaries = read_results(path), read_summaries(folder)
    diagnostics = read_diagnostics(folder)
    made = tables(results, summaries, read_history(folder), diagnostics)
    drawn = draw(results, summaries, diagnostics=diagnostics)
    titles = {table.name: table.title for table in TABLES} | {"time": "Time"}
    pages = {name: f"# {title}\n\n{made[name]}\n" for name, title in titles.items()}
    shown = [f"## {FIGURES[name]}\n\n![{FIGURES[name]}]({name}.png)\n" for name in drawn]
    pages["report"] = "\n".join(("# Report\n", *(f"#{page}" for page in pages.values()), *shown))
    written = [write_atomically(out / f"{name}.md", page.encode()) for name, page in pages.items()]
    pictures = [save_figure(figure, out / f"{name}.png") for name, figure in drawn.items()]
    written += [*pictures, write_page(out / "report.html", made, titles, drawn, FIGURES, _footer(results))]
    for page in docs:
        text = page.read_text("utf-8")
        written.append(renew_file(page, made, figure_links(drawn)))
        written += [
            write_atomically(page.parent / "images" / f"paper-{path.name}", path.read_bytes())
            for path in pictures
            if path.stem in markers(text, "figure")
        ]
    return written


def _footer(results: Sequence[Result]) -> str:
    """Versions and machines of the results."""
    versions = {f"sttau {row.versions['sttau']}, torch {row.versions['torch']}" for row in results}
    hardware = {row.hardware for row in results}
    return " · ".join([f"{len(results)} results", *sorted(versions), *sorted(hardware)])


def figure_links(drawn: Iterable[str]) -> dict[str, str]:
    """Links to all figures in Markdown, by name; those that are not drawn are marked as not computed."""
    there = set(drawn)
    return {
        name: f"![{title}](images/paper-{name}.png)" if name in there else "*Not yet computed.*"
        for name, title in FIGURES.items()
    }


def draw(
    results: Sequence[Result],
    summaries: Summaries,
    traces: Traces | None = None,
    diagnostics: Sequence[Result] = (),
) -> dict[str, Figure]:
    """All figures that there are numbers for, by name.

    Args:
        results: Rows of ``results.jsonl.gz``, any part of them.
        summaries: Summaries of predictions.
        traces: Function from a test row to its ECG, or None; by default it is looked up where BIH is on this machine.
        diagnostics: Rows of ``diagnostics.jsonl.gz``.
    """
    of = figures.FIGURES
    columns = {column.key: column.title for column in ablation.TABLES[0].columns}
    areas = {key: title for area in ("aupr", "auroc") for key, title in columns.items() if key.endswith(area)}
    every: dict[str, Figure | None] = {
        **{
            f"reliability-{data}": reliability_figure(data, names, summaries)
            for data, names in of["reliability"].items()
        },
        "tradeoff": tradeoff_figure(table1.TABLES[0].networks, *table1.COLUMNS[:2], results),
        **{
            f"risk-coverage-{data}": risk_coverage_figure(data, names, summaries)
            for data, names in table1.TABLES[0].networks.items()
        },
        "dropout-sweep": sweep_figure(of["dropout-sweep"], dropout_sweep.METRICS, results),
        "temperature": temperature_figure(of["temperature"], summaries),
        "ablation": ablation_figure("imdb", {"learned": ablation.LEARNED, "fixed": ablation.FIXED}, areas, results),
        "reading-bih": heartbeat_figure(of["reading"]["bih"], summaries, traces or _trace),
        "reading-imdb": sentence_figure(of["reading"]["imdb"], summaries),
        **{f"cost-{data}": cost_figure(data, results) for data in cost.TABLES[0].networks},
        "corrupted": corruption_figure(diagnostics),
    }
    return {name: figure for name, figure in every.items() if figure is not None}


def _trace(row: int) -> Array | None:
    """The ECG of a test row, where the data is on this machine: nothing is downloaded for it."""
    source = DATASETS["bih"].source
    if find(source, data_folders()) is None and not is_prepared(source):
        return None
    beats = _beats()
    return beats[row] if row < len(beats) else None


@cache
def _beats() -> Array:
    return load("bih", "test").inputs[:, :, 0].numpy()
