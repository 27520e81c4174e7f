"""Trained networks, kept as files: each is trained once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from sttau.files import write_atomically
from sttau.jobs import Cell
from sttau.methods import DataSpec, build
from sttau.metrics import negative_log_likelihood, prediction_error
from sttau.models import DeepEnsemble, Predictor, load
from sttau.training import FitJob, TrainOptions, Update, fit_many, read_log
from sttau_reproduction.classification.augmentation import KEY as PARTS
from sttau_reproduction.classification.augmentation import training_data
from sttau_reproduction.classification.distillation import KEY as TEACHER
from sttau_reproduction.classification.distillation import soft_labels, teachers_of
from sttau_reproduction.classification.splits import lengths_of, load_splits, predict_probabilities

#: Of everything a trained network depends on; to be raised with any change that gives other weights.
VERSION = 1

_RARELY = 5000  # updates between checkpoints on a GPU, where many networks are trained at once and fast
_POINTS = 1000  # of the training that are kept


def trainings_of(cell: Cell) -> list[Cell]:
    """The networks that a cell needs, each named by all that its weights depend on: one, or the members of an ensemble.

    Example:
        >>> made = {"cell": "lstm", "hidden_size": 8, "size": 2}
        >>> settings = {"method": "ensemble", "settings": made, "training": {}, "part": {}}
        >>> needed = trainings_of(Cell("paper", "bih", "ensemble", 0, settings))
        >>> [(training.method, training.seed) for training in needed]
        [('lstm', 0), ('lstm', 1)]
    """
    settings = dict(cell.settings["settings"])
    method, size = cell.settings["method"], None
    if method == "ensemble":  # members are trained alone; those of other methods with several are trained together
        size = settings.pop("size")
        method = settings.pop("member", settings["cell"])  # plain methods are named as their cells
        if "member_size" in settings:  # the number of networks that are one member
            settings["size"] = settings.pop("member_size")
    depends = {"settings": settings, "training": cell.settings["training"], "part": cell.settings["part"]}
    seeds = [cell.seed] if size is None else range(size)
    return [Cell("network", cell.data, method, seed, depends, VERSION) for seed in seeds]


def network_path(folder: Path, training: Cell) -> Path:
    """Path of a trained network; its log lies next to it, its checkpoints in a folder of the same name."""
    return folder / f"{training.key}.safetensors"


def read_network(folder: Path, cell: Cell, device: str) -> tuple[Predictor, list[Update]]:
    """The network of a cell, trained, and the log of its training; of an ensemble, that of the first member."""
    paths = [network_path(folder, training) for training in trainings_of(cell)]
    models = [load(path) for path in paths]
    model = join(models) if cell.settings["method"] == "ensemble" else models[0]
    return model.to(device).eval(), read_log(paths[0].with_suffix(".jsonl"), thinned=True)


def join(models: Sequence[Predictor]) -> DeepEnsemble:
    """An ensemble of all members of these networks."""
    return DeepEnsemble([member for model in models for member in model.members])


class Settled(NamedTuple):
    """A network that is ready, or will not be."""

    training: Cell
    seconds: float  # that it took just now
    error: Exception | None


def train(trainings: Sequence[Cell], folder: Path, device: str, at_once: int = 16) -> Iterator[Settled]:
    """Train those networks that are not there yet, and tell of each as soon as it is settled; teachers come first.

    On a GPU several are trained at once; on a CPU one after another, from checkpoints where there are some, and no two
    processes train the same.

    Args:
        trainings: Trainings, from :func:`trainings_of`.
        folder: Folder for trained networks.
        device: ``cpu`` or ``cuda``.
        at_once: Number of concurrent trainings on a GPU.
    """
    learners = [
        training
        for training in trainings
        if TEACHER in training.settings["training"] and not network_path(folder, training).exists()
    ]
    others = {training.key: training for training in trainings if training not in learners}
    for learner in learners:
        others |= {teacher.key: teacher for teacher in teachers_of(learner, VERSION)}
    asked = {training.key for training in trainings}
    for settled in _train_missing(list(others.values()), folder, device, at_once):
        if settled.training.key in asked:
            yield settled
    yield from _train_missing(learners, folder, device, at_once)


def _train_missing(trainings: Sequence[Cell], folder: Path, device: str, at_once: int) -> Iterator[Settled]:
    missing = []
    for training in trainings:
        if network_path(folder, training).exists():
            yield Settled(training, 0.0, None)
        else:
            missing.append(training)
    if device != "cpu":
        yield from _train(missing, folder, device, at_once)
        return
    for training in missing:
        with _alone(_checkpoints(folder, training)):
            if network_path(folder, training).exists():  # by now
                yield Settled(training, 0.0, None)
            else:
                yield from _train([training], folder, device, 1)


def _train(trainings: Sequence[Cell], folder: Path, device: str, at_once: int) -> Iterator[Settled]:
    begun: list[Cell] = []
    hopeless: list[Settled] = []

    def jobs() -> Iterator[FitJob]:
        for training in trainings:
            try:
                taught = _taught(training, folder, device)
                job = make_job(training, device, _checkpoints(folder, training), soft_labels=taught)
            except Exception as error:
                hopeless.append(Settled(training, 0.0, error))
                continue
            begun.append(training)
            yield job

    for training in trainings if device != "cpu" else ():
        with suppress(Exception):  # it will be reported when the job is made
            load_splits(training.data, training.settings["part"], device)  # before anything else is under way
            _taught(training, folder, device)
    for done in fit_many(jobs(), at_once):
        training, error = begun[done.number], done.error
        if error is None:
            try:
                _keep(done.job.model, done.log, network_path(folder, training))
                shutil.rmtree(_checkpoints(folder, training), ignore_errors=True)
            except Exception as caught:
                error = caught
        yield Settled(training, done.seconds, error)
    yield from hopeless


def _taught(training: Cell, folder: Path, device: str) -> Tensor | None:
    """Soft labels of a training by teachers that have been trained; None where it has none."""
    return soft_labels(training, [network_path(folder, teacher) for teacher in teachers_of(training, VERSION)], device)


def make_job(training: Cell, device: str, checkpoints: Path | None, validation: Any = None, **changes: Any) -> FitJob:
    """Build the network of a training and the call of ``fit``.

    Args:
        training: Training, from :func:`trainings_of`.
        device: Device of the network.
        checkpoints: Folder for checkpoints; None for none.
        validation: Validation instead of the declared one.
        changes: Options of training instead of the declared ones.
    """
    splits = load_splits(training.data, training.settings["part"], device)
    spec = DataSpec.of(splits.train, splits.validation, splits.test)
    data = training_data(training, device)
    model = build(training.method, spec, training.settings["settings"], splits.train, training.seed).to(device)
    options = {name: value for name, value in training.settings["training"].items() if name not in (TEACHER, PARTS)}
    options |= {
        "metric": options.pop("selection"),
        "ema_decay": options.pop("average", None),
        "seed": training.seed,
        "cuda_graphs": device == "cuda",
        "folder": checkpoints,
        "checkpoint_every": None if device == "cpu" else _RARELY,
    }
    measure = validation or _validation(model, splits.validation)
    return FitJob(
        model, data.inputs, data.labels, lengths_of(data), measure, TrainOptions(**cast("Any", options | changes))
    )


def _validation(model: Predictor, data: Any) -> Callable[[], dict[str, float]]:
    def measure() -> dict[str, float]:
        mean = predict_probabilities(model, data).mean(0)
        likely = mean.clamp_min(torch.finfo(mean.dtype).tiny)
        return {"error": prediction_error(mean, data.labels), "nll": negative_log_likelihood(likely, data.labels)}

    return measure


def _keep(model: Predictor, log: Sequence[Update], path: Path) -> None:
    """Write the log, thinned out, then the network: when that is there, all is."""
    every = max(1, len(log) // _POINTS)
    kept = [u for u in log if u.number % every == 0 or u.number == len(log) or u.validation is not None]
    lines = "".join(json.dumps(asdict(update)) + "\n" for update in kept)
    write_atomically(path.with_suffix(".jsonl"), lines.encode())
    model.save(path)


def _checkpoints(folder: Path, training: Cell) -> Path:
    return folder / training.key


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder until this context or its process ends."""
    try:
        import fcntl
    except ImportError:  # not on this system: two that begin at once would both do the work
        yield
        return
    path = folder.with_suffix(".lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    path.unlink(missing_ok=True)  # a process that waited for it finds the work done
