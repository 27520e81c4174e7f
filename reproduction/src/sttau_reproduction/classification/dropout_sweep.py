"""The sweep of the dropout rate at prediction time (the paper's figure on VD), and ST-τ, which has no such rate."""

from __future__ import annotations

from sttau_reproduction.classification import table1
from sttau_reproduction.classification.declaration import Column, Table

RATES = tuple(number / 10 for number in range(10))
METRICS = {"pe": "PE %", "ece": "ECE %", "mce": "MCE %"}
NETWORK = "dropout"  # that is evaluated with every rate
COMPARED = ("st-tau-classes", "st-tau-classes-plain", "st-tau-best")  # drawn as lines


def key(rate: float, metric: str) -> str:
    """The name of a number of the sweep.

    Example:
        >>> key(0.3, "ece")
        'sweep_0.3_ece'
    """
    return f"sweep_{rate:.1f}_{metric}"


TABLES = (
    Table(
        name="dropout-sweep",
        title="Variational dropout under other rates at prediction time",
        networks={"bih": (NETWORK,), "imdb": (NETWORK,)},
        columns=tuple(
            Column(key(rate, metric), f"{title}, {rate:.1f}", 2) for rate in RATES for metric, title in METRICS.items()
        ),
    ),
    Table(
        name="dropout-sweep-st-tau",
        title="ST-τ, without a rate to choose",
        networks={"bih": COMPARED, "imdb": COMPARED},
        columns=table1.COLUMNS,
    ),
)
