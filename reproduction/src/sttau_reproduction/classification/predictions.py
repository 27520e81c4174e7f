"""Predictions of each network's first seed: the full files, and the summary of them that tables and figures need.

A run writes full predictions to ``predictions/``, which are large and not committed (but for two networks, from which
tests compute the metrics anew; :func:`shorten_predictions` makes those files small). :func:`write_summaries` derives
``summary.npz`` from them.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from sttau.files import write_atomically
from sttau.metrics import (
    ReliabilityCurve,
    calibration_error,
    calibration_error_by_chance,
    reliability_curve,
    risk_coverage_curve,
)
from sttau_reproduction.classification.networks import NETWORKS

Array = NDArray[Any]
Arrays = dict[str, Array]

_NORMS: tuple[Literal["expected", "maximum"], ...] = ("expected", "maximum")
_RISKS = 334  # points of a risk–coverage curve
_TRACE = 250  # points of τ over training
_BAND = (0.1, 0.9)  # quantiles of samples
_RESOLUTION = 2**24  # of committed probabilities: that of float32 from 0.5 to 1, so confidences keep their order


@dataclass(frozen=True)
class Summary:
    """What tables and figures need of the predictions of one network.

    Attributes:
        cell: Key of the cell that made the predictions; empty where it is not known.
        classes: Number of classes.
        sequences: Number of test sequences.
        packed: Bits that tell which predictions are wrong, as ``numpy.packbits`` gives them.
        calibration: (2,) ECE and MCE, as fractions.
        chance: (2, 3) mean, low and high end of ECE and MCE of a calibrated network with the same probabilities.
        bins: (4, bins + 1) edges, confidence, accuracy and count of the reliability diagram; the last column of the
            latter three is not used.
        risk: Risk at evenly spaced coverages, from the smallest to 1.
        area: Area under the whole risk–coverage curve.
        tau: (points, 2) update and τ in the course of training; empty without a τ.
        reading: (3, examples, time, classes) mean, low and high quantile over samples of probabilities after every
            step of a few sequences; empty where they were not kept.
        reading_rows: Rows of those sequences in the test data; empty for texts.
        reading_labels: Labels of those rows.
        reading_words: (examples, time) words of texts.
    """

    cell: Array
    classes: Array
    sequences: Array
    packed: Array
    calibration: Array
    chance: Array
    bins: Array
    risk: Array
    area: Array
    tau: Array
    reading: Array
    reading_rows: Array
    reading_labels: Array
    reading_words: Array

    @property
    def wrong(self) -> Array:
        """(sequences,) 1 for a wrong prediction, 0 for a right one."""
        return np.unpackbits(self.packed, count=int(self.sequences)).astype(float)

    @property
    def coverage(self) -> Array:
        """Coverages at which :attr:`risk` is known."""
        return (_places(int(self.sequences)) + 1) / int(self.sequences)

    @property
    def reliability(self) -> ReliabilityCurve:
        """The reliability diagram."""
        edges, confidence, accuracy, count = torch.from_numpy(self.bins)
        return ReliabilityCurve(edges, confidence[:-1], accuracy[:-1], count[:-1].long())


#: Summaries by data set and network.
Summaries = Mapping[tuple[str, str], Summary]


def reduce_predictions(arrays: Mapping[str, Array]) -> Summary:
    """Reduce the full predictions of a network to what tables and figures need.

    Args:
        arrays: Content of a prediction file.

    Example:
        >>> p = np.array([[0.9, 0.1], [0.8, 0.2]], np.float32)
        >>> summary = reduce_predictions({"probabilities": p, "labels": np.array([0, 1])})
        >>> summary.wrong.tolist(), int(summary.classes)
        ([0.0, 1.0], 2)
    """
    p, labels = arrays["probabilities"], arrays["labels"]
    wrong = p.argmax(1) != labels
    curve = reliability_curve(p, labels)
    short = [np.append(part.double().numpy(), np.nan) for part in (curve.confidence, curve.accuracy, curve.count)]
    risks = risk_coverage_curve(1 - p.max(1), wrong.astype(float))
    chance = calibration_error_by_chance(p)
    trace = arrays.get("tau", np.empty((0, 2), np.float32))
    samples, rows = arrays.get("reading"), arrays.get("reading_rows", np.empty(0, np.int32))
    return Summary(
        cell=arrays.get("cell", np.array("")),
        classes=np.array(p.shape[1]),
        sequences=np.array(len(p)),
        packed=np.packbits(wrong),
        calibration=np.array([calibration_error(p, labels, norm=norm) for norm in _NORMS]),
        chance=np.array([(chance[norm].value, chance[norm].low, chance[norm].high) for norm in _NORMS]),
        bins=np.array([curve.edges.double().numpy(), *short]),
        risk=risks.risk.numpy()[_places(len(p))].astype(np.float32),
        area=np.array(risks.area),
        tau=trace[_spread(len(trace), _TRACE)],
        reading=np.empty((3, 0, 0, 0), np.float32) if samples is None else _band(samples),
        reading_rows=rows,
        reading_labels=labels[rows],
        reading_words=arrays.get("reading_words", np.empty((0, 0), np.str_)),
    )


def write_summaries(folder: Path) -> Path:
    """Write ``summary.npz``: of networks with a prediction file what follows from it, of others what it has already.

    Args:
        folder: Folder with ``predictions/``.
    """
    known = dict(read_summaries(folder))
    found = {}
    for network in NETWORKS:
        name = (network.data, network.name)
        arrays = read_predictions(folder / "predictions", *name)
        if arrays and not _same(arrays, known.get(name)):
            known[name] = reduce_predictions(arrays)
        if name in known:
            found[name] = known[name]
    return write_summary(found, folder)


def write_summary(found: Summaries, folder: Path) -> Path:
    """Write summaries as ``summary.npz``, in the order given."""
    content = {"networks": np.array(["/".join(name) for name in found])}
    for field in fields(Summary):
        parts = [getattr(summary, field.name) for summary in found.values()]
        if parts:
            content[field.name] = np.concatenate([part.ravel() for part in parts])
            content[f"{field.name}_shape"] = np.array([part.shape for part in parts], np.int32)
    return write_arrays(content, summary_path(folder))


def read_summaries(folder: Path) -> Summaries:
    """Read ``summary.npz``; nothing where there is none.

    Example:
        >>> read_summaries(Path("nowhere"))
        {}
    """
    path = summary_path(folder)
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as file:
        arrays = dict(file)
    if not arrays["networks"].size:
        return {}
    parts = {field.name: _split(arrays[field.name], arrays[f"{field.name}_shape"]) for field in fields(Summary)}
    return {
        (data, network): Summary(**{name: values[number] for name, values in parts.items()})
        for number, (data, network) in enumerate(name.split("/") for name in arrays["networks"].tolist())
    }


def shorten_predictions(path: Path) -> Path:
    """Shorten a prediction file for the repository: test data alone, probabilities to 2^-24.

    The summary of its network is then to be computed from it again, by :func:`write_summaries`.
    """
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file if not name.startswith("validation_")}
    for name, values in arrays.items():
        if values.dtype == np.float32 and name != "tau":
            arrays[name] = (np.round(values.astype(float) * _RESOLUTION) / _RESOLUTION).astype(np.float32)
    return write_arrays(arrays, path)


def summary_path(folder: Path) -> Path:
    """Path of the summaries of a folder."""
    return folder / "summary.npz"


def predictions_path(folder: Path, data: str, network: str) -> Path:
    """Path of the predictions of a network's first seed.

    Example:
        >>> predictions_path(Path("predictions"), "bih", "lstm").name
        'bih-lstm.npz'
    """
    return folder / f"{data}-{network}.npz"


def read_predictions(folder: Path, data: str, network: str) -> Arrays:
    """Read a prediction file; nothing where there is none.

    Example:
        >>> read_predictions(Path("nowhere"), "bih", "lstm")
        {}
    """
    path = predictions_path(folder, data, network)
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def write_arrays(arrays: Mapping[str, Array], path: Path) -> Path:
    """Write arrays as one ``.npz`` file, in one step; LZMA makes it smaller than ``numpy.savez_compressed`` does."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, np.asanyarray(values), allow_pickle=False)
    return write_atomically(path, buffer.getvalue())


def _same(arrays: Mapping[str, Array], summary: Summary | None) -> bool:
    """Whether a summary is of these predictions already."""
    return summary is not None and "cell" in arrays and str(arrays["cell"]) == str(summary.cell)


def _split(values: Array, shapes: Array) -> list[Array]:
    """Undo the concatenation of arrays of these shapes."""
    ends = np.cumsum(shapes.prod(1, dtype=int))
    return [part.reshape(shape) for part, shape in zip(np.split(values, ends[:-1]), shapes.tolist(), strict=True)]


def _places(sequences: int) -> Array:
    return _spread(sequences, _RISKS)


def _spread(size: int, count: int) -> Array:
    """At most so many of the places 0 … size - 1, evenly spread, first and last among them."""
    return np.unique(np.linspace(0, size - 1, min(count, size)).round().astype(int))


def _band(samples: Array) -> Array:
    """Mean and quantiles over the first dimension."""
    return np.stack([samples.mean(0), *np.quantile(samples, _BAND, axis=0)]).astype(np.float32)
