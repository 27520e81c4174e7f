"""Verdicts on learned automata: what the labeled strings prove, make likely or leave open."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from automata.fa.dfa import DFA

from sttau.automata.equivalence import compare
from sttau.automata.learning.label_noise import NoisyFit, judge, learn_with_noise
from sttau.automata.learning.labeled_tree import labeled_tree, moves_of
from sttau.automata.learning.prefix_tree import string_vocabulary
from sttau.automata.learning.state_merging import learn_by_merging
from sttau.data.dataset import SequenceDataset

Kind = Literal["proved on the data", "likely", "not determined by the data", "failed"]

_SMALLEST_ODDS = math.log(20)  # posterior odds against all rivals that were seen
_SMALLEST_GAIN = math.log(1000)  # posterior odds against an automaton that ignores the strings
_LARGEST_NOISE = 0.3
_SIGNIFICANCE = 1e-3  # of too many errors on held-out strings
_HELD_OUT = 5  # one of so many strings is held out if there is no validation set


@dataclass(frozen=True)
class Verdict:
    """What is known about a learned automaton, and the evidence. It is true if the automaton was found.

    Attributes:
        kind: ``proved on the data`` if all labels are those of the automaton and no rival is nearly as probable;
            ``likely`` if that holds up to an estimated rate of wrong labels; ``not determined by the data`` if another
            language is nearly as probable, or the language is probably not regular; ``failed`` otherwise.
        evidence: The numbers behind it, and what to do.
        noise: Estimated probability that a label is wrong.
        log_odds: Logarithm of the posterior odds against all other languages that were seen; None if there are none.
        held_out: Numbers of wrong and of all held-out labels; None without any.
    """

    kind: Kind
    evidence: str
    noise: float = 0.0
    log_odds: float | None = None
    held_out: tuple[int, int] | None = None

    def __bool__(self) -> bool:
        return self.kind in ("proved on the data", "likely")

    def __str__(self) -> str:
        return f"{self.kind}: {self.evidence}"


def consistent_verdict(dfa: DFA, train: SequenceDataset, validation: SequenceDataset | None) -> Verdict:
    """Return the verdict on an automaton that labels all strings correctly.

    Example:
        >>> from sttau.automata import tomita
        >>> from sttau.data import load
        >>> consistent_verdict(tomita(4), load("tomita4", "train"), None).kind
        'proved on the data'
    """
    fit = judge(dfa, train)
    held_out = None if validation is None else (0, len(validation))
    count = f"all {fit.labels} labels are those of the automaton of {_states(fit.dfa)}"
    kind: Kind = "not determined by the data"
    if grown := growth(train, fit.dfa):
        evidence = f"{count}, but the language is probably not regular: {grown}"
    elif fit.gain <= 0 and len(fit.dfa.states) > 1:
        share = float(train.labels.double().mean())
        evidence = (
            f"{count}, but one that ignores the strings, with {min(share, 1 - share):.1%} wrong labels, is not less "
            "probable: add strings, above all of the rarer label"
        )
    elif fit.log_odds < _SMALLEST_ODDS:
        evidence = f"{count}; {_rival(fit)}"
    else:
        kind = "proved on the data"
        evidence = f"{count}; {_odds(fit)}"
        if validation is not None:
            evidence += f"; none of {len(validation)} validation labels is wrong"
    return Verdict(kind, evidence, 0.0, fit.log_odds, held_out)


class NoisyCandidate(NamedTuple):
    """The most probable automaton under wrong labels, the check on held-out strings, and what speaks against it."""

    fit: NoisyFit
    held_out: tuple[int, int]
    problem: str

    def verdict(self) -> Verdict:
        """Return the verdict on it."""
        fit, (wrong, total) = self.fit, self.held_out
        numbers = (
            f"{fit.wrong} of {fit.labels} labels differ from the automaton of {_states(fit.dfa)}, an estimated noise "
            f"rate of {fit.noise:.1%}; {wrong} of {total} held-out labels differ"
        )
        kind: Kind = "likely"
        if self.problem:
            kind, evidence = "failed", f"{self.problem}; {numbers}"
        elif fit.log_odds < _SMALLEST_ODDS:
            kind, evidence = "not determined by the data", f"{numbers}; {_rival(fit)}"
        else:
            evidence = f"{numbers}; {_odds(fit)}"
        return Verdict(kind, evidence, fit.noise, fit.log_odds, self.held_out)


def find_noisy(
    train: SequenceDataset,
    validation: SequenceDataset | None,
    num_states: int,
    initial: DFA | None,
    seed: int,
    stop: Callable[[], bool],
) -> NoisyCandidate:
    """Return the most probable automaton under wrong labels; without validation strings a fifth is held out first."""
    options: dict[str, Any] = {
        "largest": 2 * num_states,
        "seed": seed,
        "stop": stop,
    }
    if validation is None and len(train) >= 2 * _HELD_OUT:
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))
        cut = len(train) // _HELD_OUT
        part = learn_with_noise(train.select(order[cut:].sort().values), initial=initial, **options)
        held_out = count_wrong_by(part.dfa, train.select(order[:cut])), cut
        checked, initial = part, part.dfa
        fit = learn_with_noise(train, initial=initial, **options)
    else:
        fit = checked = learn_with_noise(train, initial=initial, **options)
        held_out = (0, 0) if validation is None else (count_wrong_by(fit.dfa, validation), len(validation))
    return NoisyCandidate(fit, held_out, _problem(fit, checked, held_out, train, num_states))


def _problem(
    fit: NoisyFit, checked: NoisyFit, held_out: tuple[int, int], train: SequenceDataset, num_states: int
) -> str:
    """What speaks against an automaton; empty if nothing does."""
    from scipy.stats import binom

    if _is_dispersed(fit, train):
        return "labels of equal strings differ at rates that depend on the string: use learn_stochastic"
    if fit.gain < _SMALLEST_GAIN or fit.noise > _LARGEST_NOISE:
        return nothing_fits(num_states)
    wrong, total = held_out
    if total and float(binom.sf(wrong - 1, total, checked.noise)) < _SIGNIFICANCE:
        return (
            f"the automaton fits the training strings, but labels {wrong} of {total} held-out strings wrongly, so the "
            "training strings do not determine the language: add strings, above all short ones"
        )
    if len(fit.dfa.states) > num_states:
        return f"the most probable automaton has {len(fit.dfa.states)} states, more than num_states = {num_states}"
    return ""


def nothing_fits(num_states: int) -> str:
    """Return the reason of a failure where neither clean nor wrong labels explain the data."""
    return (
        f"no automaton of up to {2 * num_states} states fits the training labels, even if some are wrong: labels are "
        "random (then learn_stochastic estimates probabilities), the language is not regular, or num_states is far too "
        "small"
    )


def check_copies(train: SequenceDataset) -> None:
    """Raise an error if equal strings have different labels so often that they are random, not wrong."""
    counts = labeled_tree(train).counts
    number = counts.sum(-1)
    pairs = (number * (number - 1)).sum()
    if pairs and (rate := float(2 * counts.prod(-1).sum() / pairs)) > 2 * _LARGEST_NOISE * (1 - _LARGEST_NOISE):
        raise ValueError(
            f"train has strings with several labels, and {rate:.0%} of all pairs of copies differ: too many to be "
            "wrong labels; use learn_stochastic for a stochastic language"
        )


def _is_dispersed(fit: NoisyFit, train: SequenceDataset) -> bool:
    """Whether the shares of wrong labels of equal strings vary more than one noise rate allows."""
    tree = labeled_tree(train)
    copies = tree.counts.sum(-1)
    several = copies > 1
    if not several.any():
        return False
    moves, accepting = moves_of(fit.dfa, tree.alphabet)
    states = np.zeros(len(copies), dtype=np.int64)
    for node in range(1, len(states)):
        states[node] = moves[states[tree.parents[node]], tree.symbols[node]]
    errors = tree.counts[np.arange(len(states)), 1 - accepting[states].astype(int)][several]
    number, rate = copies[several], fit.noise
    excess = ((errors - number * rate) ** 2 / (number * rate * (1 - rate))).sum()  # chi-squared, if the rate is one
    return bool(excess > len(number) + 6 * math.sqrt(2 * len(number)))


def growth(train: SequenceDataset, dfa: DFA | None, largest: int = 100) -> str:
    """Evidence that a language is not regular: ever larger automata for ever longer strings; empty without it.

    Args:
        train: Labeled strings without contradictory labels.
        dfa: Automaton of all of them; None if there is none of at most ``largest`` states.
        largest: Largest number of states.

    Example:
        >>> from itertools import product
        >>> from sttau.automata import as_dataset, learn_by_merging
        >>> strings = ["".join(word) for length in range(9) for word in product("ab", repeat=length)]
        >>> data = as_dataset(strings, [s == "a" * (len(s) // 2) + "b" * (len(s) // 2) for s in strings], "ab")
        >>> growth(data, learn_by_merging(data))
        'automata that fit have 3 states up to length 2, 5 up to length 4, 7 up to length 6, 9 up to length 8'
    """
    longest = int(train.lengths.max()) - 1
    lengths = sorted({longest * part // 4 for part in (1, 2, 3, 4)} - {0})
    sizes: list[int | None] = []
    for length in reversed(lengths):
        if length == longest and dfa is not None:
            found: DFA | None = dfa
        else:
            found = learn_by_merging(train.select(train.lengths <= length + 1), "canonical", largest=largest)
        size = None if found is None else len(found.minify().states)
        later = sizes[0] if sizes else None
        if sizes and (size is None or (later is not None and size >= later)):
            if size is None and later is None:
                continue  # still too large for a shorter length
            return ""
        sizes.insert(0, size)
    lengths = lengths[len(lengths) - len(sizes) :]
    if len(sizes) < 4:
        return ""
    shown = [
        f"{f'more than {largest}' if size is None else size}{'' if place else ' states'} up to length {length}"
        for place, (size, length) in enumerate(zip(sizes, lengths, strict=True))
    ]
    return f"automata that fit have {', '.join(shown)}"


def count_wrong_by(dfa: DFA, data: SequenceDataset | None) -> int:
    """Return the number of strings that an automaton labels wrongly; 0 without data."""
    if data is None:
        return 0
    vocabulary = string_vocabulary(data)
    words: list[Any] = [  # lists of symbols, which automata-lib accepts too
        [vocabulary[token] for token in tokens[1:length]]
        for tokens, length in zip(data.inputs.tolist(), data.lengths.tolist(), strict=True)
    ]
    labels = data.labels.tolist()
    return sum(dfa.accepts_input(word) != (label == 1) for word, label in zip(words, labels, strict=True))


def _states(dfa: DFA) -> str:
    count = len(dfa.states)
    return f"{count} state{'' if count == 1 else 's'}"


def _odds(fit: NoisyFit) -> str:
    if math.isinf(fit.log_odds):
        return "no other automaton was seen"
    size = fit.log_odds / math.log(10)
    shown = f"10^{size:.0f}" if size >= 4 else f"{math.exp(fit.log_odds):.0f}"
    return f"posterior odds of {shown} : 1 against all other automata that were seen"


def _rival(fit: NoisyFit) -> str:
    """Another language that is nearly as probable, and the string that would decide."""
    if fit.rival is None:
        return "the posterior odds are low"
    answer = compare(fit.dfa, fit.rival)
    return (
        f"another automaton of {_states(fit.rival)} is nearly as probable (posterior odds {math.exp(fit.log_odds):.1f} "
        f": 1 against all that were seen); label strings like “{answer.counterexample}”, on which they differ"
    )
