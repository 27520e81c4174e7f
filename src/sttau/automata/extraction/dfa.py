"""Extraction of DFAs (the paper's Algorithm 1, corrected; docs/mathematics.md, §6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from automata.fa.dfa import DFA
from torch import Tensor

from sttau.automata.equivalence import Equivalence, compare
from sttau.automata.extraction.table import Table, TransitionTable, read_table, relaxed_draws
from sttau.automata.extraction.visits import expected_visits, visits_of_data
from sttau.automata.value import AutomatonLike
from sttau.data.dataset import SequenceDataset
from sttau.models import SequenceClassifier


@dataclass(frozen=True)
class Edge:
    """A move of an extracted automaton with its probability and variances.

    Attributes:
        target: Target state.
        probability: Probability that the network takes the move, averaged over visits.
        count: Expected number of visits by the strings of the data; by random strings of 20 symbols without data.
        noise: Variance from the Gumbel noise at a pure state: of the indicator of this move for the categorical table,
            of the share of α that takes it for the relaxed one.
        mixture: Variance from the hidden state before the move: of the mean share over the hidden states that were
            visited, which are mixtures of states for the relaxed table, and members of the group for the categorical.
        shares: Probability of each state of the automaton as target.
    """

    target: int
    probability: float
    count: float
    noise: float
    mixture: float
    shares: tuple[float, ...]


@dataclass(frozen=True)
class ExtractedDFA:
    """A DFA extracted from a network, with the uncertainty of its moves.

    Attributes:
        dfa: Minimal and complete DFA; states are numbered in breadth-first order from 0, the initial state.
        members: States of the network (rows of S) that each state of the DFA stands for.
        edges: Probability and variances of each move (state, symbol).
        table: Transition table that was extracted: ``categorical`` (hard sampling, for every τ) or ``relaxed mean``
            (the mean of α, at the network's τ).
        vocabulary: Symbol of each token of the network.
    """

    dfa: DFA
    members: dict[int, tuple[int, ...]]
    edges: dict[tuple[int, str], Edge]
    table: Table
    vocabulary: tuple[str, ...]

    @property
    def automaton(self) -> DFA:
        """The DFA."""
        return self.dfa

    @property
    def probabilities(self) -> dict[tuple[int, str], float]:
        """Probability of each move (state, symbol)."""
        return {move: edge.probability for move, edge in self.edges.items()}

    @property
    def variances(self) -> dict[tuple[int, str], float]:
        """Variance of each move (state, symbol), the sum of both sources."""
        return {move: edge.noise + edge.mixture for move, edge in self.edges.items()}

    def equivalent_to(self, other: AutomatonLike) -> Equivalence:
        """Prove equivalence with another automaton, or return the shortest string on which they differ."""
        return compare(self.dfa, other)

    def accepts(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Return whether token sequences, (batch, time) with a leading start token, are accepted: (batch,) booleans."""
        moves = torch.zeros(len(self.dfa.states), len(self.vocabulary), dtype=torch.int64)
        for (state, symbol), edge in self.edges.items():
            moves[state, self.vocabulary.index(symbol)] = edge.target
        states = torch.zeros(len(inputs), dtype=torch.int64)
        for step in range(1, inputs.shape[1]):
            states = torch.where(step < lengths, moves[states, inputs[:, step]], states)
        return torch.tensor([state in self.dfa.final_states for state in range(len(moves))])[states]


def extract_dfa(
    model: SequenceClassifier,
    vocabulary: Sequence[str] | None = None,
    *,
    start: str = "^",
    accept: int = 1,
    table: Table = "categorical",
    data: SequenceDataset | None = None,
    seed: int = 0,
) -> ExtractedDFA:
    """Extract a deterministic automaton from a GRU-form model over a finite alphabet, at any point of its training.

    The transition distribution is evaluated for every state and symbol, so no edge is missing. States are merged before
    an edge is chosen: two states stay together as long as they have the same label and move, for every symbol, with the
    largest probability into the same group. An edge leads to the group with the largest probability. Unreachable groups
    are left out.

    Args:
        model: Classifier with an embedding and a finite-state GRU.
        vocabulary: Symbol of each token id; the model's own if None.
        start: Start token of every sequence; it is not part of the alphabet.
        accept: Class that means "in the language".
        table: Transition table to extract; see :class:`ExtractedDFA`.
        data: Strings from which the visits of edges and the hidden states before them are measured; random strings if
            None.
        seed: Seed of the draws for the relaxed mean.

    Example:
        >>> from torch import nn
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> model = SequenceClassifier(STTauGRU(4, 16, num_states=6), 2, nn.Embedding(3, 4))
        >>> automaton = extract_dfa(model, ("^", "0", "1"))
        >>> sorted(automaton.dfa.input_symbols), automaton.edges[0, "1"].count > 0
        (['0', '1'], True)
    """
    network = read_table(model, vocabulary, start, accept, table, seed)
    accepting = network.chances > 0.5
    matrices = dict(zip(network.symbols, network.matrices, strict=True))
    group = merge_states(matrices, accepting)
    into = F.one_hot(group).to(network.initial.dtype)
    mass = network.matrices @ into  # (symbols, k, groups)
    noise = _noise_variance(network, into)
    visits, mixture = expected_visits(network), None
    if data is not None:
        visits, mixture = visits_of_data(model, network, data, into, seed)

    # Explore from the initial state; number the groups in the order in which they are found.
    number: dict[int, int] = {int((network.initial @ into).argmax()): 0}
    found: dict[tuple[int, str], tuple[int, Edge]] = {}
    queue = list(number)
    for g in queue:
        for x, symbol in enumerate(network.symbols):
            rows = group == g
            weights = visits[x, rows] + 1e-9  # defines the weights of an edge without visits
            weights = weights / weights.sum()
            shares = weights @ mass[x, rows]
            target = int(shares.argmax())
            if target not in number:
                number[target] = len(number)
                queue.append(target)
            own = mass[x, rows, target]
            spread = weights @ (own - shares[target]).square() if mixture is None else mixture[x, g, target]
            found[g, symbol] = (
                target,
                Edge(
                    target=number[target],
                    probability=float(shares[target]),
                    count=float(visits[x, rows].sum()),
                    noise=float(weights @ noise[x, rows, target]),
                    mixture=float(spread),
                    shares=tuple(shares.tolist()),
                ),
            )
    edges = {
        (number[g], symbol): replace(edge, shares=tuple(edge.shares[other] for other in queue))
        for (g, symbol), (_, edge) in found.items()
    }
    return ExtractedDFA(
        dfa=DFA(
            states=set(number.values()),
            input_symbols=set(network.symbols),
            transitions={n: {symbol: edges[n, symbol].target for symbol in network.symbols} for n in number.values()},
            initial_state=0,
            final_states={n for g, n in number.items() if bool(accepting[group == g][0])},
        ),
        members={n: tuple((group == g).nonzero()[:, 0].tolist()) for g, n in number.items()},
        edges=edges,
        table=table,
        vocabulary=network.vocabulary,
    )


def _noise_variance(table: TransitionTable, into: Tensor) -> Tensor:
    """Variance of the share that moves into each group, from pure states: (symbols, k, groups)."""
    if table.table == "categorical":
        mass = table.matrices @ into
        return mass * (1 - mass)
    return (relaxed_draws(table.categorical, table.temperature, table.seed) @ into).var(0, correction=0)


def merge_states(matrices: dict[str, Tensor], accepting: Tensor) -> Tensor:
    """Return the group of each state: the coarsest grouping compatible with labels and most probable moves."""
    group = accepting.long()
    while True:
        heaviest = [(matrix @ F.one_hot(group).to(matrix.dtype)).argmax(dim=-1) for matrix in matrices.values()]
        signature = torch.stack([group, *heaviest], dim=-1)
        refined: Tensor = signature.unique(dim=0, return_inverse=True)[1]
        if len(refined.unique()) == len(group.unique()):
            return refined
        group = refined
