"""The regression on household power: settings, methods and cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sttau.jobs import Cell, Result

EXPERIMENT = "household-power"
#: Version of the code behind the results; to be raised with any change that gives other values.
VERSION = 2
AHEAD = (1, 6, 12, 24)  # hours at which paths are evaluated


@dataclass(frozen=True)
class Plan:
    """Which cells there are, and how long they are trained."""

    seeds: int = 5
    hidden_size: int = 100
    updates: dict[str, int] = field(default_factory=lambda: {"paper": 600, "hour": 1000, "day": 1200, "paths": 800})
    samples: int = 10
    rows: int | None = None  # training hours, the last ones; None for all
    starts: int = 60  # hours of the test year from which paths begin
    paths: int = 60
    trees: int = 300  # of a boosted model
    history: int = 24  # hours that are read for the ``day`` and for ``paths``

    def reads(self, setting: str) -> dict[str, Any]:
        """What networks read under a setting."""
        longer = {"history": self.history} if SETTINGS[setting]["history"] > 1 else {}
        return {"setting": setting, **SETTINGS[setting], **longer, "rows": self.rows}


QUICK = Plan(
    seeds=1, hidden_size=8, updates=dict.fromkeys(("paper", "hour", "day", "paths"), 20), samples=3, rows=600, starts=5,
    paths=20, trees=3,
)  # fmt: skip

#: What a setting reads: hours, columns of the data, and whether the calendar.
SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {"history": 1, "columns": 7, "calendar": False, "head": "mean"},
    "hour": {"history": 1, "columns": 7, "calendar": False, "head": "distribution"},
    "day": {"history": 24, "columns": 7, "calendar": True, "head": "distribution"},
    "paths": {"history": 24, "columns": 1, "calendar": True, "head": "distribution"},
}
_BATCH = {"paper": 256, "hour": 256, "day": 64, "paths": 64}
_RATE = {"paper": 0.01, "hour": 0.03, "day": 0.02, "paths": 0.02}

#: Methods, with what they are made with; chosen on the validation hours.
METHODS: dict[str, dict[str, Any]] = {
    "lstm": {},
    "ensemble": {"size": 5},
    "bayes": {"prior_scale": 0.5},
    "dropout": {"dropout": 0.1},
    "st-tau": {"num_states": 10, "readout": "state"},
    "automaton": {"num_states": 32, "mode": "exact"},
}
_EXACT = "automaton"  # trained for the likelihood of a mixture: with a variance head alone, and without paths
_WITH_VARIANCE: dict[str, dict[str, Any]] = {"st-tau": {"paths": 4}}  # in addition, with a variance head
_LONGER: dict[str, dict[str, Any]] = {  # where more than one hour is read
    "dropout": {"dropout": 0.1, "input_dropout": 0.0},
    "st-tau": {"num_states": 10, "readout": "cell", "temperature": 5.0, "peephole": True},
}


def cells(plan: Plan) -> Iterator[Cell]:
    """List all cells of a plan: the baselines, then seed by seed."""
    for setting in ("hour", "day", "paths"):
        shared = plan.reads(setting)
        hours = {"starts": plan.starts} if setting == "paths" else {}
        for name, lag in (("persistence", 1), ("seasonal, 24 h", 24), ("seasonal, 168 h", 168)):
            yield Cell(EXPERIMENT, "household_power", name, 0, {**shared, **hours, "lag": lag}, VERSION)
        if setting != "paths":
            yield Cell(EXPERIMENT, "household_power", "boosted trees", 0, shared | {"trees": plan.trees}, VERSION)
    for seed in range(plan.seeds):
        for setting in SETTINGS:
            for method, made in _makes(setting):
                settings = {
                    **plan.reads(setting),
                    "hidden_size": plan.hidden_size,
                    "made": made,
                    "updates": plan.updates[setting],
                    "batch_size": _BATCH[setting],
                    "learning_rate": _RATE[setting],
                    "samples": plan.samples,
                }
                if setting == "paths":
                    settings |= {"starts": plan.starts, "paths": plan.paths}
                yield Cell(EXPERIMENT, "household_power", method, seed, settings, VERSION)


def _makes(setting: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The networks of a setting, each with what it is made with."""
    reads = SETTINGS[setting]
    for method in METHODS if setting != "paths" else ("lstm", "st-tau"):
        if method == _EXACT and reads["head"] != "distribution":
            continue
        made = METHODS[method] | (_LONGER.get(method, {}) if reads["history"] > 1 else {})
        if reads["head"] == "distribution":
            made = made | _WITH_VARIANCE.get(method, {})
        yield method, made
        if method == "st-tau" and setting == "hour":
            yield method, made | {"paths": 1}


def name_of(result: Cell | Result) -> str:
    """The method, and what distinguishes it from others of that name."""
    made = result.settings.get("made", {})
    alone = result.method == "st-tau" and result.settings["head"] == "distribution" and made.get("paths", 1) == 1
    return f"{result.method}, one path" if alone else result.method
