"""What a comparison came to: rows for a program, a table and a figure for people."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sttau.compare.measures import MEASURES
from sttau.files import write_atomically
from sttau.jobs.results import Result, write_results
from sttau.models import Predictor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: data, method, metric, goal, value, spread, low, high, seeds, difference, p, p_adjusted, mark.
Row = dict[str, Any]


@dataclass(frozen=True, repr=False)
class Comparison:
    """Several methods on the same data.

    Attributes:
        data: the name of the data set.
        reference: the method the others were tested against.
        level: of the intervals.
        rows: one for each method and metric: ``value`` (mean over seeds), ``spread`` (standard deviation over seeds),
            ``low`` and ``high`` (bootstrap over test examples), ``difference`` from the reference, ``p`` of the
            randomization test against it, ``p_adjusted`` for testing several methods (Holm), and ``mark``.
        results: one for each network, as they are kept in files.
        models: the trained networks of each method, one a seed.
    """

    data: str
    reference: str
    level: float
    rows: list[Row]
    results: list[Result]
    models: dict[str, list[Predictor]] = field(default_factory=dict)

    @property
    def metrics(self) -> list[str]:
        """The metrics there are, in the order of the table."""
        there = {row["metric"] for row in self.rows}
        return [name for name in MEASURES if name in there]

    @property
    def methods(self) -> list[str]:
        """The methods, in the order they were given."""
        return list(dict.fromkeys(row["method"] for row in self.rows))

    def row(self, method: str, metric: str) -> Row:
        """The row of a method and a metric; empty where there is none."""
        return next((row for row in self.rows if (row["method"], row["metric"]) == (method, metric)), {})

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """Header and lines of the table, as text."""
        header = ["method", *(MEASURES[name].title for name in self.metrics)]
        return header, [[method, *(self._cell(method, name) for name in self.metrics)] for method in self.methods]

    def table(self) -> str:
        """The table as text that is Markdown too: values, intervals and marks; the best values in bold."""
        header, lines = self.cells()
        rule = ["---", *["---:"] * (len(header) - 1)]
        text = [f"| {' | '.join(line)} |" for line in (header, rule, *lines)]
        return "\n".join([*text, "", self.legend()])

    def legend(self) -> str:
        """What the table shows."""
        seeds = max(row["seeds"] for row in self.rows)
        text = (
            f"{self.data}: mean over {seeds} seed{'s' * (seeds > 1)} [{100 * self.level:g} % bootstrap interval over "
            f"test examples]. ▲ better, ▼ worse than {self.reference}: once p ≤ 0.05, twice p ≤ 0.005 (randomization "
            "test, Holm's correction)."
        )
        if "ece" in self.metrics:
            text += " Intervals of ECE and MCE cover less than they say: decide on NLL and Brier."
        return text

    def _cell(self, method: str, metric: str) -> str:
        row, measure = self.row(method, metric), MEASURES[metric]
        if not row:
            return ""

        def show(value: float) -> str:
            return f"{value:,.{measure.digits}f}"

        text = show(row["value"])
        if measure.goal is not None:
            best = (min if measure.goal == "min" else max)(
                other["value"] for other in self.rows if other["metric"] == metric
            )
            text = f"**{text}**" if row["value"] == best else text
        if row["low"] is not None:
            text += f" [{show(row['low'])}, {show(row['high'])}]"
        return f"{text} {row['mark']}".rstrip()

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        """What a notebook shows."""
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
        """A panel for each metric: values, intervals, and every seed as a dot."""
        from sttau.plotting.comparison import comparison_figure
        from sttau.plotting.style import look

        shown = [name for name in self.metrics if name != "parameters"]
        titles = {name: (MEASURES[name].title, MEASURES[name].goal) for name in shown}
        with look():
            return comparison_figure(self.rows, self.results, titles, self.reference)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """The rows as CSV; written to a file too where one is named."""
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(self.rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        if path is not None:
            write_atomically(path, text.getvalue().encode())
        return text.getvalue()

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame; pandas must be installed."""
        try:
            import pandas  # type: ignore[import-untyped, unused-ignore]
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas; or use rows or to_csv") from error
        return pandas.DataFrame(self.rows)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write ``results.jsonl`` (every network), ``table.csv`` (rows), ``table.md`` and ``comparison.png``.

        Returns:
            The folder.
        """
        from sttau.plotting.style import look

        folder = Path(folder)
        write_results(self.results, folder / "results.jsonl")
        self.to_csv(folder / "table.csv")
        write_atomically(folder / "table.md", self.table().encode() + b"\n")
        picture = io.BytesIO()
        with look():
            self.figure().savefig(picture, format="png", dpi=150)
        write_atomically(folder / "comparison.png", picture.getvalue())
        return folder
