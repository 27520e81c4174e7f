"""Stochastic languages: PAs learned by networks, ALERGIA and spectral learning, and what the labels allow."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from sttau.automata import PA, distance, extract_pa, learn_stochastic, rms_distance, stochastic
from sttau.automata.baselines import WeightedAutomaton, learn_by_alergia, learn_spectrally
from sttau.data import SequenceDataset, load
from sttau.models import Head

_TO_LENGTH = 15


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


def language(number: int, states: int, seed: int, copies: int, head: Head = "dense") -> dict[str, float]:
    """Train a network on the labels of a stochastic language and extract a PA."""
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


def alergia(number: int, copies: int) -> dict[str, float]:
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


def spectral(number: int, copies: int) -> dict[str, float]:
    """Spectral learning with as many states as the language has."""
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

    The estimator even knows the number of states, the start, and which states accept; only the moves are unknown.

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
    states, slope = truth.initial[None], torch.zeros(len(free), 1, k, dtype=torch.float64)
    chances, slopes_of = [], []
    for _ in range(_TO_LENGTH):
        slope = torch.stack([slope @ truth.matrices[a] + states @ changes[:, a] for a in range(2)], dim=2).flatten(1, 2)
        states = torch.stack([states @ truth.matrices[a] for a in range(2)], dim=1).flatten(0, 1)
        chances.append(states @ truth.output)
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
        "sup": float(torch.stack([(part @ draws).abs_().amax(0) for part in half.split(256)]).amax(0).median()),
    }
