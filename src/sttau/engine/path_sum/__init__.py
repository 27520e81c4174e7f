"""The path sum: the exact distribution of the state of a GRU form, over all paths through the states."""

from sttau.engine.path_sum.operator import (
    distinct,
    first_and_matrices,
    look_up,
    state_distribution,
    transition_matrices,
    transition_rows,
)
from sttau.engine.path_sum.reference import cumulative_products, hold_beyond, outcome_given_state

__all__ = [
    "cumulative_products",
    "distinct",
    "first_and_matrices",
    "hold_beyond",
    "look_up",
    "outcome_given_state",
    "state_distribution",
    "transition_matrices",
    "transition_rows",
]
