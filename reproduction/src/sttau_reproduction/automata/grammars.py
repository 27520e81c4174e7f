"""Regular languages: networks that learned them, and the DFAs extracted by ours, k-means and L*."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import torch
from automata.fa.dfa import DFA
from torch import nn

from sttau.automata import (
    Learned,
    accepts,
    as_dataset,
    balanced_strings,
    compare,
    extract_dfa,
    learn,
    mutations,
    random_dfa,
    tomita,
)
from sttau.automata.baselines import extract_by_clustering, extract_by_queries
from sttau.data import SequenceDataset, load
from sttau.inference import predict
from sttau.models import SequenceClassifier
from sttau.seeds import seeded
from sttau.training import fit

_LONG = (50, 100, 200, 500, 1000)
_CLUSTERS = (5, 10, 20)


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
    learned = learn(
        load(f"tomita{grammar}", "train"), load(f"tomita{grammar}", "validation"), warm_start=False, seed=seed
    )
    return learned, time.perf_counter() - began


def our_network(grammar: int, seed: int) -> SequenceClassifier:
    """The ST-τ network that learned a Tomita grammar."""
    return _learned(grammar, seed)[0].model


def ours(grammar: int, seed: int) -> dict[str, float]:
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


def drawn(states: int, number: int) -> dict[str, float]:
    """The same for a language drawn at random, from as many strings of the same lengths."""
    truth = random_dfa(states, seed=100 + number)
    splits = [
        as_dataset(*balanced_strings(truth, lengths, count, seed=0), "01", name=f"random{states}", split=split)
        for split, lengths, count in (("train", range(17), 64), ("validation", range(17, 25), 32))
    ]
    began = time.perf_counter()
    learned = learn(splits[0], splits[1], num_states=12, warm_start=False, seed=number)
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


def clustering(grammar: int, seed: int, net: Callable[[], SequenceClassifier]) -> dict[str, float]:
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


def queries(grammar: int, seed: int, net: Callable[[], SequenceClassifier]) -> dict[str, float]:
    """Extract a DFA by L*, with the network as the oracle."""
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
    with seeded(seed, cpu_only=True):
        model = SequenceClassifier(nn.GRU(16, 32), 2, nn.Embedding(3, 16))

    def wrong() -> float:
        said = predict(model, validation.inputs, validation.lengths)
        return float(-said.mean.gather(1, validation.labels[:, None]).clamp_min(1e-12).log().mean())

    log = fit(
        model,
        train,
        updates=1000,
        learning_rate=0.01,
        seed=seed,
        validation=wrong,
    )
    return model.eval(), time.perf_counter() - began, len(log)


def plain_network(grammar: int, seed: int) -> SequenceClassifier:
    """The ``nn.GRU`` network that learned a Tomita grammar."""
    return _plain_learned(grammar, seed)[0]


def plain(grammar: int, seed: int) -> dict[str, float]:
    """Train an ``nn.GRU`` and count its errors on long strings."""
    model, seconds, updates = _plain_learned(grammar, seed)
    return {
        "network_wrong": _network_wrong(model, grammar),
        "strings": len(long_strings(grammar)),
        "updates": updates,
        "seconds": seconds,
    }


def mode(grammar: int, seed: int, mode: str, updates: int) -> dict[str, float]:
    """One attempt with a number of updates, under one of the ways of training."""
    train = load(f"tomita{grammar}", "train")
    began = time.perf_counter()
    way, _, batches = mode.replace("straight_through", "hard").partition(",")
    learned = learn(
        train,
        mode=way,  # type: ignore[arg-type]
        batch_size=64 if batches or way != "exact" else None,
        updates=updates,
        attempts=1,
        learning_rate=0.01 if batches or way != "exact" else 0.02,
        target_loss=1e-4 if way == "exact" and not batches else 1e-3,
        warm_start=False,
        seed=seed,
    )
    took = time.perf_counter() - began
    return {
        **_judge(extract_dfa(learned.model).dfa, grammar),
        "network_wrong": _network_wrong(learned.model, grammar),
        "updates": len(learned.log),
        "loss": learned.loss,
        "tau": learned.log[-1].temperature[0],
        "seconds": took,
    }
