"""Quality against cost: single networks and ensembles, and which of them no other one beats in both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean

from sttau.jobs import Result
from sttau_reproduction.classification.declaration import Column, Table
from sttau_reproduction.classification.networks import declared
from sttau_reproduction.classification.variants import ENSEMBLES

QUALITIES = (
    Column("nll", "NLL", 4),
    Column("pe", "PE %", 2),
    Column("ece", "ECE %", 2),
    Column("aurc", "AURC %", 3),
)
COSTS = (
    Column("train_seconds", "training, s", 0, None),
    Column("predict_seconds", "1,000 predictions, s", 3, None),
)
#: Networks by kind; a kind is one line in the figure.
KINDS: dict[str, tuple[str, ...]] = {
    "LSTM": ("lstm", "ensemble"),
    "LSTM, matched training": ("lstm-best", "lstm-best-ensemble-2", "lstm-best-ensemble"),
    "VD": ("dropout-tuned",),
    "VD, matched training": ("dropout-best", "dropout-best-ensemble-2", "dropout-best-ensemble-5"),
    "ST-τ, k = 10": ("st-tau-10",),
    "ST-τ, mixed states": ("st-tau-best", "st-tau-best-ensemble-2", "st-tau-ensemble"),
    "ST-τ, mixed states, k = 64": ("st-tau-64",),
    "one automaton": ("automaton",),
    "one automaton, memory": (
        "automaton-memory",
        "automaton-memory-ensemble-2",
        "automaton-memory-ensemble-5",
    ),
    "mixture of automata": ("automata",),
    "mixture of automata, memory": ("automata-memory", "automata-memory-ensemble-2", "automata-memory-ensemble-5"),
    "mixture of automata, distilled": ("automata-distilled",),
}

TABLES = (
    Table(
        name="cost",
        title="Quality against cost",
        networks={
            data: declared(data, (name for names in KINDS.values() for name in names)) for data in ("bih", "imdb")
        },
        columns=(*QUALITIES, *COSTS),
    ),
)


def with_member_costs(results: Sequence[Result]) -> list[Result]:
    """Give each ensemble that was not timed the time of its members: their number times the mean of one network.

    Example:
        >>> times = {"train_seconds": 5.0, "predict_seconds": 1.0}
        >>> one = Result("paper", "imdb", "lstm-best", None, 0, times, {}, 1.0)
        >>> two = Result("paper", "imdb", "lstm-best-ensemble-2", None, 0, {"nll": 0.2}, {}, 1.0)
        >>> with_member_costs([one, two])[1].metrics
        {'nll': 0.2, 'train_seconds': 10.0, 'predict_seconds': 2.0}
    """
    found = []
    for row in results:
        member, size = ENSEMBLES.get(row.method, ("", 0))
        members = [other.metrics for other in results if (other.data, other.method) == (row.data, member)]
        times = {
            column.key: size * mean(known)
            for column in COSTS
            if column.key not in row.metrics and (known := [m[column.key] for m in members if column.key in m])
        }
        found.append(replace(row, metrics=row.metrics | times) if times else row)
    return found


def means_of(results: Sequence[Result], data: str, networks: Sequence[str]) -> dict[str, dict[str, float]]:
    """Mean over seeds of each quality and cost; of networks that have all of them.

    Example:
        >>> row = Result("paper", "bih", "lstm", None, 0, {"nll": 0.1, "pe": 1, "ece": 1, "aurc": 1}, {}, 1.0)
        >>> means_of([row], "bih", ["lstm"])  # without its times
        {}
    """
    keys = [column.key for column in (*QUALITIES, *COSTS)]
    found = {}
    for name in networks:
        rows = [row.metrics for row in results if (row.data, row.method) == (data, name)]
        values = {key: [row[key] for row in rows if key in row] for key in keys}
        if all(values.values()):
            found[name] = {key: mean(some) for key, some in values.items()}
    return found


def front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Names of the points that no other point is better than in one number and as good in the other; cheapest first.

    Example:
        >>> front({"a": (1.0, 5.0), "b": (2.0, 3.0), "c": (3.0, 4.0), "d": (2.0, 3.5)})
        ['a', 'b']
    """
    kept = [
        name
        for name, (cost, loss) in points.items()
        if not any(c <= cost and e <= loss and (c, e) != (cost, loss) for c, e in points.values())
    ]
    return sorted(kept, key=lambda name: points[name])


def fronts(results: Sequence[Result], data: str, networks: Sequence[str], cost: str) -> dict[str, list[str]]:
    """Titles of the qualities by which each network is on the front of a cost.

    Example:
        >>> metrics = {"nll": 0.1, "pe": 1.0, "ece": 1.0, "aurc": 1.0, "train_seconds": 5.0, "predict_seconds": 1.0}
        >>> fronts([Result("paper", "bih", "lstm", None, 0, metrics, {}, 1.0)], "bih", ["lstm"], "train_seconds")
        {'lstm': ['NLL', 'PE', 'ECE', 'AURC']}
    """
    means = means_of(results, data, networks)
    found: dict[str, list[str]] = {name: [] for name in means}
    for column in QUALITIES:
        for name in front({name: (values[cost], values[column.key]) for name, values in means.items()}):
            found[name].append(column.title.removesuffix(" %"))
    return found
