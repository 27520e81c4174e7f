"""What diagnostics add to the paper's tables: detection at equal length, the length alone, how finite a network is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

from sttau.jobs import Result
from sttau_reproduction.classification import table1
from sttau_reproduction.classification.declaration import LENGTH, Column, Table
from sttau_reproduction.classification.networks import TITLES
from sttau_reproduction.classification.table2 import OOD, SCORES

_FINITE = tuple(column.key for column in table1.FINITE)
#: Rows of tables of detection that are no networks.
OTHERS = {LENGTH: "length alone"}


def with_lengths_matched(table: Table, score: str) -> Table:
    """Add to a table of detection what is found at equal length, and the row of the length alone.

    Args:
        table: Table of one OOD score.
        score: Name of the score in metrics.
    """
    found = [replace(column, interval="after") if column.key.endswith("_auroc") else column for column in table.columns]
    found.append(Column(f"customer_{score}_matched_auroc", "equal length: seeds", 0, count=True))
    for out, title in OOD.items():
        found += [
            Column(f"{out}_{score}_matched_{area}", f"{title}, equal length: {name}", 1, "max", interval="after")
            for area, name in (("aupr", "O-AUPR %"), ("auroc", "O-AUROC %"))
        ]
    return replace(table, columns=tuple(found), others=OTHERS)


def join_diagnostics(results: Sequence[Result], diagnostics: Sequence[Result]) -> list[Result]:
    """Results with what diagnostics add, seed by seed: on detection, and on finiteness; what results have stays.

    A network that was only diagnosed has a row of its own. The length alone is no score of a network, so its areas
    stand in the table of every score.

    Example:
        >>> row = Result("paper", "imdb", "lstm", None, 0, {"pe": 1.0, "customer_entropy_auroc": 80.0}, {}, 1.0)
        >>> more = {"pe": 2.0, "customer_entropy_matched_auroc": 50.0, "customer_entropy_auroc": 81.0}
        >>> (joined,) = join_diagnostics([row], [Result("diagnostics", "imdb", "lstm", None, 0, more, {}, 1.0)])
        >>> joined.metrics
        {'customer_entropy_matched_auroc': 50.0, 'customer_entropy_auroc': 80.0, 'pe': 1.0}
    """
    prefixes = tuple(f"{out}_" for out in OOD)
    more = {
        (row.data, row.method, row.seed): {key: v for key, v in row.metrics.items() if key.startswith(prefixes)}
        for row in diagnostics
    }
    finite = {
        (row.data, row.method, row.seed): {key: row.metrics[key] for key in _FINITE if key in row.metrics}
        for row in diagnostics
    }
    joined = []
    for row in results:
        same = row.data, row.method, row.seed
        joined.append(replace(row, metrics=more.get(same, {}) | finite.get(same, {}) | row.metrics))
    known = {(row.data, row.method, row.seed) for row in results}
    joined += [
        replace(row, metrics=more[row.data, row.method, row.seed])
        for row in diagnostics
        if row.method != LENGTH and (row.data, row.method, row.seed) not in known
    ]
    return [*joined, *(_for_every_score(row) for row in diagnostics if row.method == LENGTH)]


def _for_every_score(row: Result) -> Result:
    metrics: dict[str, float] = {}
    for key, value in row.metrics.items():
        out, _, rest = key.partition("_")
        metrics |= {f"{out}_{score}_{rest}": value for score in SCORES}
    return replace(row, metrics=metrics)


def finding(results: Sequence[Result], diagnostics: Sequence[Result]) -> str:
    """What length has to do with detection, in numbers; a dash where there are none yet.

    Example:
        >>> finding([], [])
        '—'
    """
    key = "max_probability"
    lengths = [row.metrics for row in diagnostics if row.method == LENGTH]
    rows = [row for row in diagnostics if f"customer_{key}_matched_auroc" in row.metrics]
    if not lengths:
        return "—"
    (alone,) = lengths
    text = (
        f"Test reviews of IMDB have {alone['length']:.0f} words on average, customers' sentences "
        f"{alone['customer_length']:.0f} and sentences on films {alone['movie_length']:.0f}. "
        "The length of a text alone separates the reviews from the others with an AUROC of "
        f"{alone['customer_auroc']:.1f} and {alone['movie_auroc']:.1f} %."
    )
    if not rows:
        return text
    names = {(row.data, row.method) for row in rows}
    parts = []
    for out, title in OOD.items():
        before = _means(rows, f"{out}_{key}_auroc")
        after = _means(rows, f"{out}_{key}_matched_auroc")
        parts.append(f"from {_range(before)} to {_range(after)} ({title})")
    scores = {name: _scores(rows, name) for name in ("variance", "mutual_information", "feature_distance")}
    best = max((value for values in scores.values() for value in values), default=None)
    text += (
        f" When reviews are cut to the lengths of the OOD texts, four for each, the O-AUROC of {_count(names)} "
        f"by the largest probability goes {parts[0]} and {parts[1]}, where 50 % is chance."
    )
    if best is not None:
        text += f" The other scores reach {best:.1f} % at most."
    return text


def _count(names: set[tuple[str, str]]) -> str:
    """Their number, or the title of the only one."""
    return f"{len(names)} networks" if len(names) > 1 else f"*{TITLES[next(iter(names))[1]]}*"


def _range(values: Sequence[float]) -> str:
    """Smallest and largest of some percentages.

    Example:
        >>> _range([50.0]), _range([50.0, 60.0])
        ('50.0 %', '50.0 … 60.0 %')
    """
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return f"{low} %" if low == high else f"{low} … {high} %"


def _means(rows: Sequence[Result], key: str) -> list[float]:
    """The mean over seeds for each network that has a metric."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if key in row.metrics:
            found.setdefault(row.method, []).append(row.metrics[key])
    return [mean(values) for values in found.values()]


def _scores(rows: Sequence[Result], score: str) -> list[float]:
    return [value for out in OOD for value in _means(rows, f"{out}_{score}_matched_auroc")]
