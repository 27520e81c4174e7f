"""The result of a comparison: rows, a table and a figure."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sttau.comparison.columns import COLUMNS
from sttau.files import write_atomically
from sttau.jobs import Result, write_results
from sttau.models import Predictor
from sttau.tables import markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: data, method, metric, goal, value, spread, low, high, seeds, difference, p, p_adjusted, mark.
Row = dict[str, Any]


@dataclass(frozen=True, repr=False)
class Comparison:
    """Several methods on the same data.

    Attributes:
        data: Name of the data set.
        reference: Method that the others were tested against.
        level: Level of the intervals.
        rows: One row per method and metric: ``value`` (mean over seeds), ``spread`` (standard deviation over seeds),
            ``low`` and ``high`` (bootstrap over test examples), ``difference`` from the reference, ``p`` of the
            randomization test against it, ``p_adjusted`` for testing several methods (Holm), and ``mark``.
        results: One result per network, as written to files.
        models: Trained networks of each method, one per seed.
    """

    data: str
    reference: str
    level: float
    rows: list[Row]
    results: list[Result]
    models: dict[str, list[Predictor]] = field(default_factory=dict)

    @property
    def metrics(self) -> list[str]:
        """Names of the columns, in the order of the table."""
        there = {row["metric"] for row in self.rows}
        return [name for name in COLUMNS if name in there]

    @property
    def methods(self) -> list[str]:
        """Names of the methods, in the order they were given."""
        return list(dict.fromkeys(row["method"] for row in self.rows))

    def row(self, method: str, metric: str) -> Row:
        """Return the row of a method and a metric; empty if there is none."""
        return next((row for row in self.rows if (row["method"], row["metric"]) == (method, metric)), {})

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Return header and lines of the table, as text."""
        header = ["method", *(COLUMNS[name].title for name in self.metrics)]
        return header, [[method, *(self._cell(method, name) for name in self.metrics)] for method in self.methods]

    def table(self) -> str:
        """Return the table in Markdown: values, intervals and marks; the best values in bold."""
        header, lines = self.cells()
        return "\n".join([markdown_table(lines, header, text_columns=1), "", self.legend()])

    def legend(self) -> str:
        """Return the explanation of the table."""
        seeds = max(row["seeds"] for row in self.rows)
        text = (
            f"{self.data}: mean over {seeds} seed{'s' * (seeds > 1)} [{100 * self.level:g} % bootstrap interval over "
            f"test examples]. ▲ better, ▼ worse than {self.reference}: once p ≤ 0.05, twice p ≤ 0.005 (randomization "
            "test, Holm's correction)."
        )
        if "ece" in self.metrics:
            text += " Intervals of ECE and MCE cover less than their nominal level: decide on NLL and Brier."
        return text

    def _cell(self, method: str, metric: str) -> str:
        row, column = self.row(method, metric), COLUMNS[metric]
        if not row:
            return ""

        def show(value: float) -> str:
            return f"{value:,.{column.digits}f}"

        text = show(row["value"])
        if column.goal is not None:
            best = (min if column.goal == "min" else max)(
                other["value"] for other in self.rows if other["metric"] == metric
            )
            text = f"**{text}**" if row["value"] == best else text
        if row["low"] is not None:
            text += f" [{show(row['low'])}, {show(row['high'])}]"
        return f"{text} {row['mark']}".rstrip()

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        header, lines = self.cells()
        head = "".join(f"<th>{escape(name)}</th>" for name in header)
        body = ""
        for line in lines:
            cells = (
                "<b>{}</b>{}".format(*cell[2:].split("**")) if "**" in cell else cell for cell in map(escape, line)
            )
            body += f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{escape(self.legend())}</p>"

    def figure(self) -> Figure:
        """Draw one panel per metric: values, intervals, and every seed as a dot."""
        from sttau.plotting.comparison import comparison_figure
        from sttau.plotting.style import look

        shown = [name for name in self.metrics if name != "parameters"]
        titles = {name: (COLUMNS[name].title, COLUMNS[name].goal) for name in shown}
        with look():
            return comparison_figure(self.rows, self.results, titles, self.reference)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the rows as CSV; also write them to a file if a path is given."""
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(self.rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        if path is not None:
            write_atomically(path, text.getvalue().encode())
        return text.getvalue()

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame; pandas must be installed."""
        try:
            import pandas  # type: ignore[import-untyped, unused-ignore]
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas; or use rows or to_csv") from error
        return pandas.DataFrame(self.rows)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``results.jsonl`` (all networks), ``table.csv`` (rows), ``table.md`` and ``comparison.png``.

        Returns:
            The folder.
        """
        from sttau.plotting.png import as_png

        folder = Path(folder)
        write_results(self.results, folder / "results.jsonl")
        self.to_csv(folder / "table.csv")
        write_atomically(folder / "table.md", self.table().encode() + b"\n")
        write_atomically(folder / "comparison.png", as_png(self.figure()))
        return folder
