"""Default settings on public data sets, compared with other methods: error, NLL, ECE, AURC and time on test data.

    python benchmarks/public_benchmark.py run        # writes benchmarks/public/results.json
    python benchmarks/public_benchmark.py table      # as tables

It checks the defaults that ``defaults.py`` chose on validation data: ST-τ and an LSTM with the same treatment, the best
configuration of that study, and what aeon and scikit-learn offer (``pip install --no-deps aeon==1.6.0 deprecated``).
The networks hold out a quarter of the training data, which decides when to stop and calibrates them; the peers train on
all of it.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from defaults import BASE, configurations, make, split
from public_sets import HELD_OUT, STUDY, load_set

import sttau
from sttau.data import SequenceDataset
from sttau.files import write_atomically
from sttau.jobs import Cell, Result, Step, Store, hardware, per_cell, run_cells, versions
from sttau.models import Predictor
from sttau.tables import markdown_table

FOLDER = Path(__file__).parent / "public"
SEEDS = range(5)
#: Configuration of the last round of the study with the lowest NLL on validation data.
BEST = "base 3, dropout 0.3"
NETWORKS = {"st-tau": "ST-τ, defaults", "lstm": "LSTM, same treatment", "best": f"ST-τ, {BEST}"}
PEERS = {
    "dtw": "1-NN DTW",
    "minirocket-ridge": "MiniRocket + ridge",
    "minirocket-logistic": "MiniRocket + logistic",
    "forest": "random forest",
}
METRICS = ("error", "nll", "ece", "aurc", "seconds")
#: Sets of texts and of regression, which the peers do not read.
_NOT_FOR_PEERS = ("film-snippets", "customer-reviews", "household-power")
#: Probabilities of peers that are exactly 0 are raised to this for the NLL.
_FLOOR = 1e-3


def cells() -> list[Cell]:
    """Return all cells; 1-NN DTW has no seed."""
    made = []
    for data in (*STUDY, *HELD_OUT):
        for method in (*NETWORKS, *(PEERS if data not in _NOT_FOR_PEERS else ())):
            made += [Cell("public", data, method, seed, {}) for seed in (SEEDS if method != "dtw" else (0,))]
    return made


def compute(cell: Cell, folder: Path) -> Result:
    """Train one model and evaluate it on test data."""
    torch.set_num_threads(1)
    train, test = load_set(cell.data)
    began = time.perf_counter()
    if cell.method in NETWORKS:
        model = train_network(cell.method, train, cell.seed)
        measured = evaluate(model, train, test)
    else:
        labels, probabilities = predict_peer(cell.method, train, test, cell.seed)
        measured = {"error": 100 * float(np.mean(labels != test.labels.numpy()))}
        if probabilities is not None:
            measured |= proper(torch.from_numpy(probabilities), test.labels, _FLOOR)
    measured["seconds"] = time.perf_counter() - began
    return Result(cell.experiment, cell.data, cell.method, None, cell.seed, measured, {}, measured["seconds"])


def train_network(method: str, train: SequenceDataset, seed: int) -> Predictor:
    """Train and calibrate a network as a user would who gives no setting; or with those of the study."""
    kept, held = split(train, seed)
    if method == "best":
        settings = BASE | configurations()[BEST]
        model = make("st-tau", settings, kept, seed)
        names = ("updates", "batch_size", "learning_rate", "schedule", "weight_decay")
        options = {name: settings[name] for name in names}
    else:
        model, options = sttau.create_model(kept, method, seed=seed), {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the model has not learned")  # counted by its error
        sttau.fit(model, kept, validation=held, metric="nll", seed=seed, progress=False, **options)
    sttau.calibrate(model, held, seed=seed)
    return model


def evaluate(model: Predictor, train: SequenceDataset, test: SequenceDataset) -> dict[str, float]:
    """Return metrics on test data; the error of a regressor is the share of the variance that is not explained."""
    prediction = sttau.predict(model, test, samples=10, keep_samples=True)
    if model.task == "classification":
        wrong = prediction.mean.argmax(1) != test.labels
        return {"error": 100 * float(wrong.double().mean())} | proper(prediction.mean, test.labels, 1e-12)
    targets = test.labels[:, None].double()
    nll = sttau.metrics.gaussian_nll(prediction.samples.double(), prediction.sample_variance.double(), targets)
    variance = float(train.labels.double().var())
    return {"error": 100 * float((prediction.mean - targets).square().mean()) / variance, "nll": float(nll)}


def proper(probabilities: torch.Tensor, labels: torch.Tensor, floor: float) -> dict[str, float]:
    """Return NLL, ECE and AURC of probabilities, the last two in percent."""
    p = probabilities.double().clamp_min(floor)
    p = p / p.sum(1, keepdim=True)
    wrong = (p.argmax(1) != labels).double()
    return {
        "nll": sttau.metrics.negative_log_likelihood(p, labels),
        "ece": 100 * float(sttau.metrics.calibration_error(p, labels)),
        "aurc": 100 * sttau.metrics.area_under_risk_coverage(1 - p.amax(1), wrong),
    }


def predict_peer(method: str, train: SequenceDataset, test: SequenceDataset, seed: int) -> tuple[Any, Any]:
    """Return labels and, where the peer has them, probabilities; series of unequal length are padded with zeros."""
    from aeon.classification.convolution_based import MiniRocketClassifier
    from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    steps = max(train.inputs.shape[1], test.inputs.shape[1])
    x, z = (_channels_first(data, steps) for data in (train, test))
    y = train.labels.numpy()
    if method == "dtw":
        neighbor = KNeighborsTimeSeriesClassifier(n_neighbors=1, distance="dtw", distance_params={"window": 0.1})
        return neighbor.fit(x, y).predict(z), None
    if method == "forest":
        found: Any = RandomForestClassifier(500, random_state=seed)
        x, z = x.reshape(len(x), -1), z.reshape(len(z), -1)
    else:
        logistic = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000))
        found = MiniRocketClassifier(
            estimator=logistic if method.endswith("logistic") else None, random_state=seed, n_jobs=1
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.fit(x, y)
        if method == "minirocket-ridge":
            return found.predict(z), None
        probabilities = found.predict_proba(z)
    whole = np.zeros((len(z), len(train.class_names)))
    whole[:, found.classes_.astype(int)] = probabilities
    return whole.argmax(1), whole


def _channels_first(data: SequenceDataset, steps: int) -> Any:
    """Inputs as (series, features, steps), padded with zeros; at least 9 steps, which MiniRocket needs."""
    inputs = data.inputs.double().numpy().transpose(0, 2, 1)
    return np.pad(inputs, ((0, 0), (0, 0), (0, max(steps, 9) - inputs.shape[2])))


def run(workers: int, only: list[str] | None) -> None:
    """Compute what is missing and write all results."""

    def progress(step: Step) -> None:
        failure = f" FAILED {step.failure}" if step.failure else ""
        print(f"{step.done}/{step.total} {step.cell.title}, {step.seconds_left / 60:.0f} min left{failure}", flush=True)

    chosen = [cell for cell in cells() if only is None or cell.method in only]
    try:
        run_cells(chosen, per_cell(compute), FOLDER / "cells", workers=workers, progress=progress)
    finally:
        store = Store(FOLDER / "cells")
        rows = []
        for cell in cells():
            if (result := store.read(cell)) is not None:
                values = [_rounded(result.metrics.get(name)) for name in METRICS]
                rows.append(json.dumps([cell.data, cell.method, cell.seed, *values]))
        head = {"columns": ["data", "method", "seed", *METRICS], "best": BEST, "versions": versions(),
                "hardware": hardware()}  # fmt: skip
        lines = json.dumps(head, indent=1)[:-2]
        text = f'{lines},\n "rows": [\n' + ",\n".join(rows) + "\n]}\n"
        write_atomically(FOLDER / "results.json", text.encode())


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def table(metric: str) -> str:
    """Return one metric as a table: means over seeds per set, and over the sets of the study and of the check."""
    rows = json.loads((FOLDER / "results.json").read_text("utf-8"))["rows"]
    column = 3 + METRICS.index(metric)
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row[column] is not None:
            found.setdefault((row[0], row[1]), []).append(row[column])
    methods = [name for name in {**NETWORKS, **PEERS} if any(method == name for _, method in found)]
    digits = 3 if metric == "nll" else 1
    cells = []
    for data in (*STUDY, *HELD_OUT):
        values = [found.get((data, method)) for method in methods]
        cells.append((data, *("" if v is None else f"{np.mean(v):.{digits}f}" for v in values)))
    for title, sets in (("mean of the study", STUDY), ("mean of the check", HELD_OUT)):
        means = [
            np.mean([np.mean(found[data, method]) for data in sets]) if all((data, method) in found for data in sets)
            else None for method in methods
        ]  # fmt: skip
        cells.append((title, *("" if v is None else f"{v:.{digits}f}" for v in means)))
    titles = NETWORKS | PEERS
    return markdown_table(cells, ("data", *(titles[method] for method in methods)), 1)


def main() -> None:
    """Run the benchmark or print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("run", "table"))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="methods to run; all by default")
    arguments = parser.parse_args()
    if arguments.part == "run":
        run(arguments.workers, arguments.only)
    else:
        print("\n\n".join(f"{metric}\n\n{table(metric)}" for metric in METRICS))


if __name__ == "__main__":
    main()
