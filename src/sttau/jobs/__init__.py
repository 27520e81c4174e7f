"""Experiments in cells, each computed once, in local processes or on a Ray cluster, and their results as JSON lines."""

from sttau.jobs.cell import Cell, Work, per_cell
from sttau.jobs.results import Result, earlier_results, hardware, read_results, versions, write_results
from sttau.jobs.runner import Backend, Outcome, Step, run_cells
from sttau.jobs.store import Store

__all__ = [
    "Backend",
    "Cell",
    "Outcome",
    "Result",
    "Step",
    "Store",
    "Work",
    "earlier_results",
    "hardware",
    "per_cell",
    "read_results",
    "run_cells",
    "versions",
    "write_results",
]
