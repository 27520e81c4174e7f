"""The automaton from which a network starts: that of state merging, or the most probable one under wrong labels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from automata.fa.dfa import DFA

from sttau.automata.equivalence import compare
from sttau.automata.extraction import extract_dfa
from sttau.automata.learning.attempt import Deadline
from sttau.automata.learning.imitation import imitate
from sttau.automata.learning.label_noise import judge
from sttau.automata.learning.prefix_tree import PrefixTree
from sttau.automata.learning.state_merging import Order, learn_by_merging
from sttau.automata.learning.verdict import NoisyCandidate, check_copies, count_wrong_by, find_noisy
from sttau.data.dataset import SequenceDataset
from sttau.data.strings import START
from sttau.inference import predict
from sttau.models import SequenceClassifier

_SEARCH = 0.7  # share of the time limit for the search of an automaton; the rest is for the network


@dataclass(frozen=True)
class Start:
    """The automaton from which the first attempt starts.

    Attributes:
        dfa: The automaton; None if there is none.
        noisy: The most probable automaton if some labels are wrong; None if none need be.
    """

    dfa: DFA | None = None
    noisy: NoisyCandidate | None = None

    @staticmethod
    def find(
        train: SequenceDataset, validation: SequenceDataset | None, num_states: int, seed: int, deadline: Deadline
    ) -> Start:
        """The automaton of state merging if it fits all labels, or else the most probable one."""
        if len(train.class_names) != 2:
            return Start()
        contradictory = bool((PrefixTree(train).counts > 0).all(-1).any())
        check_copies(train)
        search = deadline.part(_SEARCH)
        merged = None if contradictory else _merged(train, validation, 2 * num_states, search)
        fits = merged is not None and len(merged.states) <= num_states and not count_wrong_by(merged, validation)
        if fits:
            return Start(merged)
        noisy = find_noisy(train, validation, num_states, merged, seed, search.passed)
        if noisy.problem and not contradictory:
            return Start(merged)  # clean labels that are not learned for another reason
        return Start(noisy.fit.dfa, noisy)

    @property
    def is_noisy(self) -> bool:
        """Whether some labels must be wrong."""
        return self.noisy is not None

    @property
    def problem(self) -> str:
        """What speaks against the most probable automaton."""
        return "" if self.noisy is None else self.noisy.problem

    @property
    def is_likely(self) -> bool:
        """Whether nothing speaks against the automaton."""
        return self.noisy is not None and not self.noisy.problem

    def imitated_by(self, model: SequenceClassifier, start: int, deadline: Deadline) -> bool:
        """Train a network to be the automaton; whether it has enough states."""
        assert self.dfa is not None
        noise = 0.0 if self.noisy is None else self.noisy.fit.noise
        return imitate(model, self.dfa, start, noise=noise, stop=deadline.passed) is not None

    def is_that_of(self, model: SequenceClassifier, *data: SequenceDataset | None) -> bool:
        """Whether a network and its extracted automaton are this one, on all strings."""
        assert self.dfa is not None
        found = extract_dfa(model, start=start_of(model))
        parts = [part for part in data if part is not None]
        agrees = all(
            torch.equal(predict(model, part.inputs, part.lengths).label == 1, found.accepts(part.inputs, part.lengths))
            for part in parts
        )
        return agrees and bool(compare(found.dfa, self.dfa))

    def improved_by(
        self,
        model: SequenceClassifier,
        train: SequenceDataset,
        validation: SequenceDataset | None,
        num_states: int,
        seed: int,
        deadline: Deadline,
    ) -> Start:
        """The automaton of a trained network instead, if it is more probable."""
        assert self.noisy is not None
        found = extract_dfa(model, start=start_of(model)).dfa.minify()
        if judge(found, train).log_posterior <= self.noisy.fit.log_posterior:
            return self
        noisy = find_noisy(train, validation, num_states, found, seed, deadline.passed)
        return Start(noisy.fit.dfa, noisy)


def start_of(model: SequenceClassifier) -> str:
    """The start token of a network that ``learn`` trained."""
    assert model.vocabulary is not None
    return START if START in model.vocabulary else model.vocabulary[0]


def _merged(train: SequenceDataset, validation: SequenceDataset | None, largest: int, deadline: Deadline) -> DFA | None:
    """The automaton that state merging finds: with the fewest validation errors, then with the fewest states."""
    if len(train.class_names) != 2:
        return None
    orders: tuple[Order, ...] = ("evidence", "canonical")
    made = [learn_by_merging(train, order, largest=largest, stop=deadline.passed) for order in orders]
    found = [dfa.minify() for dfa in made if dfa is not None]
    return min(found, key=lambda dfa: (count_wrong_by(dfa, validation), len(dfa.states)), default=None)
