"""Our own configuration on reviews with one change at a time, compared with LSTMs."""

from __future__ import annotations

from sttau_reproduction.classification import table1, variants
from sttau_reproduction.classification.declaration import Column, Table

TABLES = (
    Table(
        name="ablation-best",
        title="One change at a time",
        networks={"imdb": ("st-tau-best", *variants.ABLATION, "lstm-best", "dropout-best", "dropout-paths")},
        columns=(
            *table1.COLUMNS,
            Column("nll", "NLL", 4),
            Column("scaling_temperature", "optimal temperature", 2, None),
            Column("tau", "τ", 1, None),
            Column("best_update", "update", 0, None),
        ),
    ),
)
