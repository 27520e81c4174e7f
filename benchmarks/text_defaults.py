"""Settings for small sets of texts: configurations compared on validation data, then the chosen one on test data.

    python benchmarks/text_defaults.py trials     # validation data alone; writes benchmarks/text/trials.jsonl.gz
    python benchmarks/text_defaults.py test       # the chosen settings and TF-IDF; writes benchmarks/text/test.jsonl.gz
    python benchmarks/text_defaults.py languages  # Tomita grammars with the defaults; benchmarks/text/languages.jsonl
    python benchmarks/text_defaults.py tables     # all as tables

The set is film-snippets: 4,000 sentences for training and 1,000 for testing. A trial holds out a quarter of the 4,000,
another one for each seed; it decides when to stop and is what the trial is judged by. For the test a tenth is held out,
which decides when to stop; TF-IDF with logistic regression is trained on all 4,000. A second set,
customer-reviews (2,500 and 1,000 sentences), has no part in the trials.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
from public_sets import load_set, load_texts
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import sttau
from sttau.data import SequenceDataset, load
from sttau.data.split import hold_out
from sttau.jobs import Cell, Result, Step, per_cell, read_results, run_cells, write_results

FOLDER = Path(__file__).parent / "text"
DATA = "film-snippets"

#: Settings of training in all trials, unless a configuration changes them.
FIT: dict[str, Any] = {"validate_every": 25, "patience": 12}
_OFF = {"dropout": 0.0, "word_dropout": 0.0}
_ON = {"dropout": 0.5, "word_dropout": 0.2}
_BEST = {"dropout": 0.7, "word_dropout": 0.2}
_SMALL = {"embedding_scale": 0.1}
#: Settings of the network and of training by name; what is not named is the default of ``create_model`` and ``fit``.
TRIALS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "base": ({"embedding_scale": 1.0, "model": _OFF}, {}),
    "embedding scale 0.1": ({**_SMALL, "model": _OFF}, {}),
    "dropout 0.5": ({"embedding_scale": 1.0, "model": _OFF | {"dropout": 0.5}}, {}),
    "word dropout 0.2": ({"embedding_scale": 1.0, "model": _OFF | {"word_dropout": 0.2}}, {}),
    "regularized": ({**_SMALL, "model": _ON}, {}),
    "regularized, scale 0.02": ({"embedding_scale": 0.02, "model": _ON}, {}),
    "regularized, dropout 0.7": ({**_SMALL, "model": _ON | {"dropout": 0.7}}, {}),
    "regularized, word dropout 0.5": ({**_SMALL, "model": _ON | {"word_dropout": 0.5}}, {}),
    "regularized, memory 20": ({**_SMALL, "model": _ON, "memory": 20}, {}),
    "regularized, GRU": ({**_SMALL, "model": _ON, "cell": "gru"}, {}),
    "regularized, lr 0.002": ({**_SMALL, "model": _ON}, {"learning_rate": 0.002}),
    "regularized, weight decay 0.1": ({**_SMALL, "model": _ON}, {"weight_decay": 0.1}),
    "regularized, d 128": ({**_SMALL, "model": _ON, "hidden_size": 128}, {}),
    "regularized, embedding 16": ({**_SMALL, "model": _ON, "embedding_size": 16}, {}),
    # The second round, from the best of the first.
    "dropout 0.8": ({**_SMALL, "model": _BEST | {"dropout": 0.8}}, {}),
    "best, no word dropout": ({**_SMALL, "model": _OFF | {"dropout": 0.7}}, {}),
    "best, lr 0.002": ({**_SMALL, "model": _BEST}, {"learning_rate": 0.002}),
    "best, weight decay 0.1": ({**_SMALL, "model": _BEST}, {"weight_decay": 0.1}),
    "best, d 128": ({**_SMALL, "model": _BEST, "hidden_size": 128}, {}),
    "best, embedding 256": ({**_SMALL, "model": _BEST, "embedding_size": 256}, {}),
    "best, k 4": ({**_SMALL, "model": _BEST, "num_states": 4}, {}),
    "best, 4 paths": ({**_SMALL, "model": _BEST | {"paths": 4}}, {}),
    "best, gain 1": ({**_SMALL, "model": _BEST, "gain": 1.0}, {}),
    "best, bidirectional": ({**_SMALL, "model": _BEST, "bidirectional": True}, {}),
    "best, 32 sentences per batch": ({**_SMALL, "model": _BEST}, {"batch_size": 32}),
}
#: The best of both rounds.
CHOSEN = TRIALS["best, lr 0.002"]
TRIAL_SEEDS, TEST_SEEDS = range(3), range(5)


def metrics(p: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    """Return error and ECE in percent, and NLL in nats."""
    return {
        "error": 100 * float((p.argmax(1) != labels).double().mean()),
        "nll": sttau.metrics.negative_log_likelihood(p, labels, clip=True),
        "ece": 100 * float(sttau.metrics.calibration_error(p, labels)),
    }


def split(data: SequenceDataset, part: int, seed: int) -> tuple[SequenceDataset, SequenceDataset]:
    """Hold out one of ``part`` sequences, stratified by class."""
    kept, held = hold_out(data.labels.numpy(), part, seed)
    return data[torch.from_numpy(np.sort(kept))], data[torch.from_numpy(np.sort(held))]


def compute(cell: Cell, folder: Path) -> Result:
    """Train one network, or the linear model, and evaluate it."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    if cell.method == "tf-idf":
        measured, states = _linear(cell), None
    else:
        measured, states = _network(cell)
    seconds = time.perf_counter() - began
    return Result(cell.experiment, cell.data, cell.method, states, cell.seed, measured, dict(cell.settings), seconds)


def _network(cell: Cell) -> tuple[dict[str, float], int | None]:
    held = None
    if cell.experiment == "languages":
        train, judge = load(cell.data, "train"), load(cell.data, "test")
    else:
        given, judge = load_set(cell.data)
        train, held = split(given, cell.settings["part"], cell.seed)
    model = sttau.create_model(train, cell.method, seed=cell.seed, **cell.settings["network"])
    sttau.fit(model, train, validation=held, seed=cell.seed, **cell.settings["fit"])
    if cell.experiment == "trials" and held is not None:
        judge = held
    p = sttau.predict(model, judge, samples=10).mean
    return metrics(p, judge.labels), getattr(model.members[0].layer, "num_states", None)


def _linear(cell: Cell) -> dict[str, float]:
    """Evaluate TF-IDF of words with logistic regression, scikit-learn's defaults, on the texts as they are written."""
    train, test = load_texts(cell.data)
    if cell.experiment == "trials":
        kept, held = hold_out(train[1], cell.settings["part"], cell.seed)
        train, test = (
            ([train[0][row] for row in kept], train[1][kept]),
            ([train[0][row] for row in held], train[1][held]),
        )
    vectorizer = TfidfVectorizer()
    known, new = vectorizer.fit_transform(train[0]), vectorizer.transform(test[0])
    p = LogisticRegression(max_iter=1000).fit(known, train[1]).predict_proba(new)
    return metrics(torch.from_numpy(p), torch.from_numpy(test[1]))


def results_file(experiment: str) -> Path:
    """Return the file of an experiment's results; the trials, which are many, are compressed."""
    return FOLDER / f"{experiment}.jsonl{'' if experiment == 'languages' else '.gz'}"


def run(experiment: str, cells: list[Cell]) -> None:
    """Compute cells and write all results of the experiment."""

    def progress(step: Step) -> None:
        failure = f" FAILED {step.failure}" if step.failure else ""
        name = step.cell.settings.get("configuration", "")
        print(f"{step.done}/{step.total} {step.cell.title} {name}, {step.seconds_left:.0f} s left{failure}", flush=True)

    outcome = run_cells(cells, per_cell(compute), FOLDER / "cells" / experiment, workers=1, progress=progress)
    write_results(outcome.results, results_file(experiment))


def trials() -> list[Cell]:
    """Return the trials, and TF-IDF on the same validation data."""
    cells = [
        Cell("trials", DATA, "st-tau", seed, {"configuration": name, "part": 4, "network": network, "fit": FIT | fit})
        for name, (network, fit) in TRIALS.items()
        for seed in TRIAL_SEEDS
    ]
    return cells + [Cell("trials", DATA, "tf-idf", seed, {"part": 4}) for seed in TRIAL_SEEDS]


def tests() -> list[Cell]:
    """Return the chosen settings, no settings, the trials' base and TF-IDF, on the test data of two sets of texts."""
    kinds = [("st-tau", "chosen"), ("lstm", "chosen"), ("st-tau", "base"), ("st-tau", "defaults")]
    cells = []
    for data in (DATA, "customer-reviews"):
        cells.append(Cell("test", data, "tf-idf", 0))
        for method, name in kinds:
            network, fit = {"chosen": CHOSEN, "base": TRIALS["base"], "defaults": ({}, {})}[name]
            settings = {"configuration": name, "part": 10, "network": network}
            settings |= {"fit": {} if name == "defaults" else FIT | fit}
            cells += [Cell("test", data, method, seed, settings) for seed in TEST_SEEDS]
    return cells


def languages() -> list[Cell]:
    """Return formal languages with the defaults."""
    names = [f"tomita{number}" for number in (1, 3, 4)]
    return [
        Cell("languages", name, "st-tau", seed, {"network": {}, "fit": {}}) for name in names for seed in TRIAL_SEEDS
    ]


def table(experiment: str) -> list[str]:
    """Return a line per method and configuration: mean and standard deviation over seeds."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in read_results(results_file(experiment)):
        name = result.settings.get("configuration", "")
        groups.setdefault((result.data, result.method, name), []).append(result)
    lines = []
    for (data, method, name), results in groups.items():
        shown = []
        for metric in ("error", "nll", "ece"):
            values = [result.metrics[metric] for result in results]
            spread = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
            shown.append(f"{metric} {mean(values):.3f}{spread}")
        seconds = mean(result.seconds for result in results)
        lines.append(f"{data:14} {method:8} {name:40} {'  '.join(shown)}  {seconds:.0f} s")
    return lines


def main() -> None:
    """Run one part of the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("trials", "test", "languages", "tables"))
    arguments = parser.parse_args()
    if arguments.part == "tables":
        for experiment in ("trials", "test", "languages"):
            if results_file(experiment).exists():
                print(experiment, *table(experiment), sep="\n")
    else:
        run(arguments.part, {"trials": trials, "test": tests, "languages": languages}[arguments.part]())


if __name__ == "__main__":
    main()
