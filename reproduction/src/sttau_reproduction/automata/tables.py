"""Tables of the experiment on automata, in Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from sttau.jobs import Result
from sttau.tables import markdown_table
from sttau_reproduction.automata.declaration import MODES
from sttau_reproduction.automata.languages import cramer_rao

_NETWORKS = {"st-tau gru": "ST-τ", "gru": "`nn.GRU`"}
_READERS = {"st-tau": "ours", "k-means": "k-means", "l-star": "L*"}

EXTRACTION = (
    "grammar",
    "network",
    "read by",
    "proved equal",
    "states",
    "seconds",
    "longest",
    "wrong: automaton",
    "wrong: network",
)
ATTEMPTS = ("grammar", "exact, whole set", "exact, batches", "soft", "hard")
LANGUAGES = (
    "language",
    "labels per string",
    "learned by",
    "seeds",
    "sup, median",
    "sup, largest",
    "sup beyond training",
    "mean",
    'p("0")',
    "states",
    "seconds",
)


def extraction_table(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Rows under ``EXTRACTION``: what was read out of networks that learned Tomita grammars, over seeds."""
    results = [result for result in results if result.data.startswith("tomita")]
    plain = {(r.data, r.seed): r for r in results if r.method == "gru"}
    groups: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for result in results:
        if result.method in _READERS:
            groups[result.data, result.settings["network"], result.method].append(result)
    ours = {(r.data, r.seed): r for r in results if r.method == "st-tau"}
    rows: list[tuple[str, ...]] = []
    for (data, network, method), cells in sorted(groups.items(), key=_order):
        nets = ours if network == "st-tau gru" else plain
        wrong = [nets[data, cell.seed].metrics["network_wrong"] for cell in cells]
        rows.append(
            (
                data.removeprefix("tomita"),
                _NETWORKS[network],
                _READERS[method],
                f"{sum(cell.metrics['equal'] for cell in cells):.0f} of {len(cells)}",
                _span([cell.metrics["dfa_states"] for cell in cells]),
                f"{median(cell.seconds for cell in cells):.1f}",
                f"{max(cell.seconds for cell in cells):.1f}",
                f"{sum(cell.metrics['wrong'] for cell in cells):.0f}",
                f"{sum(wrong):.0f}",
            )
        )
    return rows


def _order(entry: tuple[tuple[str, str, str], list[Result]]) -> tuple[str, int, int]:
    data, network, method = entry[0]
    return data, list(_NETWORKS).index(network), list(_READERS).index(method)


def attempts_table(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Rows under ``ATTEMPTS``: how often a single start gave the right automaton, and how long it took."""
    groups: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        if result.method == "one attempt":
            groups[result.data][result.settings["mode"]].append(result)
    rows = [(data.removeprefix("tomita"), *(_share(groups[data][mode]) for mode in MODES)) for data in sorted(groups)]
    every = [[cell for modes in groups.values() for cell in modes[mode]] for mode in MODES]
    return [*rows, ("all", *map(_share, every))]


DRAWN = ("states", "proved equal", "seconds", "longest", "attempts")


def drawn_table(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Rows under ``DRAWN``: languages drawn at random, by the size of their DFA."""
    sizes: dict[str, list[Result]] = {}
    for result in results:
        if result.data.startswith("random"):
            sizes.setdefault(result.data.removeprefix("random"), []).append(result)
    return [
        (
            size,
            f"{sum(int(r.metrics['equal']) for r in found)} of {len(found)}",
            f"{median(r.seconds for r in found):.1f}",
            f"{max(r.seconds for r in found):.1f}",
            _span([r.metrics["attempts"] for r in found]),
        )
        for size, found in sorted(sizes.items())
    ]


def _share(cells: Sequence[Result]) -> str:
    equal = sum(cell.metrics["equal"] for cell in cells)
    return f"{equal:.0f} of {len(cells)}, {median(cell.seconds for cell in cells):.1f} s"


def languages_table(results: Iterable[Result]) -> list[tuple[str, ...]]:
    """Rows under ``LANGUAGES``: distances to the true PA over strings of 1 to 15 symbols, and what the labels allow."""
    groups: dict[tuple[str, int], dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        if result.data.startswith("stochastic"):
            name = result.method
            if name.startswith("st-tau"):
                name = name.replace("st-tau", "ours") + f", k = {result.states}"
            groups[result.data, result.settings["copies"]][name].append(result)
    rows: list[tuple[str, ...]] = []
    for (data, copies), methods in sorted(groups.items()):
        number = int(data.removeprefix("stochastic"))
        for name, cells in methods.items():
            metrics = [cell.metrics for cell in cells]
            sups = [m["sup"] for m in metrics]
            rows.append(
                (
                    f"PA-{number}",
                    str(copies),
                    name,
                    str(len(cells)),
                    f"{median(sups):.4f}",
                    f"{max(sups):.4f}",
                    f"{max(m['sup_beyond_training'] for m in metrics):.4f}",
                    f"{median(m['mean_gap'] for m in metrics):.4f}",
                    _span([m["p_0"] for m in metrics], digits=3),
                    _span([m["pa_states"] for m in metrics]),
                    f"{median(cell.seconds for cell in cells):.1f}",
                )
            )
        bound = cramer_rao(number, copies)
        rows.append(
            (
                f"PA-{number}",
                str(copies),
                "*what labels allow*",
                "",
                f"{bound['sup']:.4f}",
                "",
                "",
                "",
                f"± {bound['p_0']:.3f}",
                "",
                "",
            )
        )
    return rows


def _span(values: Sequence[float], digits: int = 0) -> str:
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low}–{high}"


def tables(results: Sequence[Result]) -> dict[str, str]:
    """All tables as Markdown, by name."""
    return {
        "extraction": markdown_table(extraction_table(results), EXTRACTION),
        "attempts": markdown_table(attempts_table(results), ATTEMPTS),
        "drawn": markdown_table(drawn_table(results), DRAWN),
        "languages": markdown_table(languages_table(results), LANGUAGES),
    }
