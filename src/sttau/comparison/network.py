"""One network of a comparison, a method with one seed: training and evaluation on the test data."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sttau.calibration import TemperatureScaling, decisions_for, to_logits
from sttau.checks import check_same_settings
from sttau.data import SequenceDataset
from sttau.errors import ResultsError, reading
from sttau.evaluation import set_rows
from sttau.files import write_atomically
from sttau.inference import Prediction, RegressionPrediction, predict
from sttau.metrics.rows import Rows, metric_rows
from sttau.models import Predictor
from sttau.ood import make_detector, max_probability_score
from sttau.training import ProgressBar, TrainOptions, Update, fit, validation


class Splits(NamedTuple):
    """The data of a comparison."""

    train: SequenceDataset
    validation: SequenceDataset
    test: SequenceDataset
    ood: tuple[Tensor, Tensor | None] | None  # inputs and lengths of OOD sequences

    def fingerprint(self) -> dict[str, str]:
        """Return a hash of the validation data, which trained networks depend on and ``fit`` does not check."""
        whole = hashlib.sha256()
        for tensor in (self.validation.inputs, self.validation.lengths, self.validation.labels):
            whole.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            whole.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return {"validation data": f"{len(self.validation)} sequences with SHA-256 {whole.hexdigest()[:16]}"}


@dataclass(frozen=True)
class Evaluation:
    """Predictions of a trained network on the test data.

    Attributes:
        predict_ms: Milliseconds per test sequence, with all samples.
        rows: Per-example rows of all metrics.
        scaled: The same rows after temperature scaling.
        temperature: Fitted temperature of that scaling.
    """

    predict_ms: float
    rows: Rows
    scaled: Rows | None = None
    temperature: float | None = None


@dataclass(frozen=True)
class Network:
    """A trained network and its evaluation.

    Attributes:
        model: Network with its best weights.
        updates: Number of training updates.
        seconds: Training time; None if unknown.
        evaluation: Predictions on the test data.
    """

    model: Predictor
    updates: int
    seconds: float | None
    evaluation: Evaluation

    @property
    def parameters(self) -> int:
        """Number of trained parameters, of all members of an ensemble."""
        return sum(parameter.numel() for parameter in self.model.parameters() if parameter.requires_grad)

    @property
    def states(self) -> int | None:
        """Number of states; None for a layer without states."""
        return self.model.members[0].layer.num_states


def check_folder(folder: Path, settings: dict[str, Any]) -> None:
    """Write the settings that all networks depend on; raise an error if the folder was started with others."""
    path = folder / "settings.json"
    if path.exists():
        check_same_settings(folder, "comparison", _read_json(path), settings)
    else:
        write_atomically(path, json.dumps(settings, indent=1).encode())


def _read_json(path: Path) -> Any:
    with reading(path, ResultsError, "Remove it, or use another folder."):
        return json.loads(path.read_bytes())


def train_network(
    make: Callable[[], Predictor],
    splits: Splits,
    title: str,
    samples: int,
    options: TrainOptions,
    device: torch.device,
    progress: bool,
) -> tuple[Predictor, int, float | None]:
    """Train a network, resume its training, or load it if its training is finished.

    Returns:
        The network with its best weights, the number of updates, and the training time in seconds.
    """
    model = make().to(device)
    made = 0

    def count(_: Update) -> None:
        nonlocal made
        made += 1

    with ExitStack() as stack:
        callbacks: list[Any] = [count]
        if progress:
            callbacks.append(stack.enter_context(ProgressBar(title)))
        began = time.perf_counter()
        log = fit(
            model,
            splits.train,
            validation=validation(model, splits.validation, samples=samples),
            options=options.with_changes(callbacks=callbacks, progress=False),
        )
        took = time.perf_counter() - began
    model.eval()
    seconds = took * len(log) / made if made else None  # updates before an interruption are assumed equally fast
    if options.folder is not None:
        path = Path(options.folder) / "seconds.json"
        if seconds is None and path.exists():
            seconds = _read_json(path)
        else:
            write_atomically(path, json.dumps(seconds).encode())
    return model, len(log), seconds


def evaluate_network(
    model: Predictor, splits: Splits, seed: int, samples: int, scaling: bool, detector: str = "max-probability"
) -> Evaluation:
    """Predict the test data with a trained network, also after temperature scaling if ``scaling``.

    OOD data is detected by a score of the predictions, or by a detector that is fitted to the training data.
    """

    def run(inputs: Tensor, lengths: Tensor | None) -> Any:
        return predict(model, inputs, lengths, samples, seed, keep_samples=True)

    test = splits.test
    run(test.inputs[:2], test.lengths[:2])  # kernels are compiled on first use
    began = time.perf_counter()
    prediction = run(test.inputs, test.lengths)
    prediction.mean.cpu()  # waits for a GPU
    milliseconds = (time.perf_counter() - began) * 1e3 / len(test)
    prediction = prediction.cpu()
    known = splits.validation
    held_out = run(known.inputs, known.lengths).cpu()
    if isinstance(prediction, RegressionPrediction):
        rows = metric_rows("regression", *prediction.mixture(), _targets(test))
        decided = replace(prediction, decisions=decisions_for(held_out, _targets(known)))
        return Evaluation(milliseconds, rows | set_rows(decided, _targets(test)))
    labels, known_labels = test.labels.long().cpu(), known.labels.long().cpu()
    ood = None if splits.ood is None else run(*splits.ood).cpu()
    fitted = None
    if splits.ood is not None and detector != "max-probability":
        found = make_detector(detector, samples=samples, seed=seed).fit(model, splits.train)
        fitted = [found.score(model, test.inputs, test.lengths), found.score(model, *splits.ood)]

    def all_rows(change: Callable[[Prediction], Tensor]) -> Rows:
        """Rows with the probabilities changed in all splits alike."""
        rows = metric_rows("classification", change(prediction), labels)
        if ood is not None:
            rows |= metric_rows(
                "detection", *(fitted or [max_probability_score(change(one)) for one in (prediction, ood)])
            )
        decisions = decisions_for(replace(held_out, mean=change(held_out)), known_labels)
        return rows | set_rows(replace(prediction, mean=change(prediction), decisions=decisions), labels)

    rows = all_rows(lambda one: one.mean)
    if not scaling:
        return Evaluation(milliseconds, rows)
    temperature = TemperatureScaling().fit(to_logits(held_out), known_labels)
    scaled = all_rows(lambda one: temperature.probabilities(to_logits(one)))
    return Evaluation(milliseconds, rows, scaled, temperature.temperature)


def _targets(data: SequenceDataset) -> Tensor:
    labels = data.labels.to(torch.float64).cpu()
    return labels[:, None] if labels.dim() == 1 else labels
