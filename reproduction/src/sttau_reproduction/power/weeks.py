"""Losses of the test hours by week, and intervals of their means: ``weeks.jsonl.gz``, a line for each method.

Hours of one week are correlated, so an interval over single hours is too narrow; whole weeks are resampled instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sttau_reproduction.power.data import Hours
from sttau_reproduction.resampling import mean_interval

#: Metrics that are means over hours.
LOSSES = ("mse", "crps", "nll", "coverage_95")
#: A line of ``weeks.jsonl.gz``: losses of a method in a setting, mean over seeds, added up by week. Hours of a week
#: without any measurement have an entry of their own.
Weeks = dict[str, Any]
_RESAMPLES = 10_000  # of weeks
_REPEATED = 100  # hours with the same power: it was not measured


class Estimate(NamedTuple):
    """A mean with its 95 % interval."""

    value: float
    low: float
    high: float


def weeks_of(times: np.ndarray[Any, Any]) -> Tensor:
    """Number of the week, Monday to Sunday, that each time is in.

    Example:
        >>> weeks_of(np.array(["1970-01-04T23", "1970-01-05T00", "1970-01-11T23"], "datetime64[h]")).tolist()
        [0, 1, 1]
    """
    return torch.from_numpy((times.astype("datetime64[D]").astype(np.int64) + 3) // 7)  # 1970 began on a Thursday


def is_measured(power: Tensor) -> Tensor:
    """Whether each hour has a measurement; all others have the same power, the mean of the training hours."""
    _, place, counts = power.unique(return_inverse=True, return_counts=True)
    repeated: Tensor = counts[place]
    return repeated < _REPEATED


def add_up(lines: Iterable[dict[str, Any]], test: Hours) -> Iterator[Weeks]:
    """Add up the losses of each method, mean over its seeds, and compute intervals over single hours.

    Args:
        lines: Cells, each with its ``setting``, ``name`` and ``losses`` by metric, (hours,).
        test: Test hours.
    """
    groups: dict[tuple[str, str], list[dict[str, Tensor]]] = defaultdict(list)
    for line in lines:
        losses = {metric: torch.tensor(values, dtype=torch.float64) for metric, values in line["losses"].items()}
        groups[line["setting"], line["name"]].append(losses)
    entries, place = torch.stack([weeks_of(test.times), is_measured(test.power).long()]).unique(
        dim=1, return_inverse=True
    )
    hours, every = torch.bincount(place), torch.arange(len(place))
    for (setting, name), runs in groups.items():
        means = {metric: torch.stack([run[metric] for run in runs]).mean(0) for metric in runs[0]}
        sums = {metric: torch.zeros(len(hours)).double().index_add(0, place, mean) for metric, mean in means.items()}
        yield {
            "setting": setting,
            "name": name,
            "runs": len(runs),
            "week": entries[0].tolist(),
            "measured": entries[1].tolist(),
            "hours": hours.tolist(),
            "sums": {metric: [round(value, 4) for value in values.tolist()] for metric, values in sums.items()},
            "over_hours": {
                metric: [round(end, 6) for end in mean_interval(mean, torch.ones_like(mean), every)]
                for metric, mean in means.items()
            },
        }


def over_hours(line: Weeks, metric: str) -> Estimate:
    """A mean with its interval when single hours are resampled."""
    return Estimate(over_weeks(line, metric).value, *line["over_hours"][metric])


def over_weeks(line: Weeks, metric: str, other: Weeks | None = None, measured: bool = False) -> Estimate:
    """A mean with its interval when whole weeks are resampled.

    Args:
        line: Losses of a method.
        metric: One of its metrics.
        other: Losses of another method, whose mean is subtracted; the same weeks are drawn for both.
        measured: Whether hours without any measurement are left out.

    Example:
        >>> line = {"week": [1, 2], "measured": [1, 1], "hours": [3, 1], "sums": {"mse": [6.0, 2.0]}}
        >>> over_weeks(line, "mse")
        Estimate(value=2.0, low=2.0, high=2.0)
    """
    chosen = torch.tensor(line["measured"]) >= int(measured)
    sums = torch.tensor(line["sums"][metric], dtype=torch.float64)
    if other is not None:
        sums = sums - torch.tensor(other["sums"][metric], dtype=torch.float64)
    sums, hours, weeks = (values[chosen] for values in (sums, torch.tensor(line["hours"]), torch.tensor(line["week"])))
    return Estimate(float(sums.sum() / hours.sum()), *mean_interval(sums, hours, weeks, _RESAMPLES))
