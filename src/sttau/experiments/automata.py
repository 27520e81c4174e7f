"""Automata learned from strings and read out of networks: ours, k-means and L* side by side, and what data allows.

Every cell is one line of a result file and is made once: a run that was stopped goes on with the cells that are
missing. ``python -m sttau.experiments.automata`` runs them all on one thread.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from automata.fa.dfa import DFA
from torch import Tensor, nn

from sttau.automata import (
    PA,
    ExtractedDFA,
    Learned,
    accepts,
    as_dataset,
    balanced_strings,
    compare,
    distance,
    extract_dfa,
    extract_pa,
    learn,
    learn_stochastic,
    mutations,
    random_dfa,
    rms_distance,
    stochastic,
    tomita,
)
from sttau.automata.baselines import (
    WeightedAutomaton,
    extract_by_clustering,
    extract_by_queries,
    learn_by_alergia,
    learn_spectrally,
)
from sttau.data import SequenceDataset, load
from sttau.inference import predict
from sttau.jobs import Result, read_results
from sttau.models import Head, SequenceClassifier
from sttau.training import Update, fit

EXPERIMENT = "automata"
MODES = ("exact", "exact, batches", "soft", "straight_through")

_LONG = (50, 100, 200, 500, 1000)
_CLUSTERS = (5, 10, 20)
_TO_LENGTH = 15


@dataclass(frozen=True)
class Plan:
    """Which cells there are."""

    grammars: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7)
    seeds: int = 10
    baseline_seeds: int = 3  # of k-means and L*, on our networks and on plain GRUs
    mode_seeds: int = 3
    mode_updates: int = 1000
    drawn_states: tuple[int, ...] = (3, 4, 5, 6)  # of DFAs drawn at random, on which nothing was tried out
    drawn: int = 5  # of each size
    languages: tuple[int, ...] = (1, 2)
    language_states: tuple[int, ...] = (4, 6)
    language_seeds: int = 5
    halves_seeds: int = 2  # with fixed labels
    copies: tuple[int, ...] = (10, 1000)  # labels of each string; the paper has ten


QUICK = Plan(
    grammars=(1, 4), seeds=1, baseline_seeds=1, mode_seeds=1, mode_updates=100, languages=(1,), language_states=(4,),
    language_seeds=1, copies=(10,), halves_seeds=0, drawn_states=(3,), drawn=1,
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One measurement: what names it, and how it is made."""

    data: str
    method: str
    states: int | None
    seed: int
    settings: dict[str, Any]
    measure: Callable[[], dict[str, float]]

    @property
    def key(self) -> str:
        """What tells it from all others."""
        return json.dumps([self.data, self.method, self.states, self.seed, self.settings], sort_keys=True)


def cells(plan: Plan) -> Iterator[Cell]:
    """List all cells of a plan, those on one network after each other."""
    for grammar in plan.grammars:
        name = f"tomita{grammar}"
        for seed in range(plan.seeds):
            settings: dict[str, Any] = {"network": "st-tau gru", "hidden_size": 32, "mode": "exact"}
            yield Cell(name, "st-tau", 10, seed, settings, partial(_ours, grammar, seed))
            if seed < plan.baseline_seeds:
                net = partial(_our_network, grammar, seed)
                yield Cell(name, "k-means", None, seed, settings, partial(_clustering, grammar, seed, net))
                yield Cell(name, "l-star", None, seed, settings, partial(_queries, grammar, seed, net))
    for grammar in plan.grammars:
        for seed in range(plan.mode_seeds):
            for mode in MODES:
                settings = {"network": "st-tau gru", "updates": plan.mode_updates, "mode": mode, "attempts": 1}
                measure = partial(_mode, grammar, seed, mode, plan.mode_updates)
                yield Cell(f"tomita{grammar}", "one attempt", 10, seed, settings, measure)
        for seed in range(plan.baseline_seeds):
            settings = {"network": "gru", "hidden_size": 32}
            net = partial(_plain_network, grammar, seed)
            yield Cell(f"tomita{grammar}", "gru", None, seed, settings, partial(_plain, grammar, seed))
            yield Cell(f"tomita{grammar}", "k-means", None, seed, settings, partial(_clustering, grammar, seed, net))
            yield Cell(f"tomita{grammar}", "l-star", None, seed, settings, partial(_queries, grammar, seed, net))
    for states, seed in product(plan.drawn_states, range(plan.drawn)):
        settings = {"network": "st-tau gru", "hidden_size": 32, "mode": "exact"}
        yield Cell(f"random{states}", "st-tau", 12, seed, settings, partial(_drawn, states, seed))
    for copies, number in product(plan.copies, plan.languages):
        name, settings = f"stochastic{number}", {"copies": copies, "hidden_size": 32}
        for states, seed in product(plan.language_states, range(plan.language_seeds)):
            yield Cell(name, "st-tau", states, seed, settings, partial(_language, number, states, seed, copies))
        settings = {"copies": copies, "hidden_size": 32, "head": "halves"}
        for states, seed in product(plan.language_states, range(plan.halves_seeds)):
            measure = partial(_language, number, states, seed, copies, "halves")
            yield Cell(name, "st-tau, halves", states, seed, settings, measure)
        settings = {"copies": copies}
        if copies == 10:  # more would be millions of traces
            yield Cell(name, "alergia", None, 0, settings, partial(_alergia, number, copies))
        yield Cell(name, "spectral", number + 1, 0, settings, partial(_spectral, number, copies))


def run(path: Path, plan: Plan | None = None, progress: Callable[[str, int, int], None] | None = None) -> list[Result]:
    """Make every cell that the file does not hold yet, and append it at once.

    Args:
        path: of the JSON lines.
        plan: which cells; all of them by default.
        progress: called with a title, how many cells are done, and how many there are.

    Returns:
        The results of all cells of the plan, in its order.
    """
    every = list(cells(plan or Plan()))
    done = {_key(result): result for result in read_results(path)} if path.exists() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    for number, cell in enumerate(every):
        if progress is not None:
            progress(f"{cell.data}, {cell.method}, seed {cell.seed}", number, len(every))
        if cell.key in done:
            continue
        began = time.perf_counter()
        metrics = {name: round(value, 6) for name, value in cell.measure().items()}
        seconds = metrics.pop("seconds", time.perf_counter() - began)
        result = Result(
            EXPERIMENT, cell.data, cell.method, cell.states, cell.seed, metrics, cell.settings, round(seconds, 3)
        )
        done[cell.key] = result
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result), sort_keys=True) + "\n")
    return [done[cell.key] for cell in every]


def _key(result: Result) -> str:
    return json.dumps([result.data, result.method, result.states, result.seed, result.settings], sort_keys=True)


# ----------------------------------------------------------------------------------------------------- Tomita grammars


@cache
def long_strings(grammar: int) -> SequenceDataset:
    """Strings of 50 to 1,000 symbols, half of them in the language where it has such strings; each also mutated."""
    dfa = tomita(grammar)
    strings, labels = balanced_strings(dfa, _LONG, 20, seed=grammar)
    others, their_labels = mutations(dfa, strings, seed=grammar)
    return as_dataset(strings + others, torch.cat([labels, their_labels]), "01", name=f"tomita{grammar}", split="long")


@cache
def _learned(grammar: int, seed: int) -> tuple[Learned, float]:
    began = time.perf_counter()
    learned = learn(load(f"tomita{grammar}", "train"), load(f"tomita{grammar}", "validation"), seed=seed)
    return learned, time.perf_counter() - began


def _our_network(grammar: int, seed: int) -> SequenceClassifier:
    return _learned(grammar, seed)[0].model


def _ours(grammar: int, seed: int) -> dict[str, float]:
    """Train and extract; the time is that of both together."""
    learned, training = _learned(grammar, seed)
    began = time.perf_counter()
    extracted = extract_dfa(learned.model)
    took = training + time.perf_counter() - began
    return {
        **_judge(extracted.dfa, grammar),
        "network_wrong": _network_wrong(learned.model, grammar),
        "attempts": learned.attempts,
        "updates": len(learned.log),
        "loss": learned.loss,
        "reached": float(learned.reached),
        "surest": max(extracted.probabilities.values()),
        "least_sure": min(extracted.probabilities.values()),
        "seconds": took,
    }


def _drawn(states: int, number: int) -> dict[str, float]:
    """The same for a language drawn at random, from as many strings of the same lengths."""
    truth = random_dfa(states, seed=100 + number)
    splits = [
        as_dataset(*balanced_strings(truth, lengths, count, seed=0), "01", name=f"random{states}", split=split)
        for split, lengths, count in (("train", range(17), 64), ("validation", range(17, 25), 32))
    ]
    began = time.perf_counter()
    learned = learn(splits[0], splits[1], num_states=12, seed=number)
    dfa = extract_dfa(learned.model).dfa
    took = time.perf_counter() - began
    return {
        "equal": float(compare(dfa, truth).equal),
        "dfa_states": len(dfa.states),
        "attempts": learned.attempts,
        "reached": float(learned.reached),
        "seconds": took,
    }


def _judge(dfa: DFA, grammar: int) -> dict[str, float]:
    """Is it proved equal, how large is it, and how many of the long strings does it label wrongly?"""
    data = long_strings(grammar)
    assert data.vocabulary is not None
    strings = [
        "".join(data.vocabulary[token] for token in tokens[1:length])
        for tokens, length in zip(data.inputs.tolist(), data.lengths.tolist(), strict=True)
    ]
    return {
        "equal": float(compare(dfa, tomita(grammar)).equal),
        "dfa_states": len(dfa.states),
        "wrong": int((accepts(dfa, strings) != data.labels.bool()).sum()),
        "strings": len(strings),
    }


def _network_wrong(model: SequenceClassifier, grammar: int) -> int:
    data = long_strings(grammar)
    return int((predict(model, data.inputs, data.lengths).label != data.labels).sum())


def _clustering(grammar: int, seed: int, net: Callable[[], SequenceClassifier]) -> dict[str, float]:
    """k-means with 5, 10 and 20 clusters; the one that agrees best with the validation labels counts."""
    model, train, validation = net(), load(f"tomita{grammar}", "train"), load(f"tomita{grammar}", "validation")
    vocabulary = validation.vocabulary
    assert vocabulary is not None
    strings = [
        "".join(vocabulary[token] for token in tokens[1:length])
        for tokens, length in zip(validation.inputs.tolist(), validation.lengths.tolist(), strict=True)
    ]
    began = time.perf_counter()
    found = []
    for clusters in _CLUSTERS:
        dfa = extract_by_clustering(model, train, clusters, seed=seed)
        found.append((int((accepts(dfa, strings) != validation.labels.bool()).sum()), clusters, dfa))
    took = time.perf_counter() - began
    _, clusters, dfa = min(found, key=lambda entry: entry[:2])
    return {**_judge(dfa, grammar), "clusters": clusters, "seconds": took}


def _queries(grammar: int, seed: int, net: Callable[[], SequenceClassifier]) -> dict[str, float]:
    model = net()
    began = time.perf_counter()
    dfa = extract_by_queries(model, load(f"tomita{grammar}", "train"), seed=seed)
    took = time.perf_counter() - began
    return {**_judge(dfa, grammar), "seconds": took}


@cache
def _plain_learned(grammar: int, seed: int) -> tuple[SequenceClassifier, float, int]:
    """An ``nn.GRU`` trained on the same strings, with the weights that were best on the validation strings."""
    train, validation = load(f"tomita{grammar}", "train"), load(f"tomita{grammar}", "validation")
    began = time.perf_counter()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = SequenceClassifier(nn.GRU(16, 32), 2, nn.Embedding(3, 16))

    def wrong() -> float:
        said = predict(model, validation.inputs, validation.lengths)
        return float(-said.mean.gather(1, validation.labels[:, None]).clamp_min(1e-12).log().mean())

    log = fit(
        model,
        train.inputs,
        train.labels,
        train.lengths,
        updates=1000,
        learning_rate=0.01,
        seed=seed,
        validate=wrong,
    )
    return model.eval(), time.perf_counter() - began, len(log)


def _plain_network(grammar: int, seed: int) -> SequenceClassifier:
    return _plain_learned(grammar, seed)[0]


def _plain(grammar: int, seed: int) -> dict[str, float]:
    model, seconds, updates = _plain_learned(grammar, seed)
    return {
        "network_wrong": _network_wrong(model, grammar),
        "strings": len(long_strings(grammar)),
        "updates": updates,
        "seconds": seconds,
    }


def _mode(grammar: int, seed: int, mode: str, updates: int) -> dict[str, float]:
    """One attempt with a number of updates, under one of the ways of training."""
    train = load(f"tomita{grammar}", "train")
    began = time.perf_counter()
    law, _, batches = mode.replace("straight_through", "hard").partition(",")
    learned = learn(
        train,
        mode=law,  # type: ignore[arg-type]
        batch_size=64 if batches or law != "exact" else None,
        updates=updates,
        attempts=1,
        learning_rate=0.01 if batches or law != "exact" else 0.02,
        goal=1e-4 if law == "exact" and not batches else 1e-3,
        seed=seed,
    )
    took = time.perf_counter() - began
    return {
        **_judge(extract_dfa(learned.model).dfa, grammar),
        "network_wrong": _network_wrong(learned.model, grammar),
        "updates": len(learned.log),
        "loss": learned.loss,
        "temperature": learned.log[-1].temperature[0],
        "seconds": took,
    }


@dataclass(frozen=True)
class Snapshot:
    """An automaton read out of a network in the middle of its training."""

    update: int
    temperature: float
    extracted: ExtractedDFA


def watch_training(grammar: int = 3, updates: int = 3000, every: int = 50, seed: int = 0) -> tuple[Snapshot, Snapshot]:
    """Train as the paper does, by soft samples, and read the automaton as training goes on (the paper's Figure 8).

    Returns:
        The first automaton that labels all training strings rightly, or the last but one if none does; and the last.
        Both are tables of relaxed means, with the variances met while running over the training strings.
    """
    train = load(f"tomita{grammar}", "train")
    taken: list[Snapshot] = []
    first: list[Snapshot] = []

    def watch(_: int, update: Update, model: SequenceClassifier) -> None:
        if update.number % every:
            return
        extracted = extract_dfa(model, table="relaxed mean", data=train, seed=seed)
        taken.append(Snapshot(update.number, update.temperature[0], extracted))
        right = extracted.accepts(train.inputs, train.lengths) == train.labels.bool()
        if not first and bool(right.all()):
            first.append(taken[-1])

    learn(
        train,
        mode="soft",
        updates=updates,
        attempts=1,
        goal=1e-9,
        learning_rate=0.01,
        seed=seed,
        callbacks=watch,
    )
    return (first or taken[-2:])[0], taken[-1]


# ------------------------------------------------------------------------------------------------- stochastic languages


def frequencies(number: int, copies: int) -> tuple[SequenceDataset, Tensor]:
    """The training strings of a stochastic language, once each, and how often each class was drawn for them: (n, 2).

    Ten copies are those of the data set, as many as the paper has. More are drawn anew.
    """
    data = load(f"stochastic{number}", "train")
    every = len(data) // 10  # ten copies stand next to each other
    once = data.select(torch.arange(every) * 10)
    accepted = data.labels.view(every, 10).sum(-1).double()
    if copies != 10:
        assert once.vocabulary is not None
        chances = stochastic(number).probability(_strings(once)).numpy()
        accepted = torch.from_numpy(np.random.default_rng([number, copies]).binomial(copies, chances)).double()
    return once, torch.stack([copies - accepted, accepted], dim=-1).float()


def _strings(data: SequenceDataset) -> list[str]:
    assert data.vocabulary is not None
    return [
        "".join(data.vocabulary[token] for token in tokens[1:length])
        for tokens, length in zip(data.inputs.tolist(), data.lengths.tolist(), strict=True)
    ]


def _language(number: int, states: int, seed: int, copies: int, head: Head = "dense") -> dict[str, float]:
    data, counts = frequencies(number, copies)
    began = time.perf_counter()
    learned = learn_stochastic(data, num_states=states, frequencies=counts, head=head, seed=seed)
    extracted = extract_pa(learned.model, tolerance=1e-3)
    took = time.perf_counter() - began
    return {
        **_gap(extracted.pa, number),
        "rms": rms_distance(extracted.pa, stochastic(number)),
        "pa_states": extracted.pa.num_states,
        "defect": extracted.reduction.defect,
        "distinct": learned.distinct,
        "loss": learned.loss,
        "seconds": took,
    }


def _gap(pa: PA, number: int) -> dict[str, float]:
    """Largest and mean |p − q| over all strings of 1 to 15 symbols; the empty string is in no training set."""
    found = distance(pa, stochastic(number), length=_TO_LENGTH)
    return {
        "sup": max(found.sup_by_length[1:]),
        "mean_gap": (found.l1 - found.sup_by_length[0]) / (found.strings - 1),
        "sup_beyond_training": max(found.sup_by_length[(9 if number == 1 else 10) + 1 :]),
        "p_0": float(pa.probability(["0"])[0]),
    }


def _expanded(number: int, copies: int) -> SequenceDataset:
    """The counts as a data set with one row for each label, for methods that want it so."""
    data, counts = frequencies(number, copies)
    rows = torch.arange(len(data)).repeat_interleave(copies)
    step = torch.arange(copies).repeat(len(data))
    return replace(data.select(rows), labels=(step < counts[rows, 1]).long())


def _alergia(number: int, copies: int) -> dict[str, float]:
    """ALERGIA with the best of several ε on the validation labels."""
    data = _expanded(number, copies)
    validation = load(f"stochastic{number}", "validation")
    strings, labels = _strings(validation), validation.labels.double()
    began = time.perf_counter()
    found = []
    for epsilon in (0.005, 0.05, 0.5, 1.0, 2.0):
        pa = learn_by_alergia(data, epsilon=epsilon)
        p = pa.probability(strings).clamp(1e-3, 1 - 1e-3)
        found.append((float(-(labels * p.log() + (1 - labels) * (1 - p).log()).mean()), epsilon, pa))
    took = time.perf_counter() - began
    _, epsilon, pa = min(found, key=lambda entry: entry[:2])
    return {**_gap(pa, number), "pa_states": pa.num_states, "epsilon": epsilon, "seconds": took}


def _spectral(number: int, copies: int) -> dict[str, float]:
    data = _expanded(number, copies)
    began = time.perf_counter()
    learned = learn_spectrally(data, number + 1)
    took = time.perf_counter() - began
    gaps = [_spectral_gap(learned, number, length) for length in range(1, _TO_LENGTH + 1)]
    longest = 9 if number == 1 else 10
    return {
        "sup": max(float(gap.max()) for gap in gaps),
        "mean_gap": float(torch.cat(gaps).mean()),
        "sup_beyond_training": max(float(gap.max()) for gap in gaps[longest:]),
        "p_0": float(learned.values(1)[0]),
        "pa_states": len(learned.initial),
        "seconds": took,
    }


def _spectral_gap(learned: WeightedAutomaton, number: int, length: int) -> Tensor:
    truth = stochastic(number)
    rows = truth.initial[None]
    for _ in range(length):
        rows = torch.einsum("nk,akl->nal", rows, truth.matrices).reshape(-1, truth.num_states)
    return (learned.values(length) - rows @ truth.output).abs()


def cramer_rao(number: int, copies: int = 10) -> dict[str, float]:
    """What the training labels allow at best: standard errors of any unbiased estimate (Cramér and Rao).

    The estimator is even told the number of states, the start, and which states accept; only the moves are unknown.

    Returns:
        ``p_0``, the standard error of the probability that "0" is accepted; ``largest``, of any string of 1 to 15
        symbols; ``sup``, the median of the largest error over those strings, for normal errors.
    """
    truth = stochastic(number)
    k = truth.num_states
    heaviest = truth.matrices.argmax(-1)
    free = [(a, i, j) for a in range(2) for i in range(k) for j in range(k) if j != int(heaviest[a, i])]
    changes = torch.zeros(len(free), 2, k, k, dtype=torch.float64)  # what each free number moves: from the heaviest
    for place, (a, i, j) in enumerate(free):
        changes[place, a, i, j], changes[place, a, i, heaviest[a, i]] = 1, -1
    longest = 9 if number == 1 else 10
    laws, slope = truth.initial[None], torch.zeros(len(free), 1, k, dtype=torch.float64)
    chances, slopes_of = [], []
    for _ in range(_TO_LENGTH):
        slope = torch.stack([slope @ truth.matrices[a] + laws @ changes[:, a] for a in range(2)], dim=2).flatten(1, 2)
        laws = torch.stack([laws @ truth.matrices[a] for a in range(2)], dim=1).flatten(0, 1)
        chances.append(laws @ truth.output)
        slopes_of.append(slope @ truth.output)
    p, slopes = torch.cat(chances), torch.cat(slopes_of, dim=1).T
    seen = (torch.arange(len(p)) < 2 ** (longest + 1) - 2) & (p > 1e-9) & (p < 1 - 1e-9)
    information = (slopes[seen] * (copies / (p * (1 - p)))[seen, None]).T @ slopes[seen]
    values, vectors = torch.linalg.eigh(information)
    known = values > 1e-9 * values.max()  # moves that change no probability do not matter
    half = slopes @ (vectors[:, known] / values[known].sqrt())
    errors = half.square().sum(-1).sqrt()
    draws = torch.randn(len(half.T), 1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return {
        "p_0": float(errors[0]),
        "largest": float(errors.max()),
        "sup": float((half @ draws).abs().amax(0).median()),
    }


def main(arguments: list[str]) -> None:
    """``python -m sttau.experiments.automata [PATH] [--quick]``."""
    torch.set_num_threads(1)
    quick = "--quick" in arguments
    paths = [argument for argument in arguments if not argument.startswith("--")]
    folder = Path("results") / EXPERIMENT
    path = Path(paths[0]) if paths else folder / ("quick.jsonl" if quick else "results.jsonl")

    def progress(title: str, done: int, of: int) -> None:
        sys.stderr.write(f"\r{done + 1} of {of}: {title}".ljust(60))

    run(path, QUICK if quick else Plan(), progress)
    sys.stderr.write(f"\nNumbers: {path}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
