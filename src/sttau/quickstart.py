"""The quickstart: learn a language and prove the extracted automaton equal; classify digits with uncertainty."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from automata.fa.dfa import DFA
from torch import Tensor, nn

from sttau.automata import Equivalence, ExtractedDFA, extract_dfa, tomita
from sttau.calibration import calibrate
from sttau.data import Schema, SequenceDataset, load
from sttau.engine import Readout
from sttau.files import EXAMPLES_FILE, MODEL_FILE, write_atomically
from sttau.inference import Prediction, predict
from sttau.jobs import Result
from sttau.layers import STTauGRU, STTauLSTM
from sttau.methods import create_model
from sttau.metrics import (
    ReliabilityCurve,
    calibration_error,
    detection,
    negative_log_likelihood,
    prediction_error,
    reliability_curve,
)
from sttau.models import SequenceClassifier
from sttau.padding import clear_padding
from sttau.seeds import seeded
from sttau.training import Update, fit

#: Roles of the columns of tables of images.
IMAGE_ROLES: dict[str, Any] = {"target": "digit", "id": "image", "time": "row"}

#: Called with a title, the number of finished updates, and their total.
Progress = Callable[[str, int, int], None]


def _silent(title: str, done: int, total: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class Settings:
    """Everything that the results depend on besides the seed."""

    grammar: int = 3
    automaton_states: int = 10
    automaton_hidden: int = 32
    automaton_updates: int = 1000  # per attempt
    automaton_attempts: int = 6  # training restarts with a new seed if the loss has not converged
    automaton_loss: float = 0.01  # training ends after 20 consecutive batches below this loss
    ood_digits: tuple[int, ...] = (8, 9)
    digit_states: int = 10
    digit_readout: Readout = "cell"
    digit_hidden: int = 64
    digit_updates: int = 1200
    digit_seeds: int = 3
    digit_batch_size: int = 128
    opinion_updates: int = 400
    learning_rate: float = 0.01
    batch_size: int = 64
    samples: int = 20


@dataclass(frozen=True)
class AutomatonRun:
    """Result of learning a grammar.

    Attributes:
        truth: DFA of the grammar.
        extracted: DFA extracted from the network.
        equivalence: Comparison of the two.
        log: Updates of the last attempt.
        attempts: Number of attempts.
        wrong: Number of misclassified test strings.
        strings: Number of test strings.
        longest: Length of the longest test string.
        result: Result line.
        model: Network of the last attempt.
    """

    truth: DFA
    extracted: ExtractedDFA
    equivalence: Equivalence
    log: list[Update]
    attempts: int
    wrong: int
    strings: int
    longest: int
    result: Result
    model: SequenceClassifier


@dataclass(frozen=True)
class DigitRun:
    """Result of one method and one seed on the digits.

    Attributes:
        method: Name of the method.
        reading: Predictions for in-distribution test digits after every row.
        ood: Predictions for OOD digits after every row.
        curve: Reliability curve of the predictions after every row.
        result: Result line.
        model: Trained network.
    """

    method: str
    reading: Prediction
    ood: Prediction
    curve: ReliabilityCurve
    result: Result
    model: SequenceClassifier


@dataclass(frozen=True)
class Quickstart:
    """Everything that the report shows."""

    settings: Settings
    automaton: AutomatonRun
    digits: list[DigitRun]
    validation: SequenceDataset
    test: SequenceDataset
    ood: SequenceDataset

    @property
    def results(self) -> list[Result]:
        """Result lines: one for the automaton, and one per method and seed for the digits."""
        return [self.automaton.result, *(run.result for run in self.digits)]


def run_quickstart(settings: Settings | None = None, seed: int = 0, progress: Progress = _silent) -> Quickstart:
    """Run both parts.

    Args:
        settings: Settings of the experiment.
        seed: Seed of all randomness.
        progress: Callback for progress.
    """
    settings = settings or Settings()
    automaton = learn_automaton(settings, seed, progress)
    digits = {split: load("digits", split) for split in ("train", "validation", "test")}
    unseen = torch.tensor(settings.ood_digits)
    ood = digits["test"].select(torch.isin(digits["test"].labels, unseen))
    seen = {name: part.select(~torch.isin(part.labels, unseen)) for name, part in digits.items()}
    runs = [
        learn_digits(method, settings, seed + number, seen, ood, progress)
        for number in range(settings.digit_seeds)
        for method in ("lstm", "st-tau")
    ]
    return Quickstart(settings, automaton, runs, seen["validation"], seen["test"], ood)


def learn_automaton(settings: Settings, seed: int, progress: Progress = _silent) -> AutomatonRun:
    """Train on strings of a Tomita grammar, extract the automaton, and compare it with that of the grammar."""
    name = f"tomita{settings.grammar}"
    train, test = load(name, "train"), load(name, "test")
    assert train.vocabulary is not None
    began = time.perf_counter()
    for attempt in range(settings.automaton_attempts):
        with seeded(seed + attempt, cpu_only=True):
            layer = STTauGRU(16, settings.automaton_hidden, settings.automaton_states, mode="exact")
            model = SequenceClassifier(layer, 2, nn.Embedding(len(train.vocabulary), 16))
        low = 0

        def stop(update: Update, attempt: int = attempt) -> bool:
            nonlocal low
            low = low + 1 if update.loss < settings.automaton_loss else 0
            progress(f"Tomita {settings.grammar}, attempt {attempt + 1}", update.number, update.of)
            return low >= 20

        log = fit(
            model,
            train,
            updates=settings.automaton_updates,
            batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            seed=seed + attempt,
            callbacks=stop,
            progress=False,
        )
        if low >= 20:
            break
    extracted = extract_dfa(model, train.vocabulary)
    equivalence = extracted.equivalent_to(tomita(settings.grammar))
    wrong = int((predict(model, test).label != test.labels).sum())
    result = Result(
        experiment="quickstart",
        data=name,
        method="st-tau",
        states=settings.automaton_states,
        seed=seed,
        metrics={
            "equal": float(equivalence.equal),
            "pe": 100 * wrong / len(test),
            "attempts": float(attempt + 1),
        },
        settings={"mode": "exact", "updates": len(log), "learning_rate": settings.learning_rate},
        seconds=round(time.perf_counter() - began, 2),
    )
    longest = int(test.lengths.max()) - 1
    return AutomatonRun(
        tomita(settings.grammar), extracted, equivalence, log, attempt + 1, wrong, len(test), longest, result, model
    )


def learn_digits(
    method: str,
    settings: Settings,
    seed: int,
    digits: dict[str, SequenceDataset],
    ood: SequenceDataset,
    progress: Progress = _silent,
) -> DigitRun:
    """Train one method to classify a digit after any number of its rows; evaluate in-distribution and on OOD digits.

    Every training image occurs eight times, truncated after one to eight rows. The weights with the smallest negative
    log-likelihood on validation data are kept. ECE, MCE and NLL are computed over the predictions after every row,
    error and OOD detection after the last.
    """
    began = time.perf_counter()
    train, validation, test = (digits[name] for name in ("train", "validation", "test"))
    rows = train.inputs.shape[1]
    with seeded(seed, cpu_only=True):
        layer = (
            nn.LSTM(8, settings.digit_hidden)
            if method == "lstm"
            else STTauLSTM(8, settings.digit_hidden, settings.digit_states, readout=settings.digit_readout)
        )
        model = SequenceClassifier(layer, 10 - len(settings.ood_digits))
    title = f"digits, {'LSTM' if method == 'lstm' else 'ST-τ LSTM'}, seed {seed}"

    def read(data: SequenceDataset, samples: int) -> Prediction:
        return predict(model, data.inputs, samples=samples, seed=seed, per_step=True)

    log = fit(
        model,
        train.inputs.repeat_interleave(rows, dim=0),
        train.labels.repeat_interleave(rows),
        torch.arange(1, rows + 1).repeat(len(train)),
        updates=settings.digit_updates,
        batch_size=settings.digit_batch_size,
        learning_rate=settings.learning_rate,
        seed=seed,
        validation=lambda: negative_log_likelihood(*_all_steps(read(validation, 5), validation)),
        callbacks=lambda update: progress(title, update.number, update.of),
        progress=False,
    )
    in_distribution, out_of_distribution = read(test, settings.samples), read(ood, settings.samples)
    probabilities, labels = _all_steps(in_distribution, test)
    areas = detection(1 - in_distribution.confidence[:, -1], 1 - out_of_distribution.confidence[:, -1])
    metrics = {
        "pe": 100 * prediction_error(in_distribution.mean[:, -1], test.labels),
        "ece": 100 * calibration_error(probabilities, labels),
        "mce": 100 * calibration_error(probabilities, labels, norm="maximum"),
        "nll": negative_log_likelihood(probabilities, labels),
        "auroc": 100 * areas.auroc,
        "aupr": 100 * areas.aupr,
    }
    if model.layer.num_states is not None:
        metrics["tau"] = model.layer.temperature.item()
    return DigitRun(
        method=method,
        reading=in_distribution,
        ood=out_of_distribution,
        curve=reliability_curve(probabilities, labels),
        result=Result(
            experiment="quickstart",
            data="digits",
            method=method,
            states=None if method == "lstm" else settings.digit_states,
            seed=seed,
            metrics={name: round(value, 4) for name, value in metrics.items()},
            settings={
                "ood_digits": list(settings.ood_digits),
                "hidden_size": settings.digit_hidden,
                "readout": None if method == "lstm" else settings.digit_readout,
                "updates": len(log),
                "learning_rate": settings.learning_rate,
                "batch_size": settings.digit_batch_size,
                "samples": settings.samples,
                "score": "1 - confidence",
            },
            seconds=round(time.perf_counter() - began, 2),
        ),
        model=model,
    )


def _all_steps(reading: Prediction, data: SequenceDataset) -> tuple[Tensor, Tensor]:
    """Return the predictions after every row, and their labels."""
    return reading.mean.flatten(0, 1), data.labels.repeat_interleave(reading.mean.shape[1])


def save_models(quickstart: Quickstart, folder: Path) -> list[Path]:
    """Save the models of the first seed, calibrated, each with labeled examples; ``sttau serve`` shows them.

    Args:
        quickstart: Result of the quickstart. Its digit models are calibrated.
        folder: Folder for a folder per model.

    Returns:
        The paths of the models.
    """
    paths = []
    images = [*zip(quickstart.test.inputs, quickstart.test.labels.tolist(), strict=True)]
    images += [(image, -1) for image in quickstart.ood.inputs]
    digits = [f"digit {number}" for number in range(10 - len(quickstart.settings.ood_digits))]
    described = replace(
        quickstart.test,
        class_names=tuple(digits),
        feature_names=tuple(f"pixel{place}" for place in range(8)),
        schema=Schema("long", **IMAGE_ROLES, task="classification"),
    )
    for run in quickstart.digits:
        if run.result.seed != quickstart.digits[0].result.seed:
            continue
        own = folder / ("digits" if run.method == "st-tau" else f"digits-{run.method}")
        write_images(own / EXAMPLES_FILE, images, [*digits, ""])
        run.model.set_metadata(described)
        calibrate(run.model, quickstart.validation, coverage=0.9)
        paths.append(run.model.save(own / MODEL_FILE))
    strings = load(f"tomita{quickstart.settings.grammar}", "test")
    assert strings.vocabulary is not None
    own = folder / f"tomita{quickstart.settings.grammar}"
    lines = ["text,label"]
    for tokens, length, label in zip(strings.inputs, strings.lengths, strings.labels.tolist(), strict=True):
        text = "".join(strings.vocabulary[token] for token in tokens[1:length].tolist())
        lines += [f"{text},{strings.class_names[label]}"] if 0 < len(text) <= 30 else []
    write_atomically(own / EXAMPLES_FILE, ("\n".join(lines[:500]) + "\n").encode())
    model = quickstart.automaton.model
    model.set_metadata(replace(strings, schema=Schema("strings", target="label", text="text", task="classification")))
    return [*paths, model.save(own / MODEL_FILE)]


def save_opinions(folder: Path, settings: Settings | None = None, seed: int = 0, progress: Progress = _silent) -> Path:
    """Train a model on generated sentences, calibrate it, and save it with labeled examples for ``sttau serve``.

    Every sentence is learned after each of its words, so that the predictions while a sentence is read are calibrated,
    too. The model is a demonstration and in no result.

    Args:
        folder: Folder for the folder of the model, whose name says that the sentences are generated.
        settings: Settings of the experiment.
        seed: Seed of all randomness.
        progress: Callback for progress.

    Returns:
        The path of the model.
    """
    settings = settings or Settings()
    train, validation, test = (load("opinions", split) for split in ("train", "validation", "test"))
    model = create_model(train, seed=seed)
    fit(
        model,
        _all_beginnings(train),
        updates=settings.opinion_updates,
        batch_size=settings.digit_batch_size,
        learning_rate=settings.learning_rate,
        seed=seed,
        validation=_all_beginnings(validation),
        callbacks=lambda update: progress("generated sentences", update.number, update.of),
        progress=False,
    )
    calibrate(model, validation, coverage=0.9)
    assert test.vocabulary is not None
    lines = ["text,label"]
    for tokens, label in (test[row] for row in range(len(test))):
        lines.append(f"{' '.join(test.vocabulary[token] for token in tokens.tolist())},{test.class_names[int(label)]}")
    own = folder / "generated-opinions"
    write_atomically(own / EXAMPLES_FILE, ("\n".join(lines) + "\n").encode())
    return model.save(own / MODEL_FILE)


def _all_beginnings(data: SequenceDataset) -> SequenceDataset:
    """Return every sequence after each of its elements, as a data set."""
    every = data.select(torch.arange(len(data)).repeat_interleave(data.lengths))
    lengths = torch.cat([torch.arange(1, length + 1) for length in data.lengths.tolist()])
    return replace(every, inputs=clear_padding(every.inputs, lengths), lengths=lengths)


def write_images(path: Path, images: Iterable[tuple[Tensor, int]], names: Sequence[str]) -> Path:
    """Write images as a long table, one row of pixels per row, as :func:`sttau.data.read` reads it.

    Args:
        path: Path of the table.
        images: Pixels, (rows, columns), and label of each image.
        names: Name of each label.
    """
    lines = [",".join(["image", "row", *(f"pixel{place}" for place in range(8)), "digit"])]
    for number, (pixels, label) in enumerate(images):
        for row, values in enumerate(pixels.tolist()):
            lines.append(",".join([f"{number}", f"{row}", *map(str, values), names[label]]))
    return write_atomically(path, ("\n".join(lines) + "\n").encode())
