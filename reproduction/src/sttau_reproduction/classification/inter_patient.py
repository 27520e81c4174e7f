"""Table 1 again, on heartbeats of patients without training data: not in the paper."""

from __future__ import annotations

from sttau_reproduction.classification import table1
from sttau_reproduction.classification.declaration import Column, Table
from sttau_reproduction.classification.networks import declared

TABLES = (
    Table(
        name="inter-patient",
        title="Heartbeats of other patients",
        networks={"bih_inter_patient": declared("bih_inter_patient", table1.COMPARED)},
        columns=(
            *table1.COLUMNS,
            Column("nll", "NLL", 3),
            Column("scaled_ece", "ECE %, scaled", 2),
            Column("aurc", "AURC %", 2),
        ),
    ),
)
