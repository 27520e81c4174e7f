"""Train all methods with all seeds, evaluate them, and compile the table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sttau.checks import as_integer, as_tensor
from sttau.comparison.columns import COLUMNS
from sttau.comparison.network import Network, Splits, check_folder, evaluate_network, train_network
from sttau.comparison.table import Comparison, Row
from sttau.comparison.training import as_settings, training_options
from sttau.data import SPLITS, SequenceDataset, load
from sttau.jobs import Result
from sttau.methods import DataSpec, Factory, build, resolve
from sttau.metrics.rows import Rows, evaluate_rows
from sttau.metrics.statistics import holm, metric_intervals, metric_p_values
from sttau.models import Predictor
from sttau.ood import make_detector
from sttau.seeds import seeded


def compare(
    methods: Iterable[str] | Mapping[str, str | Factory],
    data: str | Sequence[SequenceDataset],
    *,
    ood: Any = None,
    detector: str = "max-probability",
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
    rounds: int | None = None,
    progress: bool = True,
    on_network: Callable[[str], None] = lambda _: None,
    **training: Any,
) -> Comparison:
    """Train several methods in the same way on the same data, and test which is better.

    Every method is trained with every seed, with the same number of updates, batches, optimizer and early stopping on
    the negative log-likelihood of the validation data. Test data is only used at the end. A value is the mean over
    seeds. Its interval is a bootstrap over test examples, and its p-value is that of an approximate randomization test
    against the reference. Both describe the variation over test data for the networks that were trained; the spread
    over seeds describes the variation over training.

    Args:
        methods: Names in ``sttau.methods.METHODS``; or a mapping from names of your own to such a name, or to a
            function of the training data and a seed that returns a model.
        data: Name of a data set, or (train, validation, test). Labels are classes or floats; for floats every network
            also predicts a variance, and errors are in the unit of the labels.
        ood: OOD sequences: a data set, its name (its test split is used), or inputs. Adds AUROC and AUPR of the
            detector.
        detector: Score of predictions (``max-probability``, ``entropy``, …) or detector fitted to the training data
            (``mahalanobis``, ``knn``, ``energy``, …); see :func:`sttau.ood.make_detector`.
        reference: Method that all others are tested against; the first by default.
        seeds: Number of seeds, starting at 0, or a list of seeds.
        settings: Arguments of a method's layer, by method, and ``size`` of an ensemble, ``cell`` (``lstm`` or ``gru``)
            and ``embedding_size``: ``{"st-tau": {"num_states": 20}}``.
        hidden_size: Hidden size of all layers without a setting of their own. By default ``bayes`` has at most two
            weights per training sequence.
        samples: Monte Carlo samples per member.
        scaling: Whether to add each classifier after temperature scaling fitted on the validation data.
        folder: Folder for checkpoints. The same call resumes an interrupted comparison and trains no network twice;
            methods and seeds may be added.
        device: Device of the networks; by default the GPU if there is one.
        level: Level of the intervals.
        resamples: Number of bootstrap resamples.
        rounds: Number of rounds of the randomization test; by default 1,999, or more for more than six methods, so that
            p ≤ 0.005 can be reached after the correction.
        progress: Whether to show a progress bar per network, in a terminal.
        on_network: Function called with the title of each network before its training.
        training: Options of ``fit`` that replace :data:`sttau.comparison.training.DEFAULTS`: ``updates``,
            ``batch_size``, ``learning_rate``, ``validate_every``, ``patience``, ``optimizer``, ``precision``, …; see
            :class:`sttau.training.TrainOptions`.

    Example:
        >>> comparison = compare(["lstm", "st-tau"], "digits", seeds=1, hidden_size=8, updates=20, rounds=99)
        >>> [row["method"] for row in comparison.rows if row["metric"] == "nll"]
        ['lstm', 'st-tau']
    """
    named = {name: name for name in methods} if not isinstance(methods, Mapping) else dict(methods)
    if isinstance(methods, str) or not named:
        raise ValueError(f"methods must be a list of names, such as ['lstm', 'st-tau'], got {methods!r}")
    splits = _splits(data, ood)
    spec = DataSpec.of(splits.train, splits.validation, splits.test)
    reference = next(iter(named)) if reference is None else reference
    if reference not in named:
        raise ValueError(f"reference must be one of the methods, {', '.join(named)}, got {reference!r}")
    if scaling and spec.classes is None:
        raise ValueError("scaling is for classification, but the labels are floats; leave it out")
    hidden_size, samples = as_integer("hidden_size", hidden_size, 1), as_integer("samples", samples, 1)
    given = seeds if isinstance(seeds, Sequence) else range(as_integer("seeds", seeds))
    chosen = [as_integer("seeds", seed) for seed in given]
    if not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(f"seeds must be at least 1, or different integers, got {seeds!r}")
    make_detector(detector)  # raises for an unknown name before anything is trained
    options = training_options(training)
    makers, own = _makers(named, spec, settings or {}, hidden_size, splits.train)
    for make in makers.values():
        _check(make(0), splits)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    root = None if folder is None else Path(folder)
    if root is not None:
        check_folder(root, {**splits.fingerprint(), "samples": samples})

    networks: dict[str, list[Network]] = {name: [] for name in named}
    total = len(chosen) * len(named)
    for number, (seed, name) in enumerate(((s, n) for s in chosen for n in named), 1):
        title = f"{name}, seed {seed} ({number} of {total})"
        on_network(title)
        where = None if root is None else root / name / f"seed-{seed}"
        own_options = options.with_changes(seed=seed, folder=where)
        make = partial(makers[name], seed)
        model, updates, seconds = train_network(make, splits, title, samples, own_options, place, progress)
        evaluation = evaluate_network(model, splits, seed, samples, scaling, detector)
        networks[name].append(Network(model, updates, seconds, evaluation))

    results = [
        _result(splits, name, seed, network, own[name], as_settings(options, training), samples, scaled)
        for name, of_method in networks.items()
        for scaled in ((False, True) if scaling else (False,))
        for seed, network in zip(chosen, of_method, strict=True)
    ]
    rows: dict[str, list[Rows]] = {}
    for name, of_method in networks.items():
        rows[name] = [network.evaluation.rows for network in of_method]
        if scaling:
            rows[scaled_name(name)] = [n.evaluation.scaled for n in of_method if n.evaluation.scaled is not None]
    return Comparison(
        data=splits.test.name,
        reference=reference,
        level=level,
        rows=_table_rows(rows, results, reference, len(splits.test), level, resamples, rounds),
        results=results,
        models={name: [network.model for network in of_method] for name, of_method in networks.items()},
    )


def scaled_name(method: str) -> str:
    """Name of a method after temperature scaling."""
    return f"{method} + scaling"


def _splits(data: Any, ood: Any) -> Splits:
    if isinstance(data, str):
        parts = [load(data, split) for split in SPLITS]
    else:
        parts = list(data)
        if len(parts) != 3 or not all(isinstance(part, SequenceDataset) for part in parts):
            raise ValueError(
                "data must be the name of a data set, or its (train, validation, test) as SequenceDatasets; "
                "sttau.data.read makes them from files"
            )
    if isinstance(ood, str):
        ood = load(ood, "test")
    unseen: tuple[Tensor, Tensor | None] | None = None
    if isinstance(ood, SequenceDataset):
        unseen = ood.inputs, ood.lengths
    elif ood is not None:
        unseen = as_tensor("ood", ood), None
    if unseen is not None and parts[0].labels.is_floating_point():
        raise ValueError("ood is for classification, but the labels are floats; leave it out")
    return Splits(parts[0], parts[1], parts[2], unseen)


def _makers(
    named: Mapping[str, Any],
    spec: DataSpec,
    settings: Mapping[str, Mapping[str, Any]],
    hidden_size: int,
    data: SequenceDataset,
) -> tuple[dict[str, Callable[[int], Predictor]], dict[str, dict[str, Any]]]:
    """Return, per method, a function from a seed to a network, and the settings as plain values."""
    unknown = [name for name in settings if name not in named or callable(named[name])]
    if unknown:
        raise ValueError(f"settings must be for methods of this comparison, {', '.join(named)}; got {unknown[0]!r}")
    makers: dict[str, Callable[[int], Predictor]] = {}
    own: dict[str, dict[str, Any]] = {}
    for name, method in named.items():
        if name != Path(name).name or not name:
            raise ValueError(f"the name of a method is the name of a folder and must not hold a path, got {name!r}")
        if callable(method):
            makers[name], own[name] = partial(_from_factory, method, data), {}
        else:
            own[name] = resolve(method, spec, settings.get(name, {}), hidden_size)
            makers[name] = partial(build, method, spec, own[name], data)
    return makers, own


def _check(model: Predictor, splits: Splits) -> None:
    """Check before any training that a network accepts all of the data."""
    for part in (splits.train, splits.validation, splits.test):
        model.check_inputs(part.inputs, part.lengths)
        model.check_targets(part.labels, len(part))
    if splits.ood is not None:
        try:
            model.check_inputs(*splits.ood)
        except (TypeError, ValueError) as error:
            raise ValueError(f"ood does not match the data: {error}") from error


def _from_factory(make: Factory, data: SequenceDataset, seed: int) -> Predictor:
    with seeded(seed):
        model = make(data, seed)
    if not isinstance(model, Predictor):
        raise TypeError(
            f"methods must return a SequenceClassifier, SequenceRegressor or DeepEnsemble, got {type(model)}"
        )
    return model


def _result(
    splits: Splits,
    method: str,
    seed: int,
    network: Network,
    own: dict[str, Any],
    training: dict[str, Any],
    samples: int,
    scaled: bool,
) -> Result:
    """Return the result of one network."""
    evaluation = network.evaluation
    rows = evaluation.scaled if scaled else evaluation.rows
    assert rows is not None
    metrics = evaluate_rows(rows) | {"parameters": float(network.parameters)}
    metrics |= {} if network.seconds is None else {"seconds": network.seconds}
    metrics["predict_ms"] = evaluation.predict_ms
    settings = {
        **own,
        "model": repr(network.model.members[0]),
        "samples": samples,
        "updates_made": network.updates,
        **({"scaling": evaluation.temperature} if scaled else {}),
        **training,
    }
    return Result(
        experiment="compare",
        data=splits.test.name,
        method=scaled_name(method) if scaled else method,
        states=network.states,
        seed=seed,
        metrics=metrics,
        settings=settings,
        seconds=round(network.seconds or 0.0, 2),
    )


def _table_rows(
    rows: dict[str, list[Rows]],
    results: list[Result],
    reference: str,
    examples: int,
    level: float,
    resamples: int,
    rounds: int | None,
) -> list[Row]:
    """Return one row per method and column."""
    rounds = max(1999, 400 * (len(rows) - 1) - 1) if rounds is None else rounds  # the smallest p is 1 / (rounds + 1)
    bounds = metric_intervals(rows, examples, resamples, level, seed=0)
    p = {
        name: metric_p_values(runs, rows[reference], examples, rounds, seed=0)
        for name, runs in rows.items()
        if name != reference
    }
    adjusted = {
        metric: holm({name: values[metric] for name, values in p.items()}) for metric in next(iter(p.values()), {})
    }
    table: list[Row] = []
    for method in rows:
        runs = [result.metrics for result in results if result.method == method]
        first = [result.metrics for result in results if result.method == reference]
        for metric, column in COLUMNS.items():
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
                    "goal": column.goal,
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
