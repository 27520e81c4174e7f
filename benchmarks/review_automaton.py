"""A mixture of automata that was trained on reviews, compiled: equality, speed, size, and what its words do.

    python benchmarks/review_automaton.py networks/KEY.safetensors benchmarks/review_automaton.json

The network is one of ``sttau-reproduce paper diagnostics --data imdb --network automata-distilled``. The compiled model
is compared with it on all test reviews. Speed is compared, in one run on one thread, with its exact inference and with
an ``nn.LSTM`` of the size of the paper's. The effect of a word is the mean change of the probability of "positive" when
it is read; its information is the mean epistemic uncertainty, in bits, that is attributed to the step that reads it.
Moves between the states of the first member are those expected while the same reviews are read.
"""

from __future__ import annotations

import itertools
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import sttau
from sttau.automata import CompiledModel, compile
from sttau.data import load

SPEED_REVIEWS = 200
EFFECT_REVIEWS = 2000  # that effects of words and visits of states are averaged over
ROUNDS = 5
WORDS = 12  # that are shown of each kind
OFTEN = 40  # occurrences in those reviews that a word needs to be shown
STATES, MOVES = 8, 12  # of the first member that are drawn


def one_by_one(parts: list[CompiledModel], inputs: Tensor, lengths: Tensor) -> Tensor:
    """Return the mean prediction of compiled members."""
    return torch.stack([part.probabilities(inputs, lengths) for part in parts]).mean(0)


def speed(work: dict[str, Callable[[], object]], tokens: int) -> dict[str, float]:
    """Return tokens per second of each, medians of rounds in which they alternate."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for number in range(ROUNDS + 1):
        for name, call in work.items():
            began = time.perf_counter()
            call()
            if number:
                seconds[name].append(time.perf_counter() - began)
    return {name: tokens / statistics.median(values) for name, values in seconds.items()}


def effects(parts: list[CompiledModel], inputs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return each word's mean effect on the probability of class 1, its occurrences, and the visits of all states."""
    words = len(parts[0].vocabulary)
    change, count = torch.zeros(words, dtype=torch.float64), torch.zeros(words, dtype=torch.float64)
    visits = [torch.zeros(part.num_states, dtype=torch.float64) for part in parts]
    for part, visited in zip(parts, visits, strict=True):
        q = part.outcome[:, 1]
        gain = part.matrices @ q - q  # (words, k): change of q in each state
        for row, length in zip(inputs, lengths.tolist(), strict=True):
            pi = part.first[row[0]]
            for word in row[1:length].tolist():
                change[word] += pi @ gain[word]
                count[word] += 1
                pi = pi @ part.matrices[word]
                visited += pi
    return change / count.clamp_min(1), count / len(parts), [visited / visited.sum() for visited in visits]


def moves(part: CompiledModel, inputs: Tensor, lengths: Tensor, states: list[int]) -> list[dict[str, Any]]:
    """Return the most frequent moves between some states, each with the words that cause most of them.

    A word is ranked by the moves it causes beyond those that the average word would cause from the same states.
    """
    read = torch.zeros(len(part.vocabulary), part.num_states, dtype=torch.float64)  # visits of a state when read
    for row, length in zip(inputs, lengths.tolist(), strict=True):
        pi = part.first[row[0]]
        for word in row[1:length].tolist():
            read[word] += pi
            pi = pi @ part.matrices[word]
    often = read.sum(1) >= OFTEN
    found = []
    for i, j in itertools.permutations(states, 2):
        caused = read[:, i] * part.matrices[:, i, j]
        beyond = torch.where(often, caused - read[:, i] * caused.sum() / read[:, i].sum(), 0.0)
        words = [part.vocabulary[n] for n in beyond.argsort(descending=True)[:3].tolist()]
        per_thousand = 1000 * float(caused.sum() / read.sum())
        found.append({"start": states.index(i), "end": states.index(j), "moves": per_thousand, "words": words})
    return sorted(found, key=lambda move: -move["moves"])[:MOVES]


def information(model: sttau.models.Predictor, data: sttau.data.SequenceDataset) -> tuple[Tensor, Tensor]:
    """Return the bits attributed to each word on average over its occurrences, and their number."""
    size = model.num_tokens or 0
    bits, count = torch.zeros(size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64)
    for member in model.members:
        found = sttau.predict(member, data).attribution
        assert found is not None
        assert data.lengths is not None
        valid = torch.arange(found.shape[1]) < data.lengths[:, None]
        words = data.inputs[:, : found.shape[1]][valid].long()
        bits.index_add_(0, words, found[valid].double())
        count.index_add_(0, words, torch.ones(len(words), dtype=torch.float64))
    return bits / count.clamp_min(1), count / len(model.members)


def main(path: Path, out: Path) -> None:
    """Measure, and write the result."""
    torch.set_num_threads(1)
    model, test = sttau.load(path), load("imdb", "test")
    with tempfile.TemporaryDirectory() as folder:
        whole = compile(model, start=None)
        whole_bytes = whole.save(Path(folder) / "whole.safetensors").stat().st_size
        parts = [compile(member, start=None) for member in model.members]
        part_bytes = sum(part.save(Path(folder) / "part.safetensors").stat().st_size for part in parts)
    exact = sttau.predict(model, test).mean
    found = one_by_one(parts, test.inputs, test.lengths)
    few = test.select(torch.arange(0, len(test), len(test) // SPEED_REVIEWS)[:SPEED_REVIEWS])
    lstm = sttau.SequenceClassifier(nn.LSTM(256, 256, batch_first=True), 2, nn.Embedding(5000, 256))
    together = whole.probabilities(few.inputs, few.lengths)
    work: dict[str, Callable[[], object]] = {
        "compiled, member by member": lambda: one_by_one(parts, few.inputs, few.lengths),
        "compiled, as one automaton": lambda: whole.probabilities(few.inputs, few.lengths),
        "exact inference of the network": lambda: sttau.predict(model, few),
        "nn.LSTM, 256 units": lambda: sttau.predict(lstm, few),
    }
    rates = speed(work, int(few.lengths.sum()))
    more = test.select(torch.arange(EFFECT_REVIEWS) * (len(test) // EFFECT_REVIEWS))
    change, count, visits = effects(parts, more.inputs, more.lengths)
    change[count < OFTEN] = 0
    order = change.argsort().tolist()
    bits, read = information(model, more)
    bits_per_word = float((bits * read).sum() / read.sum())
    bits[read < OFTEN] = 0
    informative = bits.argsort(descending=True)[:WORDS].tolist()
    drawn = visits[0].argsort(descending=True)[:STATES].tolist()
    result = {
        "network": "imdb automata-distilled, seed 0",
        "test_reviews": len(test),
        "largest_difference": float((found - exact).abs().max()),
        "largest_difference_as_one": float((together - one_by_one(parts, few.inputs, few.lengths)).abs().max()),
        "error_percent": 100 * float((found.argmax(1) != test.labels).double().mean()),
        "tokens_per_second": rates,
        "megabytes": {
            "network": path.stat().st_size / 1e6,
            "compiled members": part_bytes / 1e6,
            "compiled as one": whole_bytes / 1e6,
        },
        "states": whole.num_states,
        "positive_words": [[whole.vocabulary[n], float(change[n])] for n in order[::-1][:WORDS]],
        "negative_words": [[whole.vocabulary[n], float(change[n])] for n in order[:WORDS]],
        "visits_and_positive": [
            [[float(visited[state]), float(part.outcome[state, 1])] for state in visited.argsort(descending=True)]
            for part, visited in zip(parts, visits, strict=True)
        ],
        "informative_words": [[whole.vocabulary[n], float(bits[n])] for n in informative],
        "bits_per_word": bits_per_word,
        "drawn": {
            "visits": [float(visits[0][state]) for state in drawn],
            "positive": [float(parts[0].outcome[state, 1]) for state in drawn],
            "moves": moves(parts[0], more.inputs, more.lengths, drawn),
        },
        "hardware": f"{platform.machine()} CPU, 1 thread",
        "versions": {"sttau": sttau.__version__, "torch": torch.__version__, "numpy": np.__version__},
    }
    out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
