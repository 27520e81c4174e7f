"""Table 1: errors and calibration errors, nothing done afterwards; more measures of the same, and what it costs."""

from __future__ import annotations

from sttau_reproduction.classification.declaration import Column, Table, rows
from sttau_reproduction.classification.networks import declared

COLUMNS = (Column("pe", "PE %", 2), Column("ece", "ECE %", 2), Column("mce", "MCE %", 2))
#: How finite a network is, from its diagnosis.
FINITE = (
    Column("states_per_step", "how finite: states per step", 1, None),
    Column("hard_agreement", "how finite: hard agreement %", 1, None),
    Column("epistemic", "how finite: epistemic, bits", 4, None),
)
COMPARED = (
    "lstm", "ensemble", "bayes", "bayes-tuned", "dropout", "dropout-tuned", "state-regularized", "st-tau-classes",
    "st-tau-classes-plain", "st-tau-10", "st-tau-10-plain", "st-tau-best", "lstm-best",
    "st-tau-ensemble", "lstm-best-ensemble", "laplace", "sp-gru", "lstm-patches", "laplace-patches", "sp-gru-patches",
    "automaton", "automaton-memory", "automata", "automata-memory", "automata-distilled",
)  # fmt: skip
NETWORKS = {data: declared(data, COMPARED) for data in ("bih", "imdb")}

TABLES = (
    Table(
        name="table1",
        title="Prediction and calibration errors",
        networks=NETWORKS,
        columns=(*COLUMNS, *FINITE),
        paper={
            "bih": rows(
                COLUMNS,
                {
                    "lstm": (1.40, 0.78, 35.51),
                    "ensemble": (1.51, 0.72, 31.49),
                    "bayes": (4.69, 0.54, 12.44),
                    "dropout": (1.51, 0.80, 24.71),
                    "st-tau-classes": (2.12, 0.45, 23.11),
                    "st-tau-10": (2.11, 0.40, 21.73),
                },
            ),
            "imdb": rows(
                COLUMNS,
                {
                    "lstm": (10.42, 3.64, 11.24),
                    "ensemble": (10.56, 3.45, 12.16),
                    "bayes": (10.84, 2.10, 6.15),
                    "dropout": (10.56, 3.41, 14.08),
                    "st-tau-classes": (10.95, 0.89, 3.70),
                    "st-tau-10": (11.16, 3.38, 9.09),
                },
            ),
        },
        goals=rows(COLUMNS, {"bih": (1.40, 0.40, 12.44), "imdb": (10.42, 0.89, 3.70)}),
    ),
    Table(
        name="table1-more",
        title="More measures of the same predictions",
        networks=NETWORKS,
        columns=(
            Column("ece", "ECE %, 95 % interval", 2, interval="alone"),
            Column("ece", "if calibrated", 2, chance=True),
            Column("mce", "MCE %, 95 % interval", 1, interval="alone"),
            Column("mce", "if calibrated", 1, chance=True),
            Column("adaptive_ece", "adaptive ECE %", 2),
            Column("classwise_ece", "classwise ECE %", 2),
            Column("brier", "Brier", 4),
            Column("nll", "NLL", 4),
            Column("aurc", "AURC %", 3),
        ),
    ),
    Table(
        name="table1-cost",
        title="What it costs",
        networks=NETWORKS,
        columns=(
            Column("parameters", "parameters", 0, None),
            Column("updates", "updates", 0, None),
            Column("train_seconds", "training, s", 0, None),
            Column("predict_seconds", "1,000 predictions, s", 3, None),
        ),
    ),
)
