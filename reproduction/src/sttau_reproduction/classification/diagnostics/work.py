"""One cell per network and seed: its network is trained as for the tables, or read if it is there, and diagnosed.

FOLDER/diagnostics.jsonl.gz    one line a cell, and one for the detector that reads lengths alone
FOLDER/cells/, networks/       shared with the tables
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import torch

from sttau.data import SequenceDataset
from sttau.inference import predict
from sttau.jobs import Backend, Cell, Outcome, Result, Step, Store, earlier_results, run_cells, write_results
from sttau.models import Predictor
from sttau_reproduction.classification.cells import SAMPLES, Work
from sttau_reproduction.classification.cells import check_folder as check_results
from sttau_reproduction.classification.declaration import LENGTH
from sttau_reproduction.classification.diagnostics.corruptions import SEVERITIES, corruptions_of
from sttau_reproduction.classification.diagnostics.finiteness import measure_finiteness
from sttau_reproduction.classification.diagnostics.matched import detect_by_length, measure_detection
from sttau_reproduction.classification.diagnostics.samples import measure_samples
from sttau_reproduction.classification.diagnostics.shifts import measure_class_shift, patient_intervals, records_of
from sttau_reproduction.classification.evaluation import draws, measure
from sttau_reproduction.classification.networks import NETWORKS, TRIED, Network, make_quick
from sttau_reproduction.classification.splits import Splits, lengths_of, load_splits, predict_probabilities
from sttau_reproduction.classification.trained import read_network

EXPERIMENT = "diagnostics"
#: Version of the diagnosis; to be raised with any change that gives other metrics for the same weights.
VERSION = 1
#: At most so many test sequences are corrupted, and read with many samples: reviews are long.
MOST = {"imdb": 5000}
_DIGITS = 6  # of committed metrics
_lock = Lock()


def networks_of() -> list[Network]:
    """All networks that can be diagnosed: those that were not only tried, without ensembles."""
    return [network for network in NETWORKS if network.method != "ensemble" and network.name not in TRIED]


def results_path(folder: Path) -> Path:
    """Path of the results of a folder."""
    return folder / "diagnostics.jsonl.gz"


def read_diagnostics(folder: Path) -> list[Result]:
    """Results of a folder; none where there are none.

    Example:
        >>> read_diagnostics(Path("nowhere"))
        []
    """
    return earlier_results(results_path(folder))


def cells_of(networks: Iterable[Network], seeds: int | None = None, quick: bool = False) -> list[Cell]:
    """List the cells of networks, with those seeds that are declared or a given number of them.

    Example:
        >>> from sttau_reproduction.classification.networks import find
        >>> [cell.seed for cell in cells_of([find("bih", "automaton")], seeds=2)]
        [0, 1]
    """
    if seeds is not None and seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    found = []
    for network in map(make_quick, networks) if quick else networks:
        settings: dict[str, Any] = {
            "method": network.method,
            "settings": dict(network.settings),
            "training": dict(network.training),
            "samples": SAMPLES,
            "part": dict(network.part),
        }
        count = network.seeds if seeds is None else seeds
        found += [Cell(EXPERIMENT, network.data, network.name, seed, settings, VERSION) for seed in range(count)]
    return found


@dataclass(frozen=True)
class Diagnosis(Work):
    """Trains networks that are not there yet, and diagnoses each."""

    def evaluate(self, cell: Cell, seconds: float) -> Result:
        """Diagnose a cell whose network is there."""
        began = time.perf_counter()
        settings = cell.settings
        model, _ = read_network(self.folder / "networks", cell, self.device)
        part, samples = settings["part"], settings["samples"]
        splits = load_splits(cell.data, part, self.device)
        metrics = diagnose(model, splits, samples, intervals=cell.seed == 0)
        some = _first(splits.test, MOST.get(cell.data))
        for name, corrupted in _corrupted(cell.data, tuple(sorted(part.items())), self.device).items():
            found = measure(predict_probabilities(model, corrupted, samples).mean(0), some.labels)
            metrics |= {f"{name}_{key}": found[key] for key in ("pe", "nll", "ece")}
        if draws(model):
            metrics |= measure_samples(model, some)
        shown = {name: value for name, value in settings.items() if value != {}}
        states = settings["settings"].get("num_states")
        took = seconds + time.perf_counter() - began
        return Result(EXPERIMENT, cell.data, cell.method, states, cell.seed, _rounded(metrics), shown, took)


def diagnose(model: Predictor, splits: Splits, samples: int, intervals: bool) -> dict[str, float]:
    """All that follows from one prediction of the test data, other readings of it, and OOD texts.

    Args:
        model: Trained network.
        splits: Data of the experiment.
        samples: Monte Carlo samples of a prediction.
        intervals: Whether intervals over examples are wanted.
    """
    test = splits.test
    prediction = predict(model, test.inputs, lengths_of(test), samples, keep_samples=True).cpu()
    p = prediction.mean
    drawn = p[None] if prediction.samples is None else prediction.samples
    found = {name: value for name, value in measure(p, test.labels).items() if name in ("pe", "nll", "ece")}
    for name in ("total", "aleatoric", "epistemic"):
        found[name] = float(getattr(prediction, name).double().mean())
    found |= measure_finiteness(model, test, p, samples)
    found |= measure_class_shift(p, test.labels)
    found |= measure_detection(model, splits, drawn, samples, intervals)
    records = records_of(test.name, test.ids) if intervals else None
    if records is not None and len(records) == len(test):
        found |= patient_intervals(p, test.labels, records)
    return found


def _first(data: SequenceDataset, most: int | None) -> SequenceDataset:
    """At most so many sequences, a seeded choice."""
    if most is None or most >= len(data):
        return data
    return data.select(torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:most].sort().values)


def _corrupted(data: str, part: tuple[tuple[str, int], ...], device: str) -> dict[str, SequenceDataset]:
    with _lock:  # one thread makes them, the others wait
        return _corrupt_once(data, part, device)


@cache
def _corrupt_once(data: str, part: tuple[tuple[str, int], ...], device: str) -> dict[str, SequenceDataset]:
    """The test data under every corruption and severity: the same for all networks; ``clean`` is as it was."""
    test = _first(load_splits(data, dict(part), device).test, MOST.get(data))
    found = {"clean_0": test}
    inputs = test.inputs.cpu()
    for name, corrupt in corruptions_of(test.vocabulary).items():
        for severity in SEVERITIES:
            generator = torch.Generator().manual_seed(severity)
            changed, lengths = corrupt(inputs, test.lengths, severity, generator)
            time = int(lengths.max())
            found[f"{name}_{severity}"] = replace(test, inputs=changed[:, :time].to(device), lengths=lengths)
    if device == "cuda":
        torch.cuda.synchronize()
    return found


def _rounded(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.{_DIGITS}g}") for name, value in metrics.items()}


def length_result(data: str, part: Mapping[str, int]) -> Result | None:
    """What the length alone detects on a data set; None where there is nothing OOD."""
    began = time.perf_counter()
    splits = load_splits(data, part, "cpu")
    if not splits.ood:
        return None
    metrics = _rounded(detect_by_length(splits.test, splits.ood))
    settings: dict[str, Any] = {"method": LENGTH} | ({"part": dict(part)} if part else {})
    return Result(EXPERIMENT, data, LENGTH, None, 0, metrics, settings, time.perf_counter() - began)


def missing_cells(cells: Iterable[Cell], folder: Path) -> list[Cell]:
    """Those that are still to be computed."""
    store = Store(folder / "cells")
    return [cell for cell in cells if store.read(cell) is None]


def check_folder(folder: Path, quick: bool) -> None:
    """Refuse a folder that has results of the other kind: of all data, or of a part of it."""
    check_results(folder, quick, results_path(folder).name)


def run(
    cells: Sequence[Cell],
    folder: Path,
    *,
    on: Backend = "local",
    workers: int = 1,
    device: str = "cpu",
    at_once: int = 16,
    progress: Callable[[Step], None] = lambda _: None,
) -> Outcome:
    """Compute what is missing, and write the results; rows of other networks and seeds stay.

    Args:
        cells: Cells, from :func:`cells_of`.
        folder: Folder for all files.
        on: ``local`` or ``ray``.
        workers: Number of processes on CPUs.
        device: ``cpu`` or ``cuda``.
        at_once: Number of concurrent trainings on a GPU.
        progress: Callback, called with every cell.
    """
    outcome = run_cells(
        cells,
        Diagnosis(folder, device, at_once),
        folder / "cells",
        workers=workers,
        group_by=_data if device == "cuda" else None,
        on=on,
        gpus=1 if device == "cuda" else 0,
        progress=progress,
    )
    parts = {cell.data: cell.settings["part"] for cell in cells}
    lengths = [found for data, part in parts.items() if (found := length_result(data, part)) is not None]
    merge_results([*lengths, *outcome.results], results_path(folder))
    return outcome


def _data(cell: Cell) -> str:
    return cell.data


def merge_results(results: Sequence[Result], path: Path) -> Path:
    """Add results to those of a file, in the place of older ones of the same network and seed.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> rows = [Result("diagnostics", "bih", "lstm", None, 0, {"pe": pe}, {}, 1.0) for pe in (2.0, 1.0)]
        >>> with TemporaryDirectory() as folder:
        ...     for row in rows:
        ...         path = merge_results([row], results_path(Path(folder)))
        ...     print([row.metrics["pe"] for row in read_diagnostics(Path(folder))])
        [1.0]
    """
    every = {(row.data, row.method, row.seed): row for row in (*earlier_results(path), *results)}
    place = {(network.data, network.name): number for number, network in enumerate(NETWORKS)}
    return write_results(
        sorted(every.values(), key=lambda row: (place.get((row.data, row.method), -1), row.data, row.seed)), path
    )
