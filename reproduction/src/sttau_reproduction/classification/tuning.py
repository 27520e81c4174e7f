"""What was tried of the paper's grids, with a part of the updates: validation alone, no test number is shown."""

from __future__ import annotations

from sttau_reproduction.classification.declaration import Column, Table
from sttau_reproduction.classification.networks import TRIED

TABLES = (
    Table(
        name="tuning",
        title="Rates and priors that were tried",
        networks={"bih": TRIED, "imdb": TRIED},
        columns=(
            Column("validation_pe", "validation error %", 2),
            Column("validation_nll", "validation NLL", 3),
            Column("validation_ece", "validation ECE %", 2),
            Column("best_update", "update", 0, None),
        ),
    ),
)
