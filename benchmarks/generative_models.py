"""Generated HMMs and PDFAs learned from unlabeled strings: log-loss per string against the true one.

    python benchmarks/generative_models.py --out benchmarks/generative_models.jsonl

Models of 3 to 5 states over four symbols; 3,000 training and 5,000 test strings. The number of states is chosen by
held-out likelihood. "excess" is the log-loss of the test strings divided by that of the true model, minus 1, in %.
n-grams have Witten and Bell's smoothing; ALERGIA and the spectral model, which give some strings no probability, are
mixed with 1 % of the bigram. The probabilities of the spectral model are its values, divided so that those of the
outcomes after each prefix sum to 1 (negative ones count as 0). Its rank is chosen as our number of states is, by the
likelihood of a fifth of the strings. Seeds from 70000; they were run once, the spectral model later than the others.

    python benchmarks/generative_models.py --oracle --out benchmarks/generative_models_hmmlearn.jsonl

hmmlearn, to which the end of a string is a symbol, is an oracle: its EM continues for ten iterations from our HMM of
the true number of states, and "gain" is what they add to the log-likelihood per training string; another gain is that
of our own EM with a smaller tolerance. It needs ``pip install hmmlearn``.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from sttau.automata.generative import (
    GenerativeAutomaton,
    NGram,
    SpectralModel,
    learn_by_alergia,
    learn_generative,
    learn_spectrally,
)
from sttau.version import __version__

ALPHABET = "abcd"


def random_model(kind: str, states: int, seed: int) -> GenerativeAutomaton:
    """A random HMM, or a random PDFA whose states are all reachable."""
    source = np.random.default_rng([seed, states])
    ends = source.uniform(0.05, 0.2, states)
    emission = source.dirichlet(np.full(len(ALPHABET), 0.5), size=states)
    if kind == "hmm":
        transition = source.dirichlet(np.full(states, 0.5), size=states)
        return GenerativeAutomaton.from_hmm(source.dirichlet(np.ones(states)), transition, emission, ends, ALPHABET)
    targets = source.integers(states, size=(states, len(ALPHABET)))
    targets[np.arange(states), emission.argmax(-1)] = (np.arange(states) + 1) % states
    moves = np.zeros((len(ALPHABET), states, states))
    for state in range(states):
        for symbol in range(len(ALPHABET)):
            moves[symbol, state, targets[state, symbol]] = (1 - ends[state]) * emission[state, symbol]
    return GenerativeAutomaton(np.eye(states)[0], moves, ends, tuple(ALPHABET))


def measure(kind: str, states: int, seed: int) -> dict[str, Any]:
    """Learn one model in each way."""
    truth = random_model(kind, states, seed)
    train, test = truth.sample(3000, seed=seed), truth.sample(5000, seed=seed + 1_000_000)
    entropy = -float(truth.log_probability(test).mean())
    row: dict[str, Any] = {"kind": kind, "states": states, "seed": seed, "nats per string": round(entropy, 4)}

    def note(name: str, log_probability: Any, began: float, **more: Any) -> None:
        excess = 100 * (-float(np.mean(log_probability)) / entropy - 1)
        row[name] = {"excess": round(excess, 3), "seconds": round(time.perf_counter() - began, 1), **more}

    for form in ("automaton", "hmm"):
        began = time.perf_counter()
        options: dict[str, Any] = {"attempts": 4, "iterations": 200, "largest": 7, "tolerance": 1e-5}
        learned = learn_generative(train, kind=form, alphabet=ALPHABET, **options)  # type: ignore[arg-type]
        held = max(learned.held_out.values())
        note(form, learned.automaton.log_probability(test), began, held=held, states=learned.automaton.num_states)
    row["ours"] = max((row[form] for form in ("automaton", "hmm")), key=lambda found: found["held"])
    for order in (2, 3, 4):
        began = time.perf_counter()
        note(f"{order}-gram", NGram(train, order, ALPHABET).log_probability(test), began)
    began = time.perf_counter()
    found = learn_by_alergia(train)
    floor = NGram(train, 2, ALPHABET).log_probability(test) + np.log(0.01)
    note("alergia", np.logaddexp(found.log_probability(test) + np.log(0.99), floor), began, states=found.num_states)
    began = time.perf_counter()
    spectral = best_spectral(train)
    note(
        "spectral", np.logaddexp(spectral.log_probability(test) + np.log(0.99), floor), began, rank=spectral.num_states
    )
    return row


def check(kind: str, states: int, seed: int) -> dict[str, Any]:
    """Continue the EM of an HMM with hmmlearn."""
    train = random_model(kind, states, seed).sample(3000, seed=seed)
    ours = learn_generative(train, states, kind="hmm", alphabet=ALPHABET, attempts=4, iterations=200, tolerance=1e-5)
    theirs = continued_by_hmmlearn(ours.automaton, train)
    before, after = (float(hmm.log_probability(train).mean()) for hmm in (ours.automaton, theirs))
    again = learn_generative(train, states, kind="hmm", alphabet=ALPHABET, attempts=4, iterations=2000, tolerance=1e-8)
    return {
        "kind": kind,
        "states": states,
        "seed": seed,
        "nats per string": round(-before, 5),
        "gain of hmmlearn": round(after - before, 8),
        "gain of a smaller tolerance": round(float(again.automaton.log_probability(train).mean()) - before, 8),
    }


def best_spectral(train: list[tuple[str, ...]]) -> SpectralModel:
    """The spectral model of the rank with the largest likelihood of a fifth of the strings."""
    cut = len(train) // 5
    kept, other = train[cut:], train[:cut]
    floor = NGram(kept, 2, ALPHABET).log_probability(other) + np.log(0.01)

    def held_out(rank: int) -> float:
        model = learn_spectrally(kept, rank, alphabet=ALPHABET)
        return float(np.logaddexp(model.log_probability(other) + np.log(0.99), floor).mean())

    return learn_spectrally(train, max(range(1, 9), key=held_out), alphabet=ALPHABET)


def continued_by_hmmlearn(start: GenerativeAutomaton, train: list[tuple[str, ...]]) -> GenerativeAutomaton:
    """The HMM after ten iterations of hmmlearn's EM from a given one."""
    from hmmlearn.hmm import CategoricalHMM

    model = CategoricalHMM(start.num_states, n_iter=10, tol=-np.inf, init_params="", n_features=len(ALPHABET) + 1)
    model.startprob_ = start.initial
    model.transmat_ = start.moves.sum(0) / start.moves.sum((0, 2))[:, None]
    model.emissionprob_ = np.concatenate([start.moves.sum(2).T, start.ends[:, None]], axis=1)
    rows = [[*(ALPHABET.index(symbol) for symbol in string), len(ALPHABET)] for string in train]
    model.fit(np.concatenate([np.array(row) for row in rows])[:, None], [len(row) for row in rows])
    ends = model.emissionprob_[:, -1]
    emission = model.emissionprob_[:, :-1] / (1 - ends)[:, None]
    return GenerativeAutomaton.from_hmm(model.startprob_, model.transmat_, emission, ends, ALPHABET)


def main() -> None:
    """Measure all models and write one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=2)
    parser.add_argument("--seed", type=int, default=70000)
    parser.add_argument("--oracle", action="store_true", help="continue the EM of HMMs with hmmlearn instead")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    versions = {"sttau": __version__, "numpy": np.__version__, "python": platform.python_version()}
    if options.oracle:
        versions["hmmlearn"] = version("hmmlearn")
    rows = []
    for number in range(options.each):
        for states in (3, 4, 5):
            for kind in ("hmm", "pdfa"):
                rows.append((check if options.oracle else measure)(kind, states, options.seed + number))
                print(json.dumps(rows[-1]), flush=True)
                if options.out is not None:
                    lines = (json.dumps(row | {"versions": versions, "hardware": "one CPU thread"}) for row in rows)
                    options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
