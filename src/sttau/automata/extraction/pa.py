"""Extraction of probabilistic automata (docs/mathematics.md, §4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sttau.automata.extraction.table import Table, read_table
from sttau.automata.reduction import Reduction, reduce
from sttau.languages import PA
from sttau.models import SequenceClassifier


@dataclass(frozen=True)
class ExtractedPA:
    """A PA extracted from a network.

    Attributes:
        pa: Automaton after reduction.
        table: Transition table that was extracted: ``categorical`` (hard sampling, for every τ: its probabilities are
            those of exact inference) or ``relaxed mean`` (the mean of α at each pure state, at the network's τ: a
            different automaton).
        full: Automaton with one state per state of the network.
        reduction: States that were merged or left out, and a bound on the error.
    """

    pa: PA
    table: Table
    full: PA
    reduction: Reduction

    @property
    def automaton(self) -> PA:
        """The PA after reduction."""
        return self.pa


def extract_pa(
    model: SequenceClassifier,
    vocabulary: Sequence[str] | None = None,
    *,
    start: str = "^",
    accept: int = 1,
    table: Table = "categorical",
    tolerance: float = 1e-9,
    leak: float = 0.0,
    seed: int = 0,
) -> ExtractedPA:
    """Extract a probabilistic automaton from a GRU-form model over a finite alphabet.

    Args:
        model: Classifier with an embedding and a finite-state GRU.
        vocabulary: Symbol of each token id; the model's own if None.
        start: Start token of every sequence; the distribution of the state after it is the initial distribution.
        accept: Class that means "accepted".
        table: Transition table to extract; see :class:`ExtractedPA`.
        tolerance: Largest difference of states that are merged; see :func:`sttau.automata.reduce`.
        leak: Largest probability per step of entering the states that are left out.
        seed: Seed of the draws for the relaxed mean.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> model = SequenceClassifier(STTauGRU(4, 16, num_states=6, mode="exact"), 2, nn.Embedding(3, 4))
        >>> extracted = extract_pa(model, ("^", "0", "1"))
        >>> logits = model(torch.tensor([[0, 2, 1, 1]]))
        >>> bool(torch.isclose(extracted.pa.probability(["100"]).float(), logits.softmax(-1)[:, 1], atol=1e-6))
        True
    """
    network = read_table(model, vocabulary, start, accept, table, seed)
    full = PA(network.initial, network.matrices, network.chances, network.symbols)
    reduction = reduce(full, tolerance, leak=leak)
    return ExtractedPA(reduction.pa, table, full, reduction)
