"""Table 3: Table 1 after temperature scaling, which is fitted on validation data."""

from __future__ import annotations

from sttau_reproduction.classification import table1
from sttau_reproduction.classification.declaration import Column, Table, rows

COLUMNS = tuple(Column(f"scaled_{column.key}", column.title, column.digits) for column in table1.COLUMNS)

TABLES = (
    Table(
        name="table3",
        title="Prediction and calibration errors after temperature scaling",
        networks=table1.NETWORKS,
        columns=(*COLUMNS, Column("scaling_temperature", "temperature", 2, None)),
        paper={
            "bih": rows(
                COLUMNS,
                {
                    "lstm": (1.40, 0.30, 13.02),
                    "ensemble": (1.51, 0.22, 21.90),
                    "bayes": (4.69, 0.36, 10.43),
                    "dropout": (1.51, 0.27, 23.60),
                    "st-tau-classes": (2.12, 0.45, 15.38),
                },
            ),
            "imdb": rows(
                COLUMNS,
                {
                    "lstm": (10.42, 1.19, 5.82),
                    "ensemble": (10.56, 1.26, 5.87),
                    "bayes": (10.84, 0.63, 2.69),
                    "dropout": (10.56, 2.34, 10.86),
                    "st-tau-classes": (10.95, 1.00, 3.84),
                },
            ),
        },
        goals=rows(COLUMNS, {"bih": (1.40, 0.22, 10.43), "imdb": (10.42, 0.63, 2.69)}),
    ),
)
