"""Tables of the regression on household power, in Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import mean, stdev

from sttau.jobs import Result
from sttau.plotting.style import method_title
from sttau.tables import markdown_table
from sttau_reproduction.power.declaration import AHEAD, METHODS, name_of
from sttau_reproduction.power.weeks import Estimate, Weeks, over_hours, over_weeks

PAPER = ("method", "runs", "MSE", "MAE", "epistemic", "95 % width", "95 % coverage")
DISTRIBUTIONS = (
    "method", "runs", "MSE", "vs. persistence", "MAE", "NLL", "CRPS", "50 %", "80 %", "95 %", "95 % width",
    "aleatoric", "epistemic", "CRPS, recal.", "95 %, recal.",
)  # fmt: skip
WEEKS = (
    "method", "CRPS", "over hours", "over weeks", "minus LSTM", "minus LSTM, measured hours",
    "NLL", "over hours", "over weeks", "minus LSTM", "95 %", "over hours", "over weeks",
)  # fmt: skip
PATHS = ("method", "runs", "CRPS", *(f"CRPS, {hour} h" for hour in AHEAD), "MSE", "80 %", "95 %", "95 % width")


def _groups(results: Iterable[Result], setting: str) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        if result.settings["setting"] == setting:
            groups[name_of(result)].append(result)
    return groups


def title_of(name: str) -> str:
    """For people."""
    method, _, rest = name.partition(",")
    if method == "automaton":
        return f"automaton, k = {METHODS[method]['num_states']}"
    return method_title(method) + (f",{rest}" if rest else "")


def _over(cells: Sequence[Result]) -> Callable[..., str]:
    """Shows a metric as the mean over seeds, with their standard deviation; nothing where it was not measured."""

    def show(metric: str, digits: int = 3, spread: bool = False) -> str:
        values = [cell.metrics[metric] for cell in cells if metric in cell.metrics]
        if not values:
            return ""
        return f"{mean(values):.{digits}f}" + (f" ± {stdev(values):.{digits}f}" if spread and len(values) > 1 else "")

    return show


def paper_table(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Rows under ``PAPER``: networks without variance head, whose intervals hold epistemic uncertainty alone."""
    rows: list[tuple[str, ...]] = []
    for name, cells in _groups(results, "paper").items():
        show = _over(cells)
        rows.append(
            (
                title_of(name),
                str(len(cells)),
                show("mse", 4, True),
                show("mae"),
                show("epistemic"),
                show("width_95"),
                show("coverage_95", 1),
            )
        )
    return rows


def distributions_table(results: Iterable[Result], setting: str) -> list[tuple[str, ...]]:
    """Rows under ``DISTRIBUTIONS`` for the ``hour`` or the ``day``."""
    groups = _groups(results, setting)
    floor = groups["persistence"][0].metrics["mse"]
    rows: list[tuple[str, ...]] = []
    for name, cells in groups.items():
        show = _over(cells)
        change = 100 * (mean(cell.metrics["mse"] for cell in cells) / floor - 1)
        rows.append(
            (
                title_of(name),
                str(len(cells)),
                show("mse"),
                f"{change:+.0f} %",
                show("mae"),
                show("nll"),
                show("crps", 4, True),
                *(show(f"coverage_{level}", 1) for level in (50, 80, 95)),
                show("width_95", 2),
                show("aleatoric"),
                show("epistemic"),
                show("crps_recalibrated", 4),
                show("coverage_95_recalibrated", 1),
            )
        )
    return rows


def paths_table(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Rows under ``PATHS``: a day ahead, hour by hour."""
    rows: list[tuple[str, ...]] = []
    for name, cells in _groups(results, "paths").items():
        show = _over(cells)
        rows.append(
            (
                title_of(name),
                str(len(cells)),
                show("crps"),
                *(show(f"crps_at_{hour}") for hour in AHEAD),
                show("mse"),
                show("coverage_80", 1),
                show("coverage_95", 1),
                show("width_95", 2),
            )
        )
    return rows


def weeks_table(lines: Iterable[Weeks], setting: str) -> list[tuple[str, ...]]:
    """Rows under ``WEEKS``: means over runs with intervals over hours and over weeks, and differences to the LSTM."""
    chosen = {line["name"]: line for line in lines if line["setting"] == setting}
    rows: list[tuple[str, ...]] = []
    for name, line in chosen.items():
        crps, nll, coverage = (_intervals(line, *shown) for shown in (("crps", 4), ("nll", 3), ("coverage_95", 1)))
        lstm = chosen["lstm"] if name != "lstm" else None
        differences = [_difference(line, lstm, "crps", 4, measured) for measured in (False, True)]
        rows.append((title_of(name), *crps, *differences, *nll, _difference(line, lstm, "nll", 3), *coverage))
    return rows


def _intervals(line: Weeks, metric: str, digits: int) -> tuple[str, str, str]:
    """A mean, its interval over hours, and its interval over weeks."""
    if metric not in line["sums"]:
        return "", "", ""
    hours, weeks = over_hours(line, metric), over_weeks(line, metric)
    return f"{weeks.value:.{digits}f}", _range(hours, f".{digits}f"), _range(weeks, f".{digits}f")


def _difference(line: Weeks, other: Weeks | None, metric: str, digits: int, measured: bool = False) -> str:
    """The difference to another method with its interval over weeks; nothing where one of them has no such metric."""
    if other is None or metric not in line["sums"] or metric not in other["sums"]:
        return ""
    found = over_weeks(line, metric, other, measured)
    return f"{found.value:+.{digits}f} {_range(found, f'+.{digits}f')}"


def _range(found: Estimate, form: str) -> str:
    return f"[{found.low:{form}}, {found.high:{form}}]"


def tables(results: Sequence[Result], weeks: Sequence[Weeks] = ()) -> dict[str, str]:
    """All tables as Markdown, by name."""
    return {
        "paper": markdown_table(paper_table(results), PAPER),
        "hour": markdown_table(distributions_table(results, "hour"), DISTRIBUTIONS),
        "day": markdown_table(distributions_table(results, "day"), DISTRIBUTIONS),
        "paths": markdown_table(paths_table(results), PATHS),
        "weeks-hour": markdown_table(weeks_table(weeks, "hour"), WEEKS, text_columns=1),
        "weeks-day": markdown_table(weeks_table(weeks, "day"), WEEKS, text_columns=1),
    }
