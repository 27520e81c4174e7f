"""Electric power an hour ahead, and a day ahead: the paper's regression, with forecasts that can be wrong.

Four settings, all evaluated on the same test hours:

- ``paper``: one hour predicts the next, squared error, no variance head. What the paper did.
- ``hour``: the same with a variance head, so that a forecast is a distribution.
- ``day``: 24 hours and the calendar predict the next hour.
- ``paths``: 24 hours of the power alone are continued for 24 hours by Monte-Carlo paths.

A distribution is kept as points of equal probability, so that networks, boosted trees and naive forecasts are evaluated
alike.
With a variance head the logarithm of the power is predicted: power is positive and skewed, its logarithm is nearly
Gaussian. All numbers are in kW.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from sttau.data import load
from sttau.files import write_atomically
from sttau.inference import RegressionPrediction, forecast, predict
from sttau.jobs import Cell, Outcome, Result, Step, per_cell, run_cells, write_results
from sttau.layers import BayesLSTM, STTauLSTM, VariationalDropoutLSTM
from sttau.metrics import gaussian_nll, pit_histogram, sample_crps
from sttau.models import DeepEnsemble, Predictor, SequenceModel, SequenceRegressor
from sttau.seeds import derive_seed
from sttau.training import fit
from sttau_reproduction.power.shown import reduce_hours

EXPERIMENT = "household-power"
VERSION = 1
LEVELS = (0.5, 0.8, 0.95)
AHEAD = (1, 6, 12, 24)  # hours at which paths are evaluated
SHOWN = 24 * 7  # hours whose forecasts are kept for figures
BINS = 20  # of PIT histograms

_POINTS = 1000  # of equal probability, that represent a distribution
_CALENDAR = 5  # features


@dataclass(frozen=True)
class Plan:
    """Which cells there are, and how long they are trained."""

    seeds: int = 3
    hidden_size: int = 100
    updates: dict[str, int] = field(default_factory=lambda: {"paper": 600, "hour": 1000, "day": 1200, "paths": 800})
    samples: int = 10
    rows: int | None = None  # training hours, the last ones; None for all
    starts: int = 60  # hours of the test year from which paths begin
    paths: int = 60
    trees: int = 300  # of a boosted model
    history: int = 24  # hours that are read for the ``day`` and for ``paths``

    def reads(self, setting: str) -> dict[str, Any]:
        """What networks read under a setting."""
        longer = {"history": self.history} if SETTINGS[setting]["history"] > 1 else {}
        return {"setting": setting, **SETTINGS[setting], **longer, "rows": self.rows}


QUICK = Plan(
    seeds=1, hidden_size=8, updates=dict.fromkeys(("paper", "hour", "day", "paths"), 20), samples=3, rows=600, starts=5,
    paths=20, trees=3,
)  # fmt: skip

#: What a setting reads: hours, columns of the data, and whether the calendar.
SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {"history": 1, "columns": 7, "calendar": False, "head": "mean"},
    "hour": {"history": 1, "columns": 7, "calendar": False, "head": "law"},
    "day": {"history": 24, "columns": 7, "calendar": True, "head": "law"},
    "paths": {"history": 24, "columns": 1, "calendar": True, "head": "law"},
}
_BATCH = {"paper": 256, "hour": 256, "day": 64, "paths": 64}
_RATE = {"paper": 0.01, "hour": 0.03, "day": 0.02, "paths": 0.02}

#: Methods, with what they are made with; chosen on the validation hours.
METHODS: dict[str, dict[str, Any]] = {
    "lstm": {},
    "ensemble": {"size": 5},
    "bayes": {"prior_scale": 0.5},
    "dropout": {"dropout": 0.1},
    "st-tau": {"num_states": 10, "readout": "state"},
}
_WITH_VARIANCE: dict[str, dict[str, Any]] = {"st-tau": {"paths": 4}}  # in addition, with a variance head
_LONGER: dict[str, dict[str, Any]] = {  # where more than one hour is read
    "dropout": {"dropout": 0.1, "input_dropout": 0.0},
    "st-tau": {"num_states": 10, "readout": "cell", "temperature": 5.0, "peephole": True},
}


def cells(plan: Plan) -> Iterator[Cell]:
    """List all cells of a plan: the baselines, then seed by seed."""
    for setting in ("hour", "day", "paths"):
        shared = plan.reads(setting)
        hours = {"starts": plan.starts} if setting == "paths" else {}
        for name, lag in (("persistence", 1), ("seasonal, 24 h", 24), ("seasonal, 168 h", 168)):
            yield Cell(EXPERIMENT, "household_power", name, 0, {**shared, **hours, "lag": lag}, VERSION)
        if setting != "paths":
            yield Cell(EXPERIMENT, "household_power", "boosted trees", 0, shared | {"trees": plan.trees}, VERSION)
    for seed in range(plan.seeds):
        for setting in SETTINGS:
            for method, made in _makes(setting):
                settings = {
                    **plan.reads(setting),
                    "hidden_size": plan.hidden_size,
                    "made": made,
                    "updates": plan.updates[setting],
                    "batch_size": _BATCH[setting],
                    "learning_rate": _RATE[setting],
                    "samples": plan.samples,
                }
                if setting == "paths":
                    settings |= {"starts": plan.starts, "paths": plan.paths}
                yield Cell(EXPERIMENT, "household_power", method, seed, settings, VERSION)


def _makes(setting: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The networks of a setting, each with what it is made with."""
    reads = SETTINGS[setting]
    for method in METHODS if setting != "paths" else ("lstm", "st-tau"):
        made = METHODS[method] | (_LONGER.get(method, {}) if reads["history"] > 1 else {})
        if reads["head"] == "law":
            made = made | _WITH_VARIANCE.get(method, {})
        yield method, made
        if method == "st-tau" and setting == "hour":
            yield method, made | {"paths": 1}


# --------------------------------------------------------------------------------------------------------------- data


class Hours(NamedTuple):
    """One split: what is read, and the power that is to be predicted, in kW."""

    inputs: Tensor  # (hours, history, features)
    lengths: Tensor
    power: Tensor  # (hours,) float64
    times: np.ndarray[Any, Any]  # of the hours that are predicted


def read_hours(split: str, history: int, columns: int, calendar: bool, rows: int | None = None) -> Hours:
    """Read a split; the first feature is log power, scaled like what networks predict, so that they can continue it.

    Args:
        split: ``train``, ``validation`` or ``test``.
        history: hours that are read.
        columns: of the data: all seven, or one for the power alone.
        calendar: add the hour of the day, whether it is a weekend, and the time of the year, of the hour to come.
        rows: training hours, the last ones; None for all.
    """
    data = load("household_power", split, history=history)
    if rows is not None:
        data = data.select(torch.arange(len(data))[-rows:])
    assert data.label_scale is not None
    assert data.ids is not None
    low, factor = data.label_scale
    inputs = data.inputs[:, :, :columns].clone()
    inputs[:, :, 0] = to_log_scale(low + factor * inputs[:, :, 0].double()).float()
    times = np.array(data.ids, "datetime64[h]")
    if calendar:
        back = data.lengths[:, None] - 1 - torch.arange(inputs.shape[1])
        inputs = torch.cat([inputs, read_calendar(torch.from_numpy(times.astype(np.int64))[:, None] - back)], dim=-1)
    return Hours(inputs, data.lengths, low + factor * data.labels.double(), times)


#: Mean and standard deviation of log kW over the training hours, rounded: the scale on which networks predict.
CENTRE, SCALE = -0.28, 0.88
_MEAN, _DEVIATION = 1.09, 0.92  # of kW itself, for networks without variance head


def to_log_scale(power: Tensor) -> Tensor:
    """Put kW on the logarithmic scale on which networks predict a distribution."""
    return (power.log() - CENTRE) / SCALE


def to_power(value: Tensor) -> Tensor:
    """Return from that scale to kW."""
    return (CENTRE + SCALE * value).exp()


def read_calendar(hour: Tensor) -> Tensor:
    """(…, 5) features of hours that are counted from 1970: time of day, weekend, time of year.

    Example:
        >>> read_calendar(torch.tensor([0])).tolist()  # a Thursday at midnight
        [[0.0, 1.0, 0.0, 0.0, 1.0]]
    """
    day, year = 2 * math.pi * (hour % 24) / 24, 2 * math.pi * (hour / 24 % 365.2425) / 365.2425
    weekend = (torch.div(hour, 24, rounding_mode="floor") + 3) % 7 >= 5
    return torch.stack([day.sin(), day.cos(), weekend.float(), year.sin(), year.cos()], dim=-1).float()


@cache
def _hours(split: str, history: int, columns: int, calendar: bool, rows: int | None) -> Hours:
    return read_hours(split, history, columns, calendar, rows if split == "train" else None)


def _split(cell: Cell, split: str) -> Hours:
    return _hours(split, *(cell.settings[name] for name in ("history", "columns", "calendar", "rows")))


# --------------------------------------------------------------------------------------------------------- judgement


def evaluate(points: Tensor, mean: Tensor, power: Tensor) -> dict[str, float]:
    """Measure forecasts that are points of equal probability: errors, CRPS, coverage (in percent) and width.

    Args:
        points: (points, hours) in kW.
        mean: (hours,) point forecasts.
        power: (hours,) measured power.

    Example:
        >>> found = evaluate(torch.arange(1.0, 100.0)[:, None] / 10, torch.tensor([5.0]), torch.tensor([8.0]))
        >>> found["mse"], found["coverage_80"], round(found["width_80"], 2)
        (9.0, 100.0, 7.92)
    """
    ordered = points.sort(dim=0).values
    metrics = {
        "mse": float((mean - power).square().mean()),
        "mae": float((quantile(ordered, 0.5) - power).abs().mean()),
        "crps": sample_crps(ordered, power, fair=False),
    }
    for level in LEVELS:
        low, high = quantile(ordered, (1 - level) / 2), quantile(ordered, (1 + level) / 2)
        metrics[f"coverage_{100 * level:.0f}"] = 100 * float(((low <= power) & (power <= high)).double().mean())
        metrics[f"width_{100 * level:.0f}"] = float((high - low).mean())
    return metrics


def quantile(ordered: Tensor, share: float) -> Tensor:
    """Quantile of points that are in order, (points, …), each in the middle of its share."""
    place = min(max(share * len(ordered) - 0.5, 0.0), len(ordered) - 1.0)
    below = math.floor(place)
    return torch.lerp(ordered[below], ordered[min(below + 1, len(ordered) - 1)], place - below)


def recalibrate(points: Tensor, held_out: Tensor, power: Tensor) -> Tensor:
    """Recalibrate the quantiles of a distribution on held-out hours (Kuleshov et al., 2018).

    Args:
        points: (points, hours) of the distribution to be recalibrated.
        held_out: (points, other hours) of the same forecaster.
        power: (other hours,) power measured there.

    Example:
        >>> wide = torch.linspace(-3, 3, 601)[:, None].expand(-1, 1001)  # far too wide
        >>> better = recalibrate(wide, wide, torch.linspace(-1, 1, 1001))
        >>> round(better.max().item(), 1), round(better.min().item(), 1)
        (1.0, -1.0)
    """
    ordered = points.sort(dim=0).values
    pit = (held_out < power).double().mean(0)
    share = (torch.arange(len(points), dtype=torch.float64) + 0.5) / len(points)
    place = (torch.quantile(pit, share) * len(points) - 0.5).clamp(0, len(points) - 1)
    below = place.floor().long()
    above = (below + 1).clamp_max(len(points) - 1)
    return torch.lerp(ordered[below], ordered[above], (place - below).to(ordered)[:, None])


def _shape(points: Tensor, mean: Tensor, power: Tensor) -> dict[str, Any]:
    """What figures show: the first hours, and the PIT histogram of all."""
    ordered = points.sort(dim=0).values[:, : len(power)]
    pit = (ordered < power).double().mean(0)

    def short(values: Tensor) -> list[float]:
        return [round(value, 4) for value in values[:SHOWN].tolist()]

    return {
        "power": short(power),
        "mean": short(mean),
        "squared_error": short((mean - power).square()),
        "bands": {f"{100 * share:g}": short(quantile(ordered, share)) for share in (0.025, 0.25, 0.5, 0.75, 0.975)},
        "pit": [round(value, 4) for value in pit_histogram(pit, BINS).density.tolist()],
    }


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
        STTauLSTM(7, 16, 4)
    """
    options = dict(made)
    size, paths = options.pop("size", 1), options.pop("paths", 1)
    layers: dict[str, Callable[..., Any]] = {
        "bayes": BayesLSTM, "dropout": VariationalDropoutLSTM, "st-tau": STTauLSTM
    }  # fmt: skip

    def make() -> SequenceModel:
        layer = layers.get(method, nn.LSTM)(features, hidden_size, **options)
        return SequenceRegressor(layer, variance=head == "law", paths=paths)

    ensemble = DeepEnsemble.of(make, size, derive_seed(seed, "weights"))
    return ensemble if method == "ensemble" else ensemble.members[0]


def train(cell: Cell, folder: Path | None = None) -> Predictor:
    """Train the network of a cell; the weights that were best on the validation hours are kept."""
    settings, data, held_out = cell.settings, _split(cell, "train"), _split(cell, "validation")
    variance = settings["head"] == "law"
    made = settings["made"]
    model = build(cell.method, data.inputs.shape[2], settings["hidden_size"], settings["head"], made, cell.seed)

    def scaled(power: Tensor) -> Tensor:
        return to_log_scale(power) if variance else (power - _MEAN) / _DEVIATION

    truth = scaled(held_out.power)

    def validate() -> float:
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
    power = _MEAN + _DEVIATION * mean[..., 0]
    middle, deviation = power.mean(0), power.std(0, correction=0)
    share = (torch.arange(100, dtype=torch.float64) + 0.5) / 100
    points = middle + deviation * torch.special.ndtri(share)[:, None]
    return Forecast(points, middle, {"epistemic": math.sqrt(float(deviation.square().mean()))})


def _network(cell: Cell, folder: Path) -> tuple[dict[str, float], dict[str, Any]]:
    model = train(cell, folder / cell.key)
    test, settings = _split(cell, "test"), cell.settings
    if settings["setting"] == "paths":
        return _continue(cell, model)
    mean, variance = predict_samples(model, test, settings["samples"], cell.seed)
    answer = forecast_distribution(mean, variance, test.power) if settings["head"] == "law" else forecast_mean(mean)
    extra = dict(answer.extra)
    if isinstance(model.layer, STTauLSTM) and not isinstance(model, DeepEnsemble):
        extra["tau"] = model.layer.temperature.item()
    if settings["head"] == "law":
        held_out = _split(cell, "validation")
        said = forecast_distribution(*predict_samples(model, held_out, settings["samples"], cell.seed), held_out.power)
        better = evaluate(recalibrate(answer.points, said.points, held_out.power), answer.mean, test.power)
        extra |= {f"{name}_recalibrated": value for name, value in better.items() if name not in ("mse", "mae")}
        extra["crps_validation"] = evaluate(said.points, said.mean, held_out.power)["crps"]
    return evaluate(answer.points, answer.mean, test.power) | extra, _shape(*answer[:2], test.power)


# -- a day ahead ---------------------------------------------------------------------------------------------------


def starts_of(hours: int, count: int, ahead: int) -> Tensor:
    """Rows of the test hours whose label is the first hour of a path, evenly spread, all times of the day."""
    return torch.linspace(0, hours - ahead, count).long()


def _targets(cell: Cell, test: Hours) -> tuple[Tensor, Tensor]:
    """Rows of the first hours, and the power of the hours to come: (starts, 24)."""
    first = starts_of(len(test.power), cell.settings["starts"], AHEAD[-1])
    return first, test.power[first[:, None] + torch.arange(AHEAD[-1])]


def _continue(cell: Cell, model: Predictor) -> tuple[dict[str, float], dict[str, Any]]:
    test = _split(cell, "test")
    first, power = _targets(cell, test)
    hour = torch.from_numpy(test.times.astype(np.int64))[first][:, None] + 1 + torch.arange(AHEAD[-1])
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
    return metrics, _shape(points.flatten(1), mean.flatten(), power.flatten())


# --------------------------------------------------------------------------------------------------------- baselines


def _whole(rows: int | None) -> tuple[Tensor, int, int]:
    """The power of all hours in one row, and where the training and the test hours begin and end in it."""
    parts = [_hours(split, 1, 7, False, rows).power for split in ("train", "validation", "test")]
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
        return evaluate(points, mean, test), _shape(points, mean, test)
    first, targets = _targets(cell, Hours(test, test, test, np.empty(0)))
    parts = []
    for step in range(AHEAD[-1]):
        back = step + 1 if lag == 1 else lag  # of persistence, the last value that is known
        parts.append(ratios(power[begin + first + step - back], back))
    points, mean = (torch.stack(part, dim=-1) for part in zip(*parts, strict=True))
    return _evaluate_paths(points, mean, targets)


def _boosted(cell: Cell) -> tuple[dict[str, float], dict[str, Any]]:
    """Boosted trees: the mean; and log power by location and scale, with the distribution of validation hours."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import KFold, cross_val_predict

    def table(hours: Hours) -> np.ndarray[Any, Any]:
        if not cell.settings["calendar"]:
            return hours.inputs.flatten(1).numpy()
        own, last = hours.inputs[..., :-_CALENDAR], hours.inputs[:, -1, -_CALENDAR:]
        return torch.cat([own.flatten(1), last], dim=1).numpy()  # the calendar of the hour to come

    data, held_out, test = (_split(cell, split) for split in ("train", "validation", "test"))
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
    return evaluate(points, said, test.power), _shape(points, said, test.power)


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


def name_of(result: Cell | Result) -> str:
    """The method, and what distinguishes it from others of that name."""
    made = result.settings.get("made", {})
    alone = result.method == "st-tau" and result.settings["head"] == "law" and made.get("paths", 1) == 1
    return f"{result.method}, one path" if alone else result.method


def run(
    folder: Path, plan: Plan | None = None, workers: int = 1, progress: Callable[[Step], None] = lambda _: None
) -> Outcome:
    """Make every cell that the folder does not hold yet; write ``results.jsonl`` and ``hours.jsonl`` into it.

    Args:
        folder: for results; finished cells are kept in ``cells`` below it.
        plan: which cells; all by default.
        workers: processes at a time.
        progress: Callback, called with every cell.
    """
    every = list(cells(plan or Plan()))
    kept = folder / "cells" / "hours"
    outcome = run_cells(
        every, per_cell(partial(measure, kept=kept)), folder / "cells", workers=workers, progress=progress
    )
    write_results(outcome.results, folder / "results.jsonl")
    shown = [json.loads(path.read_text("utf-8")) for cell in every if (path := kept / f"{cell.key}.json").exists()]
    lines = [json.dumps(reduce_hours(line), sort_keys=True) + "\n" for line in shown]
    write_atomically(folder / "hours.jsonl", "".join(lines).encode())
    return outcome
