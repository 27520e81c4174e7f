"""Tables of the paper's experiments in Markdown, made from their declarations and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import mean, stdev

from sttau.jobs import Result
from sttau.metrics import randomization_test
from sttau.tables import markdown_table
from sttau_reproduction.classification import (
    ablation,
    ablation_best,
    cost,
    dropout_sweep,
    inter_patient,
    table1,
    table2,
    table3,
    tuning,
)  # fmt: skip
from sttau_reproduction.classification.declaration import DATA, Column, Table
from sttau_reproduction.classification.diagnostics import detection
from sttau_reproduction.classification.diagnostics import tables as diagnostic
from sttau_reproduction.classification.history import Stretch, needed
from sttau_reproduction.classification.networks import TITLES, find
from sttau_reproduction.classification.predictions import Summaries
from sttau_reproduction.metrics import metrics_of

_SWEEP = dropout_sweep.TABLES[0]  # whose rates become rows
TABLES: tuple[Table, ...] = (
    *table1.TABLES, *diagnostic.TABLES[:1],
    *(detection.with_lengths_matched(table, score) for table, score in zip(table2.TABLES, table2.SCORES, strict=True)),
    *table3.TABLES, *cost.TABLES, *inter_patient.TABLES,
    *(replace(table, others=detection.OTHERS) for table in ablation.TABLES), *ablation_best.TABLES, *tuning.TABLES,
    _SWEEP, *diagnostic.TABLES[1:],
)  # fmt: skip
MISSING = "—"
NOT_COMPUTED = "*Not yet computed.*"
LEVEL = 0.005  # of the paper's test of errors
_TESTED = ("pe", "scaled_pe")  # both by the unscaled predictions: scaling changes few of them
_BEST = "st-tau-best"  # has goals
_GOAL = "goal for"


def tables(
    results: Sequence[Result],
    summaries: Summaries,
    history: Sequence[Stretch] = (),
    diagnostics: Sequence[Result] = (),
) -> dict[str, str]:
    """All tables as Markdown, by the name of their declaration.

    A value that is missing is shown as a dash. A network of which nothing is known, neither from results nor from the
    paper, is left out.

    Args:
        results: Rows of ``results.jsonl.gz``, any part of them.
        summaries: Summaries of predictions, for tests of errors and what chance gives; may be empty.
        history: Runs that computed them.
        diagnostics: Rows of ``diagnostics.jsonl.gz``.

    Example:
        >>> made = tables([], {})
        >>> print(made["table1"].splitlines()[4])
        | LSTM | — | — | — | — | 1.40 / 0.78 / 35.51 | — | — | — |
    """
    made = {}
    joined = detection.join_diagnostics(results, diagnostics)
    for table in TABLES:
        rows = diagnostics if table in diagnostic.TABLES else joined
        parts = {}
        for data in table.networks:
            found, header = _rows(table, data, rows, summaries)
            if known := _known(found):
                parts[data] = markdown_table(known, header)
        headed = (f"**{DATA[data]}**\n\n{part}" for data, part in parts.items())
        made[table.name] = "\n\n".join(headed if len(table.networks) > 1 else parts.values()) or NOT_COMPUTED
    return made | {"time": time_table(history), "detection-finding": detection.finding(results, diagnostics)}


def _rows(
    table: Table, data: str, results: Sequence[Result], summaries: Summaries
) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Rows and header of a table; some have a form of their own."""
    if table is _SWEEP:
        return sweep_rows(data, results)
    if table in cost.TABLES:
        results = cost.with_member_costs(results)
    rows, header = table_rows(table, data, results, summaries)
    if table in cost.TABLES:
        names = table.networks[data]
        for column in cost.COSTS:
            best = cost.fronts(results, data, names, column.key)
            rows = [(*row, ", ".join(best.get(name, ()))) for row, name in zip(rows, names, strict=True)]
            header = (*header, f"on the front of {column.title.split()[-2].strip(',')}")
    return rows, header


def _known(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The rows that hold anything beyond the number of seeds; goals alone are nothing.

    Example:
        >>> _known([("LSTM", "1", "2.0", "—"), ("VD", "—", "—", "—")])
        [('LSTM', '1', '2.0', '—')]
    """
    kept = [row for row in rows if not {"", MISSING}.issuperset(row[2:])]
    return kept if any(not row[0].startswith(_GOAL) for row in kept) else []


def time_table(history: Sequence[Stretch]) -> str:
    """How long it took, by machine and data set: all runs but those of which everything was computed again later.

    Example:
        >>> print(time_table([Stretch(90.0, "a GPU", ["bih lstm 0", "bih lstm 1"]), Stretch(30.0, "a GPU", [])]))
        | machine | data | runs | networks | minutes |
        | --- | --- | ---: | ---: | ---: |
        | a GPU | Heartbeats (MIT-BIH) | 1 | 2 | 1.5 |
        | a GPU | interrupted, resumed in another run | 1 | 0 | 0.5 |
        | a GPU | all | 2 | 2 | 2.0 |
    """
    rows: list[tuple[str, ...]] = []
    counted = needed(history)
    for machine in dict.fromkeys(stretch.hardware for stretch in counted):
        here = [stretch for stretch in counted if stretch.hardware == machine]
        parts: dict[str, list[Stretch]] = {}
        for stretch in here:
            sets = dict.fromkeys(name.split()[0] for name in stretch.computed)
            parts.setdefault(", ".join(DATA.get(data, data) for data in sets), []).append(stretch)
        if interrupted := parts.pop("", []):
            parts["interrupted, resumed in another run"] = interrupted
        for title, runs in (*parts.items(), ("all", here)):
            networks = {name for run in runs for name in run.computed}
            minutes = f"{sum(run.seconds for run in runs) / 60:.1f}"
            rows.append((machine, title, str(len(runs)), str(len(networks)), minutes))
    return markdown_table(rows or [(MISSING,) * 5], ("machine", "data", "runs", "networks", "minutes"))


def title_of(network: str, data: str) -> str:
    """For people.

    Example:
        >>> title_of("st-tau-classes", "bih"), title_of("lstm", "bih")
        ('ST-τ, k = 5', 'LSTM')
    """
    title = TITLES[network]
    if "k = classes" in title:
        title = title.replace("classes", str(find(data, network).settings["num_states"]))
    return title


def cells_of(results: Sequence[Result], data: str, network: str, seed: int | None = None) -> list[Result]:
    """Rows of one network, by seed; those of one seed if given.

    Example:
        >>> rows = [Result("paper", "bih", "lstm", None, seed, {"pe": 1.0 + seed}, {}, 1.0) for seed in (1, 0)]
        >>> [row.seed for row in cells_of(rows, "bih", "lstm")], cells_of(rows, "imdb", "lstm", 0)
        ([0, 1], [])
    """
    found = [row for row in results if row.data == data and row.method == network and seed in (None, row.seed)]
    return sorted(found, key=lambda row: row.seed)


def values_of(cells: Sequence[Result], key: str) -> list[float]:
    """One metric of several rows, of those that have it.

    Example:
        >>> values_of([Result("paper", "bih", "lstm", None, 0, {"pe": 1.4}, {}, 1.0)], "pe")
        [1.4]
    """
    every = map(metrics_of, cells)
    return [metrics[key] for metrics in every if key in metrics]


def table_rows(
    table: Table, data: str, results: Sequence[Result], summaries: Summaries
) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Rows and header of one table for one data set: ours by column, the paper's after each group of columns.

    Columns whose titles agree up to a colon are a group.

    Example:
        >>> rows, header = table_rows(table1.TABLES[0], "bih", [], {})
        >>> header[2:6], rows[0][2:6]
        (('PE %', 'ECE %', 'MCE %', 'paper: PE / ECE / MCE'), ('—', '—', '—', '1.40 / 0.78 / 35.51'))
    """
    found = {network: cells_of(results, data, network) for network in table.networks[data]}
    paper, goals = table.paper.get(data, {}), table.goals.get(data, {})
    groups = [(name, list(part)) for name, part in groupby(table.columns, lambda column: _parts(column)[0])]
    others = {name: cells_of(results, data, name) for name in table.others}
    header = ["method", "seeds"]
    rows = [[title_of(name, data), _count(cells)] for name, cells in found.items()]
    rows += [[title, MISSING] for title in table.others.values()]
    goal = [f"{_GOAL} {title_of(_BEST, data)}", ""]
    for group, columns in groups:
        for column in columns:
            bold = _best(column, found, data, summaries)
            header.append(column.title)
            for row, (name, cells) in zip(rows, (found | others).items(), strict=True):
                shown = by_chance(summaries, data, name, column) if column.chance else show(cells, column)
                row.append(f"**{shown}**" if name in bold else shown)
            reached = None if _is_derived(column) else goals.get(column.key)
            goal.append(_goal(column, reached, found.get(_BEST, [])))
        plain = [column for column in columns if not _is_derived(column)]
        theirs = [column for column in plain if any(column.key in numbers for numbers in paper.values())]
        if theirs:
            header.append(f"paper{f', {group}' if group else ''}: {' / '.join(_parts(c)[1] for c in theirs)}")
            for row, name in zip(rows, found | others, strict=True):
                numbers = paper.get(name, {})
                row.append(" / ".join(f"{numbers[c.key]:.{c.digits}f}" for c in theirs if c.key in numbers))
            goal.append("")
    return [tuple(row) for row in (*rows, *([goal] if goals else []))], tuple(header)


def show(cells: Sequence[Result], column: Column) -> str:
    """A number as mean ± standard deviation over seeds (± over the prediction runs of seed 0); each where there is one.

    Example:
        >>> rows = [Result("paper", "bih", "lstm", None, seed, {"pe": 1.0 + seed}, {}, 1.0) for seed in (0, 1)]
        >>> show(rows, Column("pe", "PE %", 2)), show(rows[:1], Column("pe", "PE %", 2)), show([], table1.COLUMNS[0])
        ('1.50 ± 0.71', '1.00', '—')
    """
    if column.count:
        return _count([cell for cell in cells if column.key in cell.metrics])
    form = f",.{column.digits}f"
    first = next((cell.metrics for cell in cells if cell.seed == 0), {})
    ends = [f"{first[key]:{form}}" for key in (f"{column.key}_low", f"{column.key}_high") if key in first]
    interval = f"[{', '.join(ends)}]" if column.interval and len(ends) == 2 else ""
    if column.interval == "alone":
        return interval or MISSING
    values = values_of(cells, column.key)
    if not values:
        return MISSING
    shown = f"{mean(values):{form}}"
    if column.goal is None:
        return shown
    shown += f" ± {stdev(values):{form}}" if len(values) > 1 else ""
    shown += f" (± {first[f'{column.key}_std']:{form}})" if f"{column.key}_std" in first else ""
    return f"{shown} {interval}".rstrip()


def by_chance(summaries: Summaries, data: str, network: str, column: Column) -> str:
    """Mean and interval of ECE or MCE of a calibrated network that is as sure as this one, first seed, in percent.

    Example:
        >>> by_chance({}, "bih", "lstm", Column("mce", "if calibrated", 1, chance=True))
        '—'
    """
    if (data, network) not in summaries:
        return MISSING
    found = summaries[data, network].chance[("ece", "mce").index(column.key)]
    middle, low, high = (f"{100 * value:.{column.digits}f}" for value in found.tolist())
    return f"{middle} [{low}, {high}]"


def _best(column: Column, found: Mapping[str, Sequence[Result]], data: str, summaries: Summaries) -> set[str]:
    """Networks in bold: the best, for errors also those that the paper's test cannot tell from it on seed 0."""
    means = {name: mean(values) for name, cells in found.items() if (values := values_of(cells, column.key))}
    if column.goal is None or _is_derived(column) or len(means) < 2:
        return set()
    best = (min if column.goal == "min" else max)(means, key=lambda name: means[name])
    bold = {name for name in means if means[name] == means[best]}
    if column.key in _TESTED:
        wrong = {name: summaries[data, name].wrong for name in means if (data, name) in summaries}
        if best in wrong:
            bold |= {
                name
                for name, theirs in wrong.items()
                if name not in bold and randomization_test(theirs, wrong[best]).p_value > LEVEL
            }
    return bold


def _goal(column: Column, goal: float | None, cells: Sequence[Result]) -> str:
    """The goal, and whether the mean over seeds reaches it."""
    if goal is None:
        return ""
    shown = f"{'≤' if column.goal == 'min' else '≥'} {goal:.{column.digits}f}"
    values = values_of(cells, column.key)
    if not values:
        return shown
    ours = round(mean(values), column.digits)
    return f"{shown} {'✓' if (ours <= goal if column.goal == 'min' else ours >= goal) else '✗'}"


def _count(cells: Sequence[Result]) -> str:
    return str(len(cells)) if cells else MISSING


def _is_derived(column: Column) -> bool:
    """Whether a column shows something about a metric instead of its value."""
    return column.interval == "alone" or column.chance or column.count


def _parts(column: Column) -> tuple[str, str]:
    """The group of a column and what it is called there: the paper's numbers stand together, without units."""
    group, _, rest = column.title.rpartition(": ")
    return group, rest.removesuffix(" %")


def sweep_rows(data: str, results: Sequence[Result]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Variational dropout under every rate when predicting, first seed, and ST-τ below.

    Example:
        >>> sweep_rows("bih", [])[0][3]
        ('VD', '0.3', '—', '—', '—')
    """
    name, metrics = dropout_sweep.NETWORK, dropout_sweep.METRICS
    columns = {column.key: column for column in _SWEEP.columns}
    rows = [
        (
            title_of(name, data),
            f"{rate:.1f}",
            *(show(cells_of(results, data, name, 0), columns[dropout_sweep.key(rate, key)]) for key in metrics),
        )
        for rate in dropout_sweep.RATES
    ]
    others = dropout_sweep.TABLES[1]
    rows += [
        (title_of(other, data), "", *(show(cells_of(results, data, other), column) for column in others.columns))
        for other in others.networks[data]
    ]
    return rows, ("method", "rate when predicting", *metrics.values())
