"""The study behind the defaults: configurations compared on validation data of small public sets.

    python benchmarks/defaults.py study      # validation data alone; writes benchmarks/defaults/study.json.gz
    python benchmarks/defaults.py table      # its results as a table

Every configuration differs from the base in what its name says. A quarter of the training data, another one for each
seed, is held out for validation; the test data has no part in the study.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from public_sets import STUDY, load_set

import sttau
from sttau.data import SequenceDataset
from sttau.data.split import hold_out, shuffle
from sttau.files import write_atomically
from sttau.jobs import Cell, Result, Step, Store, hardware, per_cell, run_cells, versions
from sttau.methods import DataSpec, build
from sttau.methods.defaults import ALPHABET, WORDS
from sttau.models import Predictor
from sttau.tables import markdown_table
from sttau.training import validation

HERE = Path(__file__).parent
FOLDER = HERE / "defaults"

#: Settings of the network and of training that the study starts from. ``steps`` is the largest number of steps that a
#: layer reads; longer series are read in patches.
BASE: dict[str, Any] = {
    "cell": "lstm", "hidden_size": 64, "num_states": 10, "readout": "cell", "steps": 32, "scale": True,
    "gain": None, "memory": False, "temperature": 1.0, "paths": 1, "dropout": 0.0, "word_dropout": 0.0,
    "embedding_scale": 1.0, "input_noise": 0.0, "words": False,
    "updates": 500, "batch_size": 32, "learning_rate": 0.01, "schedule": "constant", "warmup": 0, "ema_decay": None,
    "weight_decay": 0.01, "keep": "best",
}  # fmt: skip


def configurations() -> dict[str, dict[str, Any]]:
    """Return the configurations of the study by name: the base, and what each changes."""
    second = {name: _BASE_2 | changes for name, changes in _ROUND_2.items()}
    third = {name: _BASE_3 | changes for name, changes in _ROUND_3.items()}
    return {"base": {}, **_ROUND_1, **second, **third}


def seeds(configuration: str) -> range:
    """Return the seeds of a configuration, each with a split of its own: more in the last round, which decides."""
    return range(6 if configuration in _ROUND_3 else 3)


def base(configuration: str) -> str:
    """Return the configuration that one is compared with."""
    return next((name for name in ("base 2", "base 3") if configuration.startswith(name)), "base")


_ROUND_1: dict[str, dict[str, Any]] = {
    "no patches": {"steps": 10_000},
    "16 steps": {"steps": 16},
    "64 steps": {"steps": 64},
    "readout state": {"readout": "state"},
    "GRU": {"cell": "gru"},
    "k 4": {"num_states": 4},
    "k 32": {"num_states": 32},
    "d 128": {"hidden_size": 128},
    "d 32": {"hidden_size": 32},
    "lr 0.003": {"learning_rate": 0.003},
    "lr 0.03": {"learning_rate": 0.03},
    "cosine": {"schedule": "cosine"},
    "EMA": {"ema_decay": 0.99},
    "4 paths": {"paths": 4},
    "gain 1": {"gain": 1.0},
    "gain 4": {"gain": 4.0},
    "tau 4": {"temperature": 4.0},
    "memory": {"memory": True},
    "dropout 0.2": {"dropout": 0.2},
    "weight decay 0.1": {"weight_decay": 0.1},
    "last weights": {"keep": "last"},
    "input noise 0.1": {"input_noise": 0.1},
    "1500 updates": {"updates": 1500},
    "not scaled": {"scale": False},
}

#: What the first round suggested, from which the second starts.
_BASE_2: dict[str, Any] = {"steps": 16, "learning_rate": 0.005, "updates": 1000}
_ROUND_2: dict[str, dict[str, Any]] = {
    "base 2": {},
    "base 2, gain 1": {"gain": 1.0},
    "base 2, d 128": {"hidden_size": 128},
    "base 2, cosine": {"schedule": "cosine"},
    "base 2, dropout 0.2": {"dropout": 0.2},
    "base 2, dropout 0.5": {"dropout": 0.5},
    "base 2, 8 steps": {"steps": 8},
    "base 2, weight decay 0.1": {"weight_decay": 0.1},
    "base 2, input noise 0.1": {"input_noise": 0.1},
    "base 2, gain 1, d 128, cosine, dropout 0.2": {
        "gain": 1.0, "hidden_size": 128, "schedule": "cosine", "dropout": 0.2,
    },
    "base 2, text": {"dropout": 0.5, "word_dropout": 0.2, "embedding_scale": 0.1},
    "base 2, lr 0.003": {"learning_rate": 0.003},
    # The hidden state of a GRU is all that it remembers, and the mixture of states passes on only a part of it.
    "base 2, GRU, gain 1": {"cell": "gru", "gain": 1.0},
    "base 2, GRU, gain 4": {"cell": "gru", "gain": 4.0},
}  # fmt: skip

#: What the second round suggested, with the settings for words of ``text_defaults.py``, from which the third starts.
_BASE_3: dict[str, Any] = _BASE_2 | {"gain": 1.0, "words": True}
_ROUND_3: dict[str, dict[str, Any]] = {
    "base 3": {},
    "base 3, dropout 0.3": {"dropout": 0.3},
    "base 3, dropout 0.5": {"dropout": 0.5},
    "base 3, input noise 0.1": {"input_noise": 0.1},
    "base 3, dropout 0.3, input noise 0.1": {"dropout": 0.3, "input_noise": 0.1},
    "base 3, 2000 updates": {"updates": 2000},
}


def split(data: SequenceDataset, seed: int) -> tuple[SequenceDataset, SequenceDataset]:
    """Hold out a quarter for validation, stratified by class."""
    if data.class_names:
        kept, held = hold_out(data.labels.numpy(), 4, seed)
    else:
        order = shuffle(len(data), seed)
        kept, held = order[len(order) // 4 :], order[: len(order) // 4]
    return data[torch.from_numpy(np.sort(kept))], data[torch.from_numpy(np.sort(held))]


def make(method: str, settings: dict[str, Any], data: SequenceDataset, seed: int) -> Predictor:
    """Build the network of a configuration."""
    spec = DataSpec.of(data)
    own: dict[str, Any] = {"cell": settings["cell"], "hidden_size": settings["hidden_size"]}
    if method == "st-tau":
        own |= {key: settings[key] for key in ("num_states", "readout", "temperature")}
        own |= {"gain": settings["gain"]} if settings["gain"] else {}
    length = int(data.lengths.max())
    patch = -(-length // settings["steps"]) if spec.features is not None else 1
    if settings["memory"] and settings["cell"] == "lstm":
        own["memory"] = max(3, -(-length // patch))
    if spec.tokens:
        own |= {"embedding_size": settings["hidden_size"], "embedding_scale": settings["embedding_scale"]}
    else:
        own |= {"scale": settings["scale"], "patch_size": patch}
    own["model"] = {"dropout": settings["dropout"], "input_noise": 0.0 if spec.tokens else settings["input_noise"]}
    own["model"] |= {"paths": settings["paths"]} if method == "st-tau" else {}
    own["model"] |= {"word_dropout": settings["word_dropout"]} if spec.tokens else {}
    if settings["words"] and spec.tokens > ALPHABET:
        own |= {"embedding_scale": WORDS["embedding_scale"], "model": own["model"] | WORDS["model"]}
    if method != "st-tau":
        method = settings["cell"]
        own["cell"] = method
    return build(method, spec, own, data, seed)


def metrics(model: Predictor, data: SequenceDataset, variance: float) -> dict[str, float]:
    """Return error in percent (of a regressor: the share of the variance that is not explained) and NLL."""
    prediction = sttau.predict(model, data, samples=10, keep_samples=True)
    if model.task == "classification":
        p, labels = prediction.mean, data.labels
        nll = -p.gather(1, labels[:, None]).clamp_min(1e-12).log().mean()
        label = p.argmax(1)
        return {
            "error": 100 * float((label != labels).double().mean()),
            "nll": float(nll),
            "ece": 100 * float(sttau.metrics.calibration_error(p, labels)),
        }
    targets = data.labels[:, None].double()
    nll = sttau.metrics.gaussian_nll(prediction.samples.double(), prediction.sample_variance.double(), targets)
    return {"error": 100 * float((prediction.mean - targets).square().mean()) / variance, "nll": float(nll)}


def compute(cell: Cell, folder: Path) -> Result:
    """Train one network and evaluate it on validation data."""
    torch.set_num_threads(1)
    given, _ = load_set(cell.data)
    settings = cell.settings
    train, held = split(given, cell.seed)
    model = make(cell.method, settings, train, cell.seed)
    names = ("updates", "batch_size", "learning_rate", "schedule", "warmup", "ema_decay", "weight_decay")
    keep = settings["keep"] == "best"
    began = time.perf_counter()
    sttau.fit(
        model, train, seed=cell.seed, **{name: settings[name] for name in names},
        **({"validation": _measure(model, held), "metric": "nll", "validate_every": 25} if keep else {}),
    )  # fmt: skip
    seconds = time.perf_counter() - began
    variance = float(train.labels.double().var()) if not train.class_names else 1.0
    measured = metrics(model, held, variance)
    states = settings["num_states"] if cell.method == "st-tau" else None
    return Result(cell.experiment, cell.data, cell.method, states, cell.seed, measured, dict(settings), seconds)


def _measure(model: Predictor, held: SequenceDataset) -> Any:
    if model.task == "classification":
        return validation(model, held)

    def measure() -> dict[str, float]:
        return {"nll": metrics(model, held, 1.0)["nll"]}

    return measure


def run(experiment: str, cells: list[Cell], workers: int) -> None:
    """Compute cells and write all results of the experiment so far."""

    def progress(step: Step) -> None:
        failure = f" FAILED {step.failure}" if step.failure else ""
        print(f"{step.done}/{step.total} {step.cell.title}, {step.seconds_left / 60:.0f} min left{failure}", flush=True)

    path = FOLDER / f"{experiment}.json.gz"
    done = {tuple(row[:4]): row for row in read_rows(path)} if path.exists() else {}
    folder = FOLDER / "cells" / experiment
    missing = [cell for cell in cells if _key(cell) not in done]
    try:
        run_cells(missing, per_cell(compute), folder, workers=workers, progress=progress)
    finally:
        for cell in cells:
            if (result := Store(folder).read(cell)) is not None:
                values = [round(result.metrics[name], 5) for name in ("error", "nll")]
                done[_key(cell)] = [*_key(cell), *values]
        write_compact([done[key] for cell in all_cells(experiment) if (key := _key(cell)) in done], path)


def _key(cell: Cell) -> tuple[Any, ...]:
    return cell.settings["configuration"], cell.data, cell.method, cell.seed


def write_compact(rows: list[list[Any]], path: Path) -> None:
    """Write results without repeating settings, versions and hardware in every line."""
    whole = {
        "columns": ["configuration", "data", "method", "seed", "error", "nll"],
        "base": BASE,
        "configurations": configurations(),
        "versions": versions(),
        "hardware": hardware(),
        "rows": rows,
    }
    lines = json.dumps(whole | {"rows": []}, indent=1)[: -len("[]\n}")]
    body = ",\n".join(json.dumps(row) for row in rows)
    write_atomically(path, gzip.compress(f"{lines}[\n{body}\n]}}\n".encode(), mtime=0))


def read_rows(path: Path) -> list[list[Any]]:
    """Read the rows of a file of results."""
    rows: list[list[Any]] = json.loads(gzip.decompress(path.read_bytes()))["rows"]
    return rows


def all_cells(experiment: str) -> list[Cell]:
    """Return all cells of an experiment."""
    chosen = configurations()
    return [
        Cell(experiment, data, "st-tau", seed, BASE | chosen[name] | {"configuration": name})
        for name in chosen
        for seed in seeds(name)
        for data in STUDY
    ]


def table(path: Path) -> str:
    """Return a table of a file of results: mean error and NLL over all sets and seeds, and the difference to the base.

    The standard error of a difference is that of the means of the seeds, each over all sets.
    """
    rows = read_rows(path)
    found: dict[str, dict[tuple[str, int], tuple[float, float]]] = {}
    for name, data, _, seed, error, nll in rows:
        found.setdefault(name, {})[data, seed] = error, nll
    cells = []
    for name, values in found.items():
        splits = seeds(name)
        if len(values) < len(STUDY) * len(splits):
            continue
        other = found[base(name)]
        apart = np.array([
            [np.mean([values[data, seed][k] - other[data, seed][k] for data in STUDY]) for k in (0, 1)]
            for seed in splits
        ])  # fmt: skip
        mean, spread = apart.mean(0), apart.std(0, ddof=1) / np.sqrt(len(splits))
        level = np.mean(list(values.values()), axis=0)
        cells.append((
            name, f"{level[0]:.2f}", f"{level[1]:.3f}",
            f"{mean[0]:+.2f} ± {spread[0]:.2f}", f"{mean[1]:+.3f} ± {spread[1]:.3f}",
        ))  # fmt: skip
    return markdown_table(cells, ("configuration", "error %", "NLL", "error: difference", "NLL: difference"), 1)


def main() -> None:
    """Run one part of the study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("study", "table"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="configurations to run; all by default")
    arguments = parser.parse_args()
    if arguments.part == "study":
        names = arguments.only or list(configurations())
        cells = [cell for cell in all_cells("study") if cell.settings["configuration"] in names]
        run("study", cells, arguments.workers)
    else:
        print(table(FOLDER / "study.json.gz"))


if __name__ == "__main__":
    main()
