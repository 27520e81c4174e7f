"""Read a trained network as an automaton (the paper's Algorithm 1, corrected; docs/mathematics.md, §6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from automata.fa.dfa import DFA
from torch import Tensor

from sttau.automata.comparison import Equivalence, compare
from sttau.models import SequenceClassifier

_HORIZON = 20  # steps over which visits are counted


@dataclass(frozen=True)
class ExtractedDFA:
    """A DFA read out of a network, and how sure the network is of it.

    Attributes:
        dfa: minimal and complete, states numbered from 0, the start, in order of discovery.
        members: the network's states (rows of S) that each state of the DFA stands for.
        probabilities: of each edge (state, symbol): how likely the network's chain takes it, in the mean over the
            members, weighted by how often random strings visit them.
    """

    dfa: DFA
    members: dict[int, tuple[int, ...]]
    probabilities: dict[tuple[int, str], float]

    def equivalent_to(self, other: DFA) -> Equivalence:
        """Prove equality with another DFA, or give the shortest string on which they differ."""
        return compare(self.dfa, other)


def extract_dfa(
    model: SequenceClassifier, vocabulary: Sequence[str], *, start: str = "^", accept: int = 1
) -> ExtractedDFA:
    """Read a deterministic automaton out of a GRU-form model over a finite alphabet.

    The transition law is queried for every state and symbol, so no edge is missing. States are merged before an edge is
    chosen: two states stay together as long as they have the same label and send most of their probability, symbol by
    symbol, into the same group. An edge leads to the group that gets the most.

    Args:
        model: classifier with an embedding and a finite-state GRU.
        vocabulary: the symbol of each token id.
        start: the token every sequence begins with; it is read once and is not part of the alphabet.
        accept: the class that means "in the language".

    Example:
        >>> from torch import nn
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> model = SequenceClassifier(STTauGRU(4, 16, num_states=6), 2, nn.Embedding(3, 4))
        >>> automaton = extract_dfa(model, ("^", "0", "1"))
        >>> sorted(automaton.dfa.input_symbols)
        ['0', '1']
    """
    if model.embedding is None or model.embedding.num_embeddings != len(vocabulary):
        size = "none" if model.embedding is None else f"one of {model.embedding.num_embeddings} tokens"
        raise ValueError(f"vocabulary has {len(vocabulary)} symbols, but the model's embedding is {size}")
    if start not in vocabulary:
        raise ValueError(f"start must be in the vocabulary {tuple(vocabulary)}, got {start!r}")
    symbols = {symbol: token for token, symbol in enumerate(vocabulary) if symbol != start}
    if not symbols:
        raise ValueError("the alphabet is empty: vocabulary holds only the start token")
    with torch.no_grad():
        layer = model.finite_state_layer
        table = layer.transition_matrices(model.embedding.weight)
        initial = layer.first_distribution(model.embedding.weight[[vocabulary.index(start)]])[0]
        accepting = model.state_logits().argmax(dim=-1) == accept
    matrices = {symbol: table[token] for symbol, token in symbols.items()}
    group = _merge(matrices, accepting)
    mass = {symbol: _into_groups(matrix, group) for symbol, matrix in matrices.items()}
    visits = _visits(initial, torch.stack(list(matrices.values())).mean(0))

    # Explore from the start; number the groups as they are found.
    number: dict[int, int] = {int(_into_groups(initial[None], group)[0].argmax()): 0}
    moves: dict[int, dict[str, int]] = {}
    probabilities: dict[tuple[int, str], float] = {}
    queue = list(number)
    for g in queue:
        rows = (group == g).nonzero()[:, 0]
        weights = visits[rows] / visits[rows].sum()
        moves[number[g]] = {}
        for symbol in symbols:
            share = weights @ mass[symbol][rows]
            target = int(share.argmax())
            if target not in number:
                number[target] = len(number)
                queue.append(target)
            moves[number[g]][symbol] = number[target]
            probabilities[number[g], symbol] = float(share[target])
    return ExtractedDFA(
        dfa=DFA(
            states=set(number.values()),
            input_symbols=set(symbols),
            transitions=moves,
            initial_state=0,
            final_states={n for g, n in number.items() if bool(accepting[group == g][0])},
        ),
        members={n: tuple((group == g).nonzero()[:, 0].tolist()) for g, n in number.items()},
        probabilities=probabilities,
    )


def _into_groups(rows: Tensor, group: Tensor) -> Tensor:
    """Sum the probability that goes into each group: (n, k) gives (n, groups)."""
    return rows @ torch.nn.functional.one_hot(group).to(rows.dtype)


def _merge(matrices: dict[str, Tensor], accepting: Tensor) -> Tensor:
    """Group number of each state: the coarsest grouping that labels and heaviest moves respect."""
    group = accepting.long()
    while True:
        heaviest = [_into_groups(matrix, group).argmax(dim=-1) for matrix in matrices.values()]
        signature = torch.stack([group, *heaviest], dim=-1)
        refined: Tensor = signature.unique(dim=0, return_inverse=True)[1]
        if len(refined.unique()) == len(group.unique()):
            return refined
        group = refined


def _visits(initial: Tensor, mean: Tensor) -> Tensor:
    """Expected visits of each state while a random string is read; a little is added so that none is zero."""
    law, visits = initial, initial.clone()
    for _ in range(_HORIZON):
        law = law @ mean
        visits = visits + law
    return visits + 1e-6
