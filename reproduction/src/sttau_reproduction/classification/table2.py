"""Table 2: detection of reviews that are not of IMDB. One table per OOD score."""

from __future__ import annotations

from sttau_reproduction.classification.declaration import Column, Table, rows
from sttau_reproduction.classification.networks import declared

OOD = {"customer": "Customer", "movie": "Movie"}
SCORES = {
    "max_probability": "max. probability",
    "variance": "variance of the max. probability",
    "entropy": "entropy",
    "mutual_information": "mutual information",
    "feature_distance": "distance of features",
}
DRAWING = (  # networks with several samples, which have a variance
    "ensemble", "bayes", "bayes-tuned", "dropout", "dropout-tuned", "st-tau-classes", "st-tau-classes-plain",
    "st-tau-10", "st-tau-10-plain", "st-tau-100", "st-tau-best", "st-tau-ensemble", "lstm-best-ensemble", "laplace",
    "sp-gru", "automata", "automata-memory", "automata-distilled",
)  # fmt: skip
ALL = (
    "lstm", "ensemble", "bayes", "bayes-tuned", "dropout", "dropout-tuned", "state-regularized", "st-tau-classes",
    "st-tau-classes-plain", "st-tau-10", "st-tau-10-plain", "st-tau-100", "st-tau-best", "lstm-best",
    "st-tau-ensemble", "lstm-best-ensemble", "laplace", "sp-gru", "automata", "automata-memory", "automata-distilled",
)  # fmt: skip


def columns(score: str) -> tuple[Column, ...]:
    """In-distribution accuracy, AUPR, AUROC and false positive rate at 95 %, for both OOD data sets."""
    return tuple(
        column
        for out, title in OOD.items()
        for column in (
            Column(f"{out}_accuracy", f"{title}: accuracy %", 1, "max"),
            Column(f"{out}_{score}_aupr", f"{title}: O-AUPR %", 1, "max"),
            Column(f"{out}_{score}_auroc", f"{title}: O-AUROC %", 1, "max"),
            Column(f"{out}_{score}_fpr95", f"{title}: FPR95 %", 1),
        )
    )


def _paper(score: str, numbers: dict[str, tuple[float, ...]]) -> dict[str, dict[str, dict[str, float]]]:
    """The paper has no false-positive rates."""
    return {"imdb": rows(tuple(c for c in columns(score) if not c.key.endswith("fpr95")), numbers)}


_PAPER = {
    "max_probability": _paper(
        "max_probability",
        {
            "lstm": (87.9, 72.5, 77.3, 88.1, 66.7, 71.6),
            "dropout": (88.5, 74.8, 80.6, 87.5, 69.3, 74.7),
            "bayes": (87.6, 67.4, 72.0, 87.6, 67.1, 71.9),
            "st-tau-10": (88.3, 80.1, 84.5, 88.1, 75.1, 81.0),
            "ensemble": (88.6, 78.9, 84.4, 88.3, 74.5, 79.6),
        },
    ),
    "variance": _paper(
        "variance",
        {
            "dropout": (88.5, 67.8, 76.5, 87.5, 63.8, 71.8),
            "bayes": (87.6, 76.0, 75.4, 87.6, 76.8, 75.6),
            "st-tau-100": (86.5, 78.9, 82.8, 85.9, 74.0, 78.7),
            "st-tau-10": (88.3, 65.0, 76.5, 88.1, 64.1, 75.1),
            "ensemble": (88.6, 79.7, 84.0, 88.3, 75.8, 79.9),
        },
    ),
}

#: With whichever score is best for it.
GOALS = {("customer", "aupr"): 85, ("customer", "auroc"): 88, ("movie", "aupr"): 80, ("movie", "auroc"): 85}

TABLES = tuple(
    Table(
        name=f"table2-{score.replace('_', '-')}",
        title=f"Out-of-distribution detection by {title}",
        networks={"imdb": declared("imdb", DRAWING if score in ("variance", "mutual_information") else ALL)},
        columns=columns(score),
        paper=_PAPER.get(score, {}),
        goals={"imdb": {f"{out}_{score}_{area}": goal for (out, area), goal in GOALS.items()}},
    )
    for score, title in SCORES.items()
)
