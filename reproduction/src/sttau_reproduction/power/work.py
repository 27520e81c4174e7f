"""Electric power an hour ahead, and a day ahead: the paper's regression, with forecasts that can be wrong.

Four settings, all evaluated on the same test hours:

- ``paper``: one hour predicts the next, squared error, no variance head. What the paper did.
- ``hour``: the same with a variance head, so that a forecast is a distribution.
- ``day``: 24 hours and the calendar predict the next hour.
- ``paths``: 24 hours of the power alone are continued for 24 hours by Monte Carlo paths.

A distribution is kept as points of equal probability, so that networks, boosted trees and naive forecasts are evaluated
alike.
With a variance head the logarithm of the power is predicted: power is positive and skewed, its logarithm is nearly
Gaussian. All numbers are in kW.
"""

from __future__ import annotations

import gzip
import json
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sttau.files import write_atomically
from sttau.inference import RegressionPrediction, forecast, predict
from sttau.jobs import Cell, Outcome, Result, Step, earlier_results, per_cell, run_cells, write_results
from sttau.layers import BayesLSTM, STTauGRU, STTauLSTM, VariationalDropoutLSTM
from sttau.metrics import gaussian_nll
from sttau.models import DeepEnsemble, Predictor, SequenceModel, SequenceRegressor
from sttau.seeds import derive_seed
from sttau.training import fit
from sttau_reproduction.power.data import (
    CALENDAR,
    CENTRE,
    DEVIATION,
    MEAN,
    SCALE,
    Hours,
    hours,
    read_calendar,
    split_of,
    to_log_scale,
    to_power,
)
from sttau_reproduction.power.declaration import AHEAD, EXPERIMENT, Plan, cells, name_of
from sttau_reproduction.power.evaluation import evaluate, recalibrate, summarize
from sttau_reproduction.power.mixture import StateMixture, read_states
from sttau_reproduction.power.shown import read_hours, reduce_hours

_POINTS = 1000  # of equal probability, that represent a distribution


class Forecast(NamedTuple):
    """A forecast of all test hours, as points, and further metrics."""

    points: Tensor
    mean: Tensor
    extra: dict[str, float]


# ---------------------------------------------------------------------------------------------------------- networks


def build(method: str, features: int, hidden_size: int, head: str, made: dict[str, Any], seed: int) -> Predictor:
    """Make the network of a method.

    Example:
        >>> build("st-tau", 7, 16, "law", {"num_states": 4, "paths": 2}, seed=0).layer
        STTauLSTM(7, 16, num_states=4)
    """
    options = dict(made)
    size, paths = options.pop("size", 1), options.pop("paths", 1)
    layers: dict[str, Callable[..., Any]] = {
        "automaton": STTauGRU, "bayes": BayesLSTM, "dropout": VariationalDropoutLSTM, "st-tau": STTauLSTM
    }  # fmt: skip

    def make() -> SequenceModel:
        layer = layers.get(method, nn.LSTM)(features, hidden_size, **options)
        return SequenceRegressor(layer, variance=head == "law", paths=paths)

    ensemble = DeepEnsemble.of(make, size, derive_seed(seed, "weights"))
    return ensemble if method == "ensemble" else ensemble.members[0]


def train(cell: Cell, folder: Path | None = None) -> Predictor:
    """Train the network of a cell; the weights that were best on the validation hours are kept."""
    settings, data, held_out = cell.settings, split_of(cell, "train"), split_of(cell, "validation")
    variance = settings["head"] == "law"
    made = settings["made"]
    model = build(cell.method, data.inputs.shape[2], settings["hidden_size"], settings["head"], made, cell.seed)

    def scaled(power: Tensor) -> Tensor:
        return to_log_scale(power) if variance else (power - MEAN) / DEVIATION

    truth = scaled(held_out.power)

    def validate() -> float:
        if model.resolve_mode(None) == "exact":
            return read_states(model, held_out).nll(truth)
        mean, spread = predict_samples(model, held_out, min(4, settings["samples"]), cell.seed)
        return gaussian_nll(mean, spread, truth) if variance else float((mean.mean(0)[:, 0] - truth).square().mean())

    fit(
        model,
        data.inputs,
        scaled(data.power).float(),
        data.lengths,
        updates=settings["updates"],
        batch_size=settings["batch_size"],
        learning_rate=settings["learning_rate"],
        schedule="cosine",
        ema_decay=0.995,
        seed=cell.seed,
        validation=validate,
        validate_every=max(20, settings["updates"] // 8),
        folder=folder,
    )
    return model.eval()


def predict_samples(model: Predictor, hours: Hours, samples: int, seed: int) -> tuple[Tensor, Tensor]:
    """Mean and variance of each sample, (samples, hours, 1), on the scale on which the network predicts."""
    answer: RegressionPrediction = predict(model, hours.inputs, hours.lengths, samples, seed, keep_samples=True)
    assert answer.samples is not None
    assert answer.sample_variance is not None
    return answer.samples.double(), answer.sample_variance.double()


def forecast_distribution(mean: Tensor, variance: Tensor, power: Tensor) -> Forecast:
    """The mixture of the log-normal distributions of samples, and its variance by source."""
    runs = len(mean)
    share = (torch.arange(_POINTS // runs, dtype=torch.float64) + 0.5) / (_POINTS // runs)
    steps: Tensor = torch.special.ndtri(share)
    middle, spread = CENTRE + SCALE * mean[..., 0], SCALE**2 * variance[..., 0]
    each = (middle + spread / 2).exp()  # the mean of each sample's distribution
    noise = spread.expm1() * each.square()
    return Forecast(
        to_power(mean[..., 0] + variance[..., 0].sqrt() * steps[:, None, None]).flatten(0, 1),
        each.mean(0),
        {
            "nll": gaussian_nll(mean, variance, to_log_scale(power)) + float((SCALE * power).log().mean()),
            "aleatoric": math.sqrt(float(noise.mean())),
            "epistemic": math.sqrt(float(each.var(0, correction=0).mean())),
        },
    )


def forecast_mean(mean: Tensor) -> Forecast:
    """Forecast of a network without variance head: the spread of samples is all its uncertainty."""
    power = MEAN + DEVIATION * mean[..., 0]
    middle, deviation = power.mean(0), power.std(0, correction=0)
    share = (torch.arange(100, dtype=torch.float64) + 0.5) / 100
    points = middle + deviation * torch.special.ndtri(share)[:, None]
    return Forecast(points, middle, {"epistemic": math.sqrt(float(deviation.square().mean()))})


def forecast_states(states: StateMixture, power: Tensor) -> Forecast:
    """The mixture of the log-normal distributions of all states."""
    middle, spread = CENTRE + SCALE * states.mean, SCALE**2 * states.variance
    each = (middle + spread / 2).exp()
    mean = states.weights @ each
    return Forecast(
        to_power(states.points(_POINTS)),
        mean,
        {
            "nll": states.nll(to_log_scale(power)) + float((SCALE * power).log().mean()),
            "aleatoric": math.sqrt(float((states.weights @ (spread.expm1() * each.square())).mean())),
            "epistemic": math.sqrt(float((states.weights @ each.square() - mean.square()).mean())),
        },
    )


def forecast_hours(model: Predictor, hours: Hours, cell: Cell) -> Forecast:
    """Forecast by the network of a cell."""
    if model.resolve_mode(None) == "exact":
        return forecast_states(read_states(model, hours), hours.power)
    mean, variance = predict_samples(model, hours, cell.settings["samples"], cell.seed)
    if cell.settings["head"] == "law":
        return forecast_distribution(mean, variance, hours.power)
    return forecast_mean(mean)


def _network(cell: Cell, folder: Path) -> tuple[dict[str, float], dict[str, Any]]:
    model = train(cell, folder / cell.key)
    test, settings = split_of(cell, "test"), cell.settings
    if settings["setting"] == "paths":
        return _continue(cell, model)
    answer = forecast_hours(model, test, cell)
    extra = dict(answer.extra)
    layer = model.members[0].layer
    if layer.num_states is not None and len(model.members) == 1 and layer.mode != "exact":
        extra["tau"] = layer.temperature.item()
    if settings["head"] == "law":
        held_out = split_of(cell, "validation")
        said = forecast_hours(model, held_out, cell)
        better = evaluate(recalibrate(answer.points, said.points, held_out.power), answer.mean, test.power)
        extra |= {f"{name}_recalibrated": value for name, value in better.items() if name not in ("mse", "mae")}
        extra["crps_validation"] = evaluate(said.points, said.mean, held_out.power)["crps"]
    return evaluate(answer.points, answer.mean, test.power) | extra, summarize(*answer[:2], test.power)


# -- a day ahead ---------------------------------------------------------------------------------------------------


def starts_of(hours: int, count: int, ahead: int) -> Tensor:
    """Rows of the test hours whose label is the first hour of a path, evenly spread, all times of the day."""
    return torch.linspace(0, hours - ahead, count).long()


def _targets(cell: Cell, test: Hours) -> tuple[Tensor, Tensor]:
    """Rows of the first hours, and the power of the hours to come: (starts, 24)."""
    first = starts_of(len(test.power), cell.settings["starts"], AHEAD[-1])
    return first, test.power[first[:, None] + torch.arange(AHEAD[-1])]


def _continue(cell: Cell, model: Predictor) -> tuple[dict[str, float], dict[str, Any]]:
    test = split_of(cell, "test")
    first, power = _targets(cell, test)
    hour = torch.from_numpy(test.times.astype(np.int64))[first][:, None] + torch.arange(AHEAD[-1])
    answer = forecast(
        model,
        test.inputs[first],
        AHEAD[-1],
        cell.settings["paths"] // len(model.members),
        cell.seed,
        known=read_calendar(hour),
    )
    return _evaluate_paths(to_power(answer.paths[..., 0].double()), None, power)


def _evaluate_paths(points: Tensor, mean: Tensor | None, power: Tensor) -> tuple[dict[str, float], dict[str, Any]]:
    """Evaluate (points, starts, 24) at some hours ahead, and over the whole day."""
    mean = points.mean(0) if mean is None else mean
    metrics = evaluate(points.flatten(1), mean.flatten(), power.flatten())
    for hour in AHEAD:
        at = evaluate(points[:, :, hour - 1], mean[:, hour - 1], power[:, hour - 1])
        metrics |= {f"{name}_at_{hour}": at[name] for name in ("mse", "crps", "coverage_80", "coverage_95")}
    return metrics, summarize(points.flatten(1), mean.flatten(), power.flatten())


# --------------------------------------------------------------------------------------------------------- baselines


def _whole(rows: int | None) -> tuple[Tensor, int, int]:
    """The power of all hours in one row, and where the training and the test hours begin and end in it."""
    parts = [hours(split, 1, 7, False, rows).power for split in ("train", "validation", "test")]
    return torch.cat(parts), len(parts[0]), len(parts[0]) + len(parts[1])


def _naive(cell: Cell) -> tuple[dict[str, float], dict[str, Any]]:
    """The value some hours before; the distribution is that of the ratio to it over the training hours."""
    power, training, begin = _whole(cell.settings["rows"])
    lag = cell.settings["lag"]

    def ratios(now: Tensor, lag: int) -> tuple[Tensor, Tensor]:
        ratio = (power[lag:training] / power[: training - lag]).sort().values
        share = (torch.arange(_POINTS, dtype=torch.float64) + 0.5) / _POINTS
        return torch.quantile(ratio, share)[:, None] * now, now

    test = power[begin:]
    if cell.settings["setting"] != "paths":
        points, mean = ratios(power[begin - lag : len(power) - lag], lag)
        return evaluate(points, mean, test), summarize(points, mean, test)
    first, targets = _targets(cell, Hours(test, test, test, np.empty(0)))
    parts = []
    for step in range(AHEAD[-1]):
        back = step + 1 if lag == 1 else lag  # of persistence, the last value that is known
        parts.append(ratios(power[begin + first + step - back], back))
    points, mean = (torch.stack(part, dim=-1) for part in zip(*parts, strict=True))
    return _evaluate_paths(points, mean, targets)


def _boosted(cell: Cell) -> tuple[dict[str, float], dict[str, Any]]:
    """Boosted trees: the mean; and a distribution of log power by location and scale, shaped as on validation hours."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import KFold, cross_val_predict

    def table(hours: Hours) -> np.ndarray[Any, Any]:
        if not cell.settings["calendar"]:
            return hours.inputs.flatten(1).numpy()
        own, last = hours.inputs[..., :-CALENDAR], hours.inputs[:, -1, -CALENDAR:]
        return torch.cat([own.flatten(1), last], dim=1).numpy()  # the calendar of the hour to come

    data, held_out, test = (split_of(cell, split) for split in ("train", "validation", "test"))
    inputs = table(data)
    new = partial(
        HistGradientBoostingRegressor, learning_rate=0.05, max_iter=cell.settings["trees"], random_state=cell.seed
    )
    mean = new().fit(inputs, data.power.numpy())
    truth = to_log_scale(data.power).numpy()
    place = new().fit(inputs, truth)
    apart = cross_val_predict(new(), inputs, truth, cv=KFold(3))
    spread = new(loss="squared_error").fit(inputs, np.log(np.abs(truth - apart) + 1e-3))

    def location(hours: Hours) -> tuple[Tensor, Tensor]:
        rows = table(hours)
        return torch.from_numpy(place.predict(rows)), torch.from_numpy(np.exp(spread.predict(rows)))

    middle, scale = location(held_out)
    share = (torch.arange(_POINTS, dtype=torch.float64) + 0.5) / _POINTS
    shape = torch.quantile((to_log_scale(held_out.power) - middle) / scale, share)
    middle, scale = location(test)
    points, said = to_power(middle + scale * shape[:, None]), torch.from_numpy(mean.predict(table(test)))
    return evaluate(points, said, test.power), summarize(points, said, test.power)


# --------------------------------------------------------------------------------------------------------------- runs


def measure(cell: Cell, folder: Path, kept: Path) -> Result:
    """Compute one cell; what figures need is left in ``kept``."""
    torch.set_num_threads(1)
    began = time.perf_counter()
    if "lag" in cell.settings:
        metrics, shape = _naive(cell)
    elif cell.method == "boosted trees":
        metrics, shape = _boosted(cell)
    else:
        metrics, shape = _network(cell, folder)
    seconds = round(time.perf_counter() - began, 3)
    line = {
        "setting": cell.settings["setting"],
        "method": cell.method,
        "seed": cell.seed,
        "name": name_of(cell),
        **shape,
    }
    write_atomically(kept / f"{cell.key}.json", json.dumps(line, sort_keys=True).encode())
    states = cell.settings.get("made", {}).get("num_states")
    rounded = {name: round(value, 6) for name, value in metrics.items()}
    return Result(EXPERIMENT, cell.data, cell.method, states, cell.seed, rounded, cell.settings, seconds)


def _identity(cell: Cell | Result) -> tuple[str, str, int]:
    """What a line of results is of."""
    return cell.settings["setting"], name_of(cell), cell.seed


def run(
    folder: Path,
    plan: Plan | None = None,
    workers: int = 1,
    progress: Callable[[Step], None] = lambda _: None,
    methods: Sequence[str] = (),
) -> Outcome:
    """Make every cell that the folder does not hold yet; write ``results.jsonl.gz`` and ``hours.jsonl.gz`` into it.

    Args:
        folder: Folder for results; finished cells are kept in ``cells`` below it.
        plan: Plan of the cells; all of them by default.
        workers: Number of processes.
        progress: Callback, called with every cell.
        methods: Methods that are computed; the lines of all others stay as they are. All if empty.
    """
    planned = list(cells(plan or Plan()))
    known = {cell.method for cell in planned}
    for method in methods:
        if method not in known:
            raise ValueError(f"there is no method {method!r}; choose among {', '.join(sorted(known))}")
    every = [cell for cell in planned if not methods or cell.method in methods]
    kept = folder / "cells" / "hours"
    outcome = run_cells(
        every, per_cell(partial(measure, kept=kept)), folder / "cells", workers=workers, progress=progress
    )
    lines = [json.loads(path.read_text("utf-8")) for cell in every if (path := kept / f"{cell.key}.json").exists()]
    shown = {(line["setting"], line["name"], line["seed"]): reduce_hours(line) for line in lines}
    results = {_identity(result): result for result in outcome.results}
    if methods:
        results = {_identity(result): result for result in earlier_results(folder / "results.jsonl.gz")} | results
        earlier = read_hours(folder / "hours.jsonl.gz") if (folder / "hours.jsonl.gz").exists() else []
        shown = {(line["setting"], line["name"], line["seed"]): line for line in earlier} | shown
    order = [_identity(cell) for cell in planned]
    write_results([results[key] for key in order if key in results], folder / "results.jsonl.gz")
    ordered = [json.dumps(shown[key], sort_keys=True) + "\n" for key in order if key in shown]
    write_atomically(folder / "hours.jsonl.gz", gzip.compress("".join(ordered).encode(), mtime=0))
    return outcome
