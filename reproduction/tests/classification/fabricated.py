"""Results and prediction files of the paper's experiments as they are promised, of numbers that mean nothing."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sttau.jobs import Result, write_results
from sttau_reproduction.classification import dropout_sweep, figures, table2
from sttau_reproduction.classification.declaration import LENGTH
from sttau_reproduction.classification.diagnostics import tables as diagnostic
from sttau_reproduction.classification.diagnostics.work import results_path
from sttau_reproduction.classification.networks import NETWORKS, Network
from sttau_reproduction.classification.predictions import write_summaries

Array = NDArray[Any]

#: Error in percent, and by what the logits of a network are too large.
_KIND = {
    "lstm": (1.0, 1.6), "ensemble": (0.95, 1.3), "bayes": (1.3, 0.8), "dropout": (1.05, 1.5),
    "state-regularized": (1.2, 1.7), "st-tau-best": (0.98, 1.02), "lstm-best": (0.97, 1.3),
}  # fmt: skip
_DRAWS = ("bayes", "dropout", "st-tau")
_MEMBERS = ("ensemble", "laplace", "mixture", "sp-gru")


def fabricate(folder: Path, size: int = 400, networks: tuple[Network, ...] = NETWORKS) -> Path:
    """Write results, diagnostics, ``predictions/`` and ``summary.npz`` for tests of ``size`` sequences."""
    results = [
        _cell(folder / "predictions", network, seed, size) for network in networks for seed in range(network.seeds)
    ]
    write_results(results, folder / "results.jsonl.gz")
    write_results(_diagnostics(networks), results_path(folder))
    write_summaries(folder)
    return folder


def _diagnostics(networks: tuple[Network, ...]) -> list[Result]:
    """One seed of every network that can be diagnosed, and the length alone."""
    rng = np.random.default_rng(5)
    found = []
    for network in networks:
        if network.method == "ensemble":
            continue
        keys = {column.key for table in diagnostic.TABLES for column in table.columns}
        keys |= {f"{kind}_{n}_ece" for kinds in diagnostic.CORRUPTIONS.values() for kind in kinds for n in range(1, 6)}
        metrics = {key: float(rng.uniform(1, 9)) for key in sorted(keys)}
        if network.data == "imdb":
            metrics |= {
                f"{out}_{score}_{key}": float(rng.uniform(45, 55))
                for out in table2.OOD
                for score in table2.SCORES
                for key in ("auroc", "auroc_low", "auroc_high", "matched_auroc", "matched_aupr")
            }
        found.append(Result("diagnostics", network.data, network.name, None, 0, metrics, {}, 1.0))
    alone = {f"{out}_{key}": 99.5 for out in table2.OOD for key in ("auroc", "aupr", "length")} | {"length": 270.0}
    alone |= {f"{out}_matched_auroc": 50.0 for out in table2.OOD}
    return [*found, Result("diagnostics", "imdb", LENGTH, None, 0, alone, {}, 1.0)]


def _cell(folder: Path, network: Network, seed: int, size: int) -> Result:
    labels, p, rng = _answers(network, seed, size)
    runs = [p] + [_again(p, rng) for _ in range(9 if seed == 0 and network.method in _DRAWS else 0)]
    measured = [_measured(run, labels) for run in runs]
    metrics = {key: float(np.mean([m[key] for m in measured])) for key in measured[0]}
    if len(runs) > 1:
        metrics |= {f"{key}_std": float(np.std([m[key] for m in measured], ddof=1)) for key in measured[0]}
    metrics |= {f"{key}_{end}": metrics[key] * f for key in ("ece", "mce") for end, f in (("low", 0.8), ("high", 1.3))}
    metrics |= {"scaling_temperature": 1.2, **{f"scaled_{key}": 0.7 * value for key, value in measured[0].items()}}
    metrics["scaled_pe"] = metrics["pe"]
    metrics |= {f"validation_{key}": metrics[key] for key in ("pe", "ece", "nll")}
    states = network.settings.get("num_states")
    metrics |= {"parameters": 68_101 + 128 * (states or 0), "updates": 20_000, "best_update": 12_000}
    metrics |= {"train_seconds": 84.2 + seed, "predict_seconds": 0.31}
    arrays: dict[str, Array] = {
        "probabilities": p, "labels": labels, "validation_probabilities": p[:50], "validation_labels": labels[:50],
        "temperature": np.array(1.2, np.float32),
    }  # fmt: skip
    if states is not None:
        learned = network.settings.get("learn_temperature", True)
        update = np.linspace(0, 20_000, 41)
        tau = 1 + (1.5 * (1 - np.exp(-update / (3000 + 400 * states))) if learned else 0 * update)
        arrays["tau"], metrics["tau"] = np.stack([update, tau], 1).astype(np.float32), float(tau[-1])
    if network.data == "imdb":
        _ood(network, p, labels, metrics, arrays, rng)
    if network.name == "dropout" and seed == 0:
        for rate in dropout_sweep.RATES:
            hurt = min(1.0, 2 * max(0.0, rate - 0.1) ** 2)
            for key in dropout_sweep.METRICS:
                metrics[dropout_sweep.key(rate, key)] = metrics[key] + hurt * (60 - metrics[key])
    if network.name in figures.READING:
        _reading(network, labels, arrays, rng)
    if seed == 0:
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(folder / f"{network.data}-{network.name}.npz", **arrays)  # type: ignore[arg-type]
    settings = {
        "method": network.method, "settings": dict(network.settings), "training": dict(network.training),
        "samples": 10, "prediction_runs": len(runs),
    }  # fmt: skip
    return Result("paper", network.data, network.name, states, seed, metrics, settings, 90.0)


def _answers(network: Network, seed: int, size: int) -> tuple[Array, Array, np.random.Generator]:
    classes = 2 if network.data == "imdb" else 5
    error, sharp = _KIND.get(network.name, (1.1, 1.1))
    base = np.random.default_rng(3)  # the labels and what is hard are the same for every network
    share = np.full(2, 0.5) if classes == 2 else np.array([0.83, 0.03, 0.06, 0.01, 0.07])
    labels = base.choice(classes, size, p=share).astype(np.uint8)
    margin = base.normal(3.0 if classes == 2 else 7.5, 2.4 if classes == 2 else 3.2, size)
    rng = np.random.default_rng([seed, sum(network.name.encode()), classes])
    logits = rng.normal(0, 0.5, (size, classes))
    logits[np.arange(size), labels] += margin / error + rng.normal(0, 0.6, size)
    p = np.exp(sharp * logits)
    return labels, (p / p.sum(1, keepdims=True)).astype(np.float32), rng


def _again(p: Array, rng: np.random.Generator) -> Array:
    noisy = p * np.exp(rng.normal(0, 0.05, p.shape))
    return np.asarray(noisy / noisy.sum(1, keepdims=True), np.float32)


def gaps(p: Array, labels: Array) -> tuple[Array, Array]:
    """Confidence minus accuracy of ten bins of equal width, those that hold something, and their shares."""
    sure, right = p.max(1), p.argmax(1) == labels
    edges = (np.arange(11) / 10).astype(p.dtype)
    bins = [(sure > low) & (sure <= high) for low, high in pairwise(edges)]
    held = [chosen for chosen in bins if chosen.any()]
    apart = [float(sure[chosen].astype(float).mean() - right[chosen].mean()) for chosen in held]
    return np.array(apart), np.array([chosen.mean() for chosen in held])


def errors(p: Array, labels: Array) -> dict[str, float]:
    """PE, ECE and MCE in percent."""
    gap, share = gaps(p, labels)
    return {
        "pe": 100 * float((p.argmax(1) != labels).mean()),
        "ece": 100 * float(np.abs(gap) @ share),
        "mce": 100 * float(np.abs(gap).max()),
    }


def areas(inside: Array, outside: Array) -> dict[str, float]:
    """AUROC and average precision in percent: a larger score should be an outside one."""
    below = (inside[:, None] < outside).mean() + 0.5 * (inside[:, None] == outside).mean()
    precision = 0.0
    for threshold in np.unique(outside):
        found, taken = (outside >= threshold).sum(), (inside >= threshold).sum()
        precision += (outside == threshold).mean() * found / (found + taken)
    return {"auroc": 100 * float(below), "aupr": 100 * float(precision)}


def _measured(p: Array, labels: Array) -> dict[str, float]:
    made = errors(p, labels)
    made |= {"adaptive_ece": 0.9 * made["ece"], "classwise_ece": 0.6 * made["ece"], "aurc": 0.1 * made["pe"]}
    truth = np.eye(p.shape[1])[labels]
    return made | {
        "nll": float(-np.log(p[np.arange(len(p)), labels]).mean()),
        "brier": float(((p - truth) ** 2).sum(1).mean()),
    }


def _ood(
    network: Network, p: Array, labels: Array, metrics: dict[str, float], arrays: dict[str, Array], rng: Any
) -> None:
    for out, count in (("customer", 50), ("movie", 100)):
        inside = np.sort(rng.choice(len(p), count, replace=False)).astype(np.int32)
        sure = 0.5 + 0.5 * rng.beta(2.5, 1.5 + 0.01 * network.settings.get("num_states", 0), count)
        unseen = np.stack([sure, 1 - sure], 1).astype(np.float32)
        found = areas(1 - p[inside].max(1), 1 - unseen.max(1))
        arrays |= {f"inside_{out}": inside, out: unseen}
        metrics[f"{out}_accuracy"] = 100 * float((p[inside].argmax(1) == labels[inside]).mean())
        for score in table2.SCORES:
            if score in ("variance", "mutual_information"):
                if network.method not in (*_DRAWS, *_MEMBERS):
                    continue
                arrays[f"{out}_variance"] = rng.random(count).astype(np.float32)
                arrays[f"inside_{out}_variance"] = rng.random(count).astype(np.float32)
            metrics |= {f"{out}_{score}_{key}": value for key, value in found.items()}
            metrics[f"{out}_{score}_fpr95"] = 60.0
            if network.method in _DRAWS:
                metrics |= {f"{out}_{score}_{key}_std": 0.7 for key in ("aupr", "auroc", "fpr95")}


def _reading(network: Network, labels: Array, arrays: dict[str, Array], rng: Any) -> None:
    if network.data == "imdb":
        texts = [sentence.split() for sentence in figures.SENTENCES]
        time, examples, classes = max(map(len, texts)), len(texts), 2
        arrays["reading_words"] = np.array([words + [""] * (time - len(words)) for words in texts])
    else:
        time, examples, classes = 187, 2, 5
        other = 2 if network.name == "st-tau-best" else 4  # each network has a beat of its own that it reads wrongly
        chosen = [int(np.argmax(labels == label)) for label in (0, other)]
        arrays["reading_rows"] = np.array(chosen, dtype=np.int32)
    walk = np.cumsum(rng.normal(0, 1.5 / time**0.5, (10, examples, time, classes)), 2)
    walk[..., 0] += np.linspace(0, 6, time)
    p = np.exp(walk)
    arrays["reading"] = (p / p.sum(-1, keepdims=True)).astype(np.float32)


def values(results: list[Result], data: str, network: str, key: str) -> list[float]:
    return [r.metrics[key] for r in results if (r.data, r.method) == (data, network) and key in r.metrics]
