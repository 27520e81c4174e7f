"""Networks that begin as a given automaton: states, moves and labels are fitted to those of a DFA."""

from __future__ import annotations

from collections.abc import Callable

import torch
from automata.fa.dfa import DFA
from torch import Tensor, nn

from sttau.automata.exchange.states import number_states
from sttau.models import SequenceClassifier

_UPDATES = 500
_RATE = 0.05
_TARGET = 3e-5  # −log of the smallest probability of a move: of strings of 1,000 symbols at most 3 % go astray


def imitate(
    model: SequenceClassifier,
    dfa: DFA,
    start: int = 0,
    *,
    noise: float = 0.0,
    stop: Callable[[], bool] = lambda: False,
) -> float | None:
    """Train a network's transition table, not its answers to strings, until its moves are those of a DFA.

    Every state of the DFA is represented by one or more rows of S. The loss is −log of the probability of each move,
    label and of the initial state, so there are as many terms as edges, however long the strings are.

    Args:
        model: GRU-form network whose vocabulary holds the symbols of the DFA.
        dfa: Complete DFA.
        start: Start token.
        noise: Probability that a label is wrong: the network then predicts the label of a state with probability
            1 − noise. A head with fixed labels cannot.
        stop: Function called after every update, which ends the training by a true answer.

    Returns:
        The largest term of the loss; None if the network has too few states.

    Example:
        >>> from sttau import STTauGRU
        >>> from sttau.automata import extract_dfa, tomita
        >>> from sttau.data import load
        >>> _ = torch.manual_seed(0)
        >>> model = SequenceClassifier(STTauGRU(8, 32, num_states=8, mode="exact"), 2, nn.Embedding(3, 8))
        >>> model.set_metadata(load("tomita4", "train"))
        >>> imitate(model, tomita(4)) < 1e-3, extract_dfa(model).equivalent_to(tomita(4)).equal
        (True, True)
    """
    number = number_states(dfa)
    accepting = torch.tensor([state in dfa.final_states for state in number])
    group = _rows(model, accepting)
    if group is None:
        return None
    assert model.vocabulary is not None
    assert model.embedding is not None
    tokens = [token for token in range(len(model.vocabulary)) if token != start]
    moves = torch.tensor(
        [[number[dfa.transitions[state][model.vocabulary[token]]] for state in number] for token in tokens]
    )
    optimizer = torch.optim.Adam(model.parameters(), _RATE)
    largest = float("inf")
    for _ in range(_UPDATES):
        terms = _terms(model, group, moves[:, group], accepting[group], tokens, start, noise)
        largest = float(terms.detach().max())
        if largest <= _TARGET:
            break
        optimizer.zero_grad()
        terms.mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if stop():
            break
    return largest


def _rows(model: SequenceClassifier, accepting: Tensor) -> Tensor | None:
    """State of the DFA that each row of S represents, (k,); None if there are too few rows."""
    k, states = model.finite_state_layer.num_states, torch.arange(len(accepting))
    if not model.has_fixed_labels:
        return None if len(states) > k else torch.arange(k) % len(states)
    halves = [states[~accepting], states[accepting]]  # the first half of the rows rejects, the second accepts
    if any(len(half) > k // 2 for half in halves):
        return None
    filled = [half if len(half) else states for half in halves]  # rows of a label that does not occur are never visited
    return torch.cat([half[torch.arange(k // 2) % len(half)] for half in filled])


def _terms(
    model: SequenceClassifier,
    group: Tensor,
    moves: Tensor,
    accepting: Tensor,
    tokens: list[int],
    start: int,
    noise: float,
) -> Tensor:
    """−log of the probability of every move and of the initial state, and the divergence of every label."""
    assert model.embedding is not None
    layer, vectors = model.finite_state_layer, model.embedding.weight
    into = nn.functional.one_hot(group).to(vectors.dtype)
    chances = [
        (layer.transition_matrices(vectors[tokens]) @ into).gather(-1, moves[..., None]).flatten(),
        (layer.first_distribution(vectors[[start]]) @ into)[:, 0],
    ]
    whole = torch.cat(chances)
    terms = -whole.clamp_min(torch.finfo(whole.dtype).tiny).log()
    if model.has_fixed_labels:
        return terms
    labels = nn.functional.one_hot(accepting.long(), 2).to(vectors.dtype)
    labels = labels * (1 - 2 * noise) + noise
    divergence = torch.special.xlogy(labels, labels) - labels * model.state_logits().clamp_min(-100)
    return torch.cat([terms, divergence.sum(-1)])
