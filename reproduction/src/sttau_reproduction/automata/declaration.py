"""The experiment on automata: which measurements there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from sttau.jobs import Cell

EXPERIMENT = "automata"
#: Version of the code behind the results; to be raised with any change that gives other values.
VERSION = 1
MODES = ("exact", "exact, batches", "soft", "straight_through")


@dataclass(frozen=True)
class Plan:
    """Which cells there are."""

    grammars: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7)
    seeds: int = 10
    baseline_seeds: int = 3  # of k-means and L*, on our networks and on plain GRUs
    mode_seeds: int = 3
    mode_updates: int = 1000
    drawn_states: tuple[int, ...] = (3, 4, 5, 6)  # of DFAs drawn at random, on which nothing was tried out
    drawn: int = 5  # of each size
    languages: tuple[int, ...] = (1, 2)
    language_states: tuple[int, ...] = (4, 6)
    language_seeds: int = 5
    halves_seeds: int = 2  # with fixed labels
    copies: tuple[int, ...] = (10, 1000)  # labels of each string; the paper has ten


QUICK = Plan(
    grammars=(1, 4), seeds=1, baseline_seeds=1, mode_seeds=1, mode_updates=100, languages=(1,), language_states=(4,),
    language_seeds=1, copies=(10,), halves_seeds=0, drawn_states=(3,), drawn=1,
)  # fmt: skip


def cells(plan: Plan) -> Iterator[Cell]:
    """List all cells of a plan, those on one network after each other.

    ``settings["states"]`` is the number of states of the layer, or None; it is a field of its own in a result.

    Example:
        >>> [(cell.data, cell.method, cell.settings["states"]) for cell in cells(QUICK)][:2]
        [('tomita1', 'st-tau', 10), ('tomita1', 'k-means', None)]
    """
    learned = {"network": "st-tau gru", "hidden_size": 32, "mode": "exact"}
    plain = {"network": "gru", "hidden_size": 32}
    for grammar, seed in product(plan.grammars, range(plan.seeds)):
        yield _cell(f"tomita{grammar}", "st-tau", 10, seed, learned)
        for method in ("k-means", "l-star") if seed < plan.baseline_seeds else ():
            yield _cell(f"tomita{grammar}", method, None, seed, learned)
    for grammar in plan.grammars:
        for seed, mode in product(range(plan.mode_seeds), MODES):
            settings = {"network": "st-tau gru", "updates": plan.mode_updates, "mode": mode, "attempts": 1}
            yield _cell(f"tomita{grammar}", "one attempt", 10, seed, settings)
        for seed, method in product(range(plan.baseline_seeds), ("gru", "k-means", "l-star")):
            yield _cell(f"tomita{grammar}", method, None, seed, plain)
    for states, seed in product(plan.drawn_states, range(plan.drawn)):
        yield _cell(f"random{states}", "st-tau", 12, seed, learned)
    for copies, number in product(plan.copies, plan.languages):
        name = f"stochastic{number}"
        slow = number == 2 and copies > 10  # minutes per network: two of the smallest size are enough
        sizes = plan.language_states[:1] if slow else plan.language_states
        seeds = min(2, plan.language_seeds) if slow else plan.language_seeds
        for states, seed in product(sizes, range(seeds)):
            yield _cell(name, "st-tau", states, seed, {"copies": copies, "hidden_size": 32})
        for states, seed in product(sizes, range(0 if slow else plan.halves_seeds)):
            yield _cell(name, "st-tau, halves", states, seed, {"copies": copies, "hidden_size": 32, "head": "halves"})
        if copies == 10:  # more would be millions of traces
            yield _cell(name, "alergia", None, 0, {"copies": copies})
        yield _cell(name, "spectral", number + 1, 0, {"copies": copies})


def _cell(data: str, method: str, states: int | None, seed: int, settings: dict[str, Any]) -> Cell:
    return Cell(EXPERIMENT, data, method, seed, settings | {"states": states}, VERSION)
