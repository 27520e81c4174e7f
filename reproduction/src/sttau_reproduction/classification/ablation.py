"""The ablation: how many states, and τ learned or fixed at 1, evaluated by OOD detection."""

from __future__ import annotations

from sttau_reproduction.classification.declaration import Table
from sttau_reproduction.classification.table2 import columns

LEARNED = {2: "st-tau-classes", 10: "st-tau-10", 20: "st-tau-20-learned", 50: "st-tau-50-learned"}
FIXED = {states: f"st-tau-{states}-fixed" for states in LEARNED}

TABLES = (
    Table(
        name="ablation",
        title="Number of states, τ learned or fixed",
        networks={"imdb": (*LEARNED.values(), *FIXED.values())},
        columns=columns("max_probability"),
    ),
)
