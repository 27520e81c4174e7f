"""One method under one seed: made, trained like all others, and asked about the test data."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sttau.calibration import TemperatureScaling, gaussian_nll, to_logits
from sttau.checks import check_same_settings
from sttau.compare.measures import Rows, classification_rows, regression_rows
from sttau.data import SequenceDataset
from sttau.files import write_atomically
from sttau.inference import Prediction, RegressionPrediction, predict
from sttau.models import Predictor
from sttau.training import Update, fit, validation


class Splits(NamedTuple):
    """The data of a comparison."""

    train: SequenceDataset
    validation: SequenceDataset
    test: SequenceDataset
    foreign: tuple[Tensor, Tensor | None] | None  # inputs and lengths from elsewhere

    def fingerprint(self) -> dict[str, str]:
        """What trained networks depend on and ``fit`` does not know of."""
        whole = hashlib.sha256()
        for tensor in (self.validation.inputs, self.validation.lengths, self.validation.labels):
            whole.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            whole.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return {"validation data": f"{len(self.validation)} sequences with SHA-256 {whole.hexdigest()[:16]}"}


@dataclass(frozen=True)
class Cell:
    """A trained network and its answers."""

    model: Predictor
    updates: int
    seconds: float | None  # of training; None where nobody watched to the end
    predict_ms: float  # a test sequence, with all samples
    rows: Rows
    scaled: Rows | None  # after temperature scaling
    temperature: float | None  # of that


def check_folder(folder: Path, settings: dict[str, Any]) -> None:
    """Remember what all networks of a comparison depend on; refuse a folder that was begun otherwise."""
    path = folder / "settings.json"
    if path.exists():
        check_same_settings(folder, "comparison", json.loads(path.read_text("utf-8")), settings)
    else:
        write_atomically(path, json.dumps(settings, indent=1).encode())


def train_cell(
    make: Callable[[], Predictor],
    splits: Splits,
    title: str,
    seed: int,
    samples: int,
    training: dict[str, Any],
    folder: Path | None,
    device: torch.device,
    progress: bool,
) -> tuple[Predictor, int, float | None]:
    """Train a network, or go on with it, or take it as it was left when it was finished.

    Returns:
        The network with its best weights, the updates made, and the seconds that took.
    """
    model = make().to(device)
    data = splits.train
    made = 0

    def count(_: Update) -> None:
        nonlocal made
        made += 1

    with ExitStack() as stack:
        watchers: list[Any] = [count]
        if progress:
            from sttau.training import ProgressBar

            watchers.append(stack.enter_context(ProgressBar(title)))
        began = time.perf_counter()
        log = fit(
            model,
            data.inputs,
            data.labels,
            data.lengths,
            seed=seed,
            validation=_validation(model, splits.validation, samples),
            metric="nll",
            folder=folder,
            callbacks=watchers,
            **training,
        )
        took = time.perf_counter() - began
    model.eval()
    seconds = took * len(log) / made if made else None  # the part before an interruption went as fast as the rest
    if folder is not None:
        path = folder / "seconds.json"
        if seconds is None and path.exists():
            seconds = json.loads(path.read_text("utf-8"))
        else:
            write_atomically(path, json.dumps(seconds).encode())
    return model, len(log), seconds


def ask_cell(model: Predictor, splits: Splits, seed: int, samples: int, scaling: bool) -> tuple[Any, ...]:
    """Ask a trained network about the test data.

    Returns:
        Milliseconds a sequence, rows of all measures, and after temperature scaling the same rows and T.
    """

    def ask(inputs: Tensor, lengths: Tensor | None) -> Any:
        return predict(model, inputs, lengths, samples, seed, keep_samples=True)

    test = splits.test
    ask(test.inputs[:2], test.lengths[:2])  # kernels are compiled on first use
    began = time.perf_counter()
    answer = ask(test.inputs, test.lengths)
    mean = answer.mean.cpu()
    milliseconds = (time.perf_counter() - began) * 1e3 / len(test)
    if isinstance(answer, RegressionPrediction):
        return milliseconds, regression_rows(*_mixture(answer), _targets(test)), None, None
    labels = test.labels.long().cpu()
    foreign = None if splits.foreign is None else ask(*splits.foreign)
    rows = classification_rows(mean, labels, None if foreign is None else foreign.mean.cpu())
    if not scaling:
        return milliseconds, rows, None, None
    held_out = splits.validation
    temperature = TemperatureScaling().fit(to_logits(ask(held_out.inputs, held_out.lengths)).cpu(), held_out.labels)

    def scale(prediction: Prediction) -> Tensor:
        return temperature.probabilities(to_logits(prediction).cpu())

    scaled = classification_rows(scale(answer), labels, None if foreign is None else scale(foreign))
    return milliseconds, rows, scaled, temperature.temperature


def _validation(model: Predictor, data: SequenceDataset, samples: int) -> Callable[[], dict[str, float]]:
    """Negative log-likelihood of what ``predict`` returns: the mixture over runs where numbers are predicted."""
    if model.task == "classification":
        return validation(model, data.inputs, data.labels, data.lengths, samples=samples)
    targets = _targets(data)

    def measure() -> dict[str, float]:
        answer: Any = predict(model, data.inputs, data.lengths, samples, keep_samples=True)
        mean, variance = _mixture(answer)
        return {"nll": gaussian_nll(mean, variance, targets)}

    return measure


def _mixture(answer: RegressionPrediction) -> tuple[Tensor, Tensor]:
    """Means and variances of the runs; of the whole where there are none."""
    if answer.samples is None or answer.sample_variance is None:
        return answer.mean[None].cpu(), answer.variance[None].cpu()
    return answer.samples.cpu(), answer.sample_variance.cpu()


def _targets(data: SequenceDataset) -> Tensor:
    labels = data.labels.to(torch.float64).cpu()
    return labels[:, None] if labels.dim() == 1 else labels


def parameters_of(model: Predictor) -> int:
    """How many numbers are trained; all members of an ensemble count."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def states_of(model: Predictor) -> int | None:
    """How many states the network has, where it has any."""
    return model.members[0].layer.num_states
