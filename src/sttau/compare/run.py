"""Train all methods under all seeds, ask them, and put the answers side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_tensor
from sttau.compare.cells import Cell, Splits, ask_cell, check_folder, parameters_of, states_of, train_cell
from sttau.compare.measures import MEASURES, Rows, adjust, evaluate, intervals, p_values
from sttau.compare.table import Comparison, Row
from sttau.data import SPLITS, SequenceDataset, load
from sttau.jobs.results import Result
from sttau.methods import DataSpec, Factory, build, resolve
from sttau.models import Predictor
from sttau.training import TrainOptions

#: How every network is trained unless something else is asked for; handed to ``training.fit``.
TRAINING: dict[str, Any] = {
    "updates": 1000,
    "batch_size": 64,
    "learning_rate": 0.01,
    "validate_every": 50,
    "patience": 10,
}
_OWN = ("seed", "metric", "mode", "folder", "callbacks")  # arguments of fit that compare sets itself


def compare(
    methods: Iterable[str] | Mapping[str, str | Factory],
    data: str | Sequence[SequenceDataset],
    *,
    foreign: Any = None,
    reference: str | None = None,
    seeds: int | Sequence[int] = 3,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    hidden_size: int = 64,
    samples: int = 10,
    scaling: bool = False,
    folder: str | os.PathLike[str] | None = None,
    device: torch.device | str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    rounds: int = 1999,
    progress: bool = True,
    on_network: Callable[[str], None] = lambda _: None,
    **training: Any,
) -> Comparison:
    """Train several methods the same way on the same data, and say which is better, and how sure that is.

    Every method is trained under every seed with the same number of updates, batches, optimizer and early stopping on
    the negative log-likelihood of the validation data. Test data is only looked at in the end. A value is the mean over
    seeds. Its interval is a bootstrap over test examples and its p-value that of an approximate randomization test
    against the reference: both say how things would be with other test data, for the networks that were trained; the
    spread over seeds says how they vary with training.

    Args:
        methods: names of ``sttau.compare.METHODS``; or names of your own with a method each, or with a function of
            the training data and a seed that makes a model.
        data: the name of a data set, or (train, validation, test). Labels are classes or numbers; for numbers every
            network also predicts a variance, and errors are in the unit of the labels as they are given.
        foreign: sequences from elsewhere that should be noticed: a data set, its name (the test part is taken), or
            inputs. Adds AUROC and AUPR of 1 - confidence.
        reference: the method all others are tested against; the first by default.
        seeds: how many, from 0 on, or which.
        settings: arguments of a method's layer by the method's name, beside ``size`` of an ensemble, ``cell``
            (``lstm`` or ``gru``) and ``embedding_size``: ``{"st-tau": {"num_states": 20}}``.
        hidden_size: of all layers whose settings do not say otherwise. ``bayes`` takes no more than pays for itself,
            two weights for each training sequence, unless told to.
        samples: Monte-Carlo runs a prediction.
        scaling: also show each classifier after temperature scaling fitted on the validation data.
        folder: for checkpoints. The same call goes on where it was interrupted, and trains nothing twice; more methods
            or seeds may be added.
        device: where; the GPU if there is one.
        level: of the intervals.
        resamples: of the bootstrap.
        rounds: of the randomization test.
        progress: show a bar for each network that is trained, where there is a terminal.
        on_network: is told which network is at work.
        training: arguments of ``training.fit`` in place of ``TRAINING``: ``updates``, ``batch_size``,
            ``learning_rate``, ``validate_every``, ``patience``, ``optimizer``, ``precision``, ….

    Example:
        >>> comparison = compare(["lstm", "st-tau"], "digits", seeds=1, hidden_size=8, updates=20, rounds=99)
        >>> [row["method"] for row in comparison.rows if row["metric"] == "nll"]
        ['lstm', 'st-tau']
    """
    named = {name: name for name in methods} if not isinstance(methods, Mapping) else dict(methods)
    if isinstance(methods, str) or not named:
        raise ValueError(f"methods must be a list of names, such as ['lstm', 'st-tau'], got {methods!r}")
    splits = _splits(data, foreign)
    task = DataSpec.of(splits.train, splits.validation, splits.test)
    reference = next(iter(named)) if reference is None else reference
    if reference not in named:
        raise ValueError(f"reference must be one of the methods, {', '.join(named)}, got {reference!r}")
    if scaling and task.classes is None:
        raise ValueError("scaling is for classes, but the labels are numbers; leave it out")
    chosen = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"seeds must be at least 1, or different whole numbers, got {seeds!r}")
    unknown = set(training) - (set(TrainOptions.names()) - set(_OWN))
    if unknown:
        raise TypeError(f"compare() takes no {', '.join(sorted(unknown))}; see its arguments and training.fit's")
    training = TRAINING | training
    makers, own = _makers(named, task, settings or {}, hidden_size, splits.train)
    for make in makers.values():
        _check(make(0), splits)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    root = None if folder is None else Path(folder)
    if root is not None:
        check_folder(root, {**splits.fingerprint(), "samples": samples})

    cells: dict[str, list[Cell]] = {name: [] for name in named}
    total = len(chosen) * len(named)
    for number, (seed, name) in enumerate(((s, n) for s in chosen for n in named), 1):
        title = f"{name}, seed {seed} ({number} of {total})"
        on_network(title)
        where = None if root is None else root / name / f"seed-{seed}"
        model, updates, seconds = train_cell(
            partial(makers[name], seed), splits, title, seed, samples, training, where, place, progress
        )
        cells[name].append(Cell(model, updates, seconds, *ask_cell(model, splits, seed, samples, scaling)))

    results = [
        _result(splits, name, seed, cell, own[name], training, samples, scaled)
        for name, of_method in cells.items()
        for scaled in ((False, True) if scaling else (False,))
        for seed, cell in zip(chosen, of_method, strict=True)
    ]
    rows: dict[str, list[Rows]] = {}
    for name, of_method in cells.items():
        rows[name] = [cell.rows for cell in of_method]
        if scaling:
            rows[scaled_name(name)] = [cell.scaled for cell in of_method if cell.scaled is not None]
    return Comparison(
        data=splits.test.name,
        reference=reference,
        level=level,
        rows=_table_rows(rows, results, reference, len(splits.test), level, resamples, rounds),
        results=results,
        models={name: [cell.model for cell in of_method] for name, of_method in cells.items()},
    )


def scaled_name(method: str) -> str:
    """What a method is called after temperature scaling."""
    return f"{method} + scaling"


def _splits(data: Any, foreign: Any) -> Splits:
    if isinstance(data, str):
        parts = [load(data, split) for split in SPLITS]
    else:
        parts = list(data)
        if len(parts) != 3 or not all(isinstance(part, SequenceDataset) for part in parts):
            raise ValueError(
                "data must be the name of a data set, or its (train, validation, test) as SequenceDatasets; "
                "sttau.data.read makes them from files"
            )
    if isinstance(foreign, str):
        foreign = load(foreign, "test")
    strange: tuple[Tensor, Tensor | None] | None = None
    if isinstance(foreign, SequenceDataset):
        strange = foreign.inputs, foreign.lengths
    elif foreign is not None:
        strange = as_tensor("foreign", foreign), None
    if strange is not None and parts[0].labels.is_floating_point():
        raise ValueError("foreign is for classifiers, but the labels are numbers; leave it out")
    return Splits(parts[0], parts[1], parts[2], strange)


def _makers(
    named: Mapping[str, Any],
    task: DataSpec,
    settings: Mapping[str, Mapping[str, Any]],
    hidden_size: int,
    data: SequenceDataset,
) -> tuple[dict[str, Callable[[int], Predictor]], dict[str, dict[str, Any]]]:
    """How to make each method's network for a seed, and its settings as plain values."""
    strangers = [name for name in settings if name not in named or callable(named[name])]
    if strangers:
        raise ValueError(f"settings must be for methods of this comparison, {', '.join(named)}; got {strangers[0]!r}")
    makers: dict[str, Callable[[int], Predictor]] = {}
    own: dict[str, dict[str, Any]] = {}
    for name, method in named.items():
        if name != Path(name).name or not name:
            raise ValueError(f"a method's name becomes a folder's and must not hold a path, got {name!r}")
        if callable(method):
            makers[name], own[name] = partial(_from_factory, method, data), {}
        else:
            own[name] = resolve(method, task, settings.get(name, {}), hidden_size)
            makers[name] = partial(build, method, task, own[name], data)
    return makers, own


def _check(model: Predictor, splits: Splits) -> None:
    """Find out before hours of training whether a network can read all of the data."""
    for part in (splits.train, splits.validation, splits.test):
        model.check_inputs(part.inputs, part.lengths)
        model.check_targets(part.labels, len(part))
    if splits.foreign is not None:
        try:
            model.check_inputs(*splits.foreign)
        except (TypeError, ValueError) as error:
            raise ValueError(f"foreign does not go with the data: {error}") from error


def _from_factory(make: Factory, data: SequenceDataset, seed: int) -> Predictor:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = make(data, seed)
    if not isinstance(model, Predictor):
        raise TypeError(f"methods must make a SequenceClassifier, SequenceRegressor or DeepEnsemble, got {type(model)}")
    return model


def _result(
    splits: Splits,
    method: str,
    seed: int,
    cell: Cell,
    own: dict[str, Any],
    training: dict[str, Any],
    samples: int,
    scaled: bool,
) -> Result:
    """The numbers of one network as they are kept."""
    rows = cell.scaled if scaled else cell.rows
    assert rows is not None
    metrics = evaluate(rows) | {"parameters": float(parameters_of(cell.model))}
    metrics |= {} if cell.seconds is None else {"seconds": cell.seconds}
    metrics["predict_ms"] = cell.predict_ms
    settings = {
        **own,
        "model": repr(cell.model.members[0]),
        "samples": samples,
        "updates_made": cell.updates,
        **({"scaling": cell.temperature} if scaled else {}),
        **{
            name: getattr(value, "__name__", repr(value)) if callable(value) else value
            for name, value in training.items()
        },
    }
    return Result(
        experiment="compare",
        data=splits.test.name,
        method=scaled_name(method) if scaled else method,
        states=states_of(cell.model),
        seed=seed,
        metrics=metrics,
        settings=settings,
        seconds=round(cell.seconds or 0.0, 2),
    )


def _table_rows(
    rows: dict[str, list[Rows]],
    results: list[Result],
    reference: str,
    examples: int,
    level: float,
    resamples: int,
    rounds: int,
) -> list[Row]:
    """One row a method and measure."""
    bounds = intervals(rows, examples, resamples, level, seed=0)
    p = {
        name: p_values(runs, rows[reference], examples, rounds, seed=0)
        for name, runs in rows.items()
        if name != reference
    }
    adjusted = {
        metric: adjust({name: values[metric] for name, values in p.items()}) for metric in next(iter(p.values()), {})
    }
    table: list[Row] = []
    for method in rows:
        runs = [result.metrics for result in results if result.method == method]
        first = [result.metrics for result in results if result.method == reference]
        for metric, measure in MEASURES.items():
            values = torch.tensor([run[metric] for run in runs if metric in run], dtype=torch.float64)
            if not len(values):
                continue
            value = float(values.mean())
            interval = bounds.get((method, metric))
            base = [run[metric] for run in first if metric in run]
            tested = method != reference and metric in adjusted
            table.append(
                {
                    "data": results[0].data,
                    "method": method,
                    "metric": metric,
                    "goal": measure.goal,
                    "value": value,
                    "spread": float(values.std()) if len(values) > 1 else None,
                    "low": None if interval is None else interval.low,
                    "high": None if interval is None else interval.high,
                    "seeds": len(values),
                    "difference": value - sum(base) / len(base) if base and method != reference else None,
                    "p": p[method][metric] if tested else None,
                    "p_adjusted": adjusted[metric][method] if tested else None,
                }
            )
            table[-1]["mark"] = _mark(table[-1])
    return table


def _mark(row: Row) -> str:
    """▲ for better and ▼ for worse than the reference, twice where p ≤ 0.005, once where p ≤ 0.05."""
    if row["p_adjusted"] is None or row["p_adjusted"] > 0.05 or row["difference"] == 0:
        return ""
    better = (row["difference"] < 0) == (row["goal"] == "min")
    return ("▲" if better else "▼") * (2 if row["p_adjusted"] <= 0.005 else 1)
