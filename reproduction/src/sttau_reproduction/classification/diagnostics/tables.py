"""Tables of the diagnostics."""

from __future__ import annotations

from sttau_reproduction.classification.declaration import Column, Table
from sttau_reproduction.classification.diagnostics.samples import NUMBERS
from sttau_reproduction.classification.networks import declared

FINITE = (
    "state-regularized", "st-tau-classes", "st-tau-classes-plain", "st-tau-10", "st-tau-10-plain", "st-tau-100",
    "st-tau-best", "st-tau-64", "automaton", "automaton-memory", "automata", "automata-memory", "automata-distilled",
)  # fmt: skip
COMPARED = (
    "lstm", "dropout-tuned", "state-regularized", "st-tau-10", "st-tau-best", "st-tau-64", "lstm-best", "dropout-paths",
    "dropout-best", "laplace", "sp-gru", "lstm-patches", "laplace-patches", "sp-gru-patches",
    "automaton", "automaton-memory", "automata", "automata-memory", "automata-distilled",
)  # fmt: skip
SAMPLED = (
    "bayes-tuned", "dropout-tuned", "st-tau-10", "st-tau-best", "st-tau-64", "dropout-best", "sp-gru", "sp-gru-patches",
)  # fmt: skip
#: Corruptions by data set, in order, and their names in tables and figures.
CORRUPTIONS = {
    "bih": {"noise": "noise", "dropped": "dropped samples", "lead_off": "lead off", "classes": "class frequencies"},
    "imdb": {"typos": "typos", "deleted": "deleted words", "classes": "class frequencies"},
}
METRICS = {"pe": ("PE %", 2), "nll": ("NLL", 3), "ece": ("ECE %", 2)}
_SEVERITIES = (3, 5)
_SHORT = {"bih": "heartbeats", "imdb": "reviews"}


def _mode(mode: str) -> tuple[Column, ...]:
    return (
        Column(f"{mode}_pe", f"{mode}: PE %", 2, None),
        Column(f"{mode}_agreement", f"{mode}: agreement %", 2, None),
        Column(f"{mode}_distance", f"{mode}: distance", 4, None),
    )


def _corruption(data: str, metric: str) -> Table:
    name, digits = METRICS[metric]
    columns = [
        Column(f"{kind}_{severity}_{metric}", f"{title}, {severity}", digits)
        for kind, title in CORRUPTIONS[data].items()
        for severity in _SEVERITIES
    ]
    return Table(
        name=f"corrupted-{data}-{metric}",
        title=f"Corrupted input, {_SHORT[data]}: {name}",
        networks={data: declared(data, COMPARED)},
        columns=(Column(f"clean_0_{metric}", "as it is", digits), *columns),
    )


TABLES = (
    Table(
        name="finiteness",
        title="How finite each network is",
        networks={data: declared(data, FINITE) for data in ("bih", "imdb")},
        columns=(
            Column("states", "states", 0, None),
            Column("states_per_step", "per step", 2, None),
            Column("states_in_all", "in use", 2, None),
            Column("states_largest", "largest share", 3, None),
            Column("tau", "τ", 2, None),
            Column("total", "total, bits", 4, None),
            Column("aleatoric", "aleatoric, bits", 4, None),
            Column("epistemic", "epistemic, bits", 4, None),
        ),
    ),
    Table(
        name="modes",
        title="Inference modes",
        networks={data: declared(data, FINITE) for data in ("bih", "imdb")},
        columns=(*_mode("soft"), *_mode("hard"), *_mode("exact")),
    ),
    *(_corruption(data, metric) for data in CORRUPTIONS for metric in METRICS),
    *(
        Table(
            name=f"samples-{key}",
            title=f"Number of samples: {title}",
            networks={data: declared(data, SAMPLED) for data in ("bih", "imdb")},
            columns=tuple(
                Column(f"samples_{number}_{key}", str(number), digits, None)
                for number in NUMBERS
                if key != "corrected" or number > 1
            ),
        )
        for key, title, digits in (
            ("nll", "NLL", 4),
            ("ece", "ECE %", 2),
            ("information", "mutual information, bits", 4),
            ("corrected", "mutual information, corrected for the number of samples, bits", 4),
        )
    ),
    Table(
        name="patients",
        title="Intervals over patients and over single heartbeats",
        networks={"bih": declared("bih", COMPARED), "bih_inter_patient": declared("bih_inter_patient", COMPARED)},
        columns=tuple(
            column
            for metric, (name, digits) in METRICS.items()
            for column in (
                Column(metric, f"{name}, first seed", digits, None),
                Column(f"beat_{metric}", f"{name}, over beats", digits, interval="alone"),
                Column(f"patient_{metric}", f"{name}, over patients", digits, interval="alone"),
            )
        ),
    ),
)
