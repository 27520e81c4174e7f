"""Read a trained network as an automaton (the paper's Algorithm 1, corrected; docs/mathematics.md, §6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from automata.fa.dfa import DFA
from torch import Tensor

from sttau.automata.comparison import Equivalence, compare
from sttau.automata.pa import PA
from sttau.automata.reduction import Reduction, reduce
from sttau.data.dataset import SequenceDataset
from sttau.engine import Noise, fingerprint
from sttau.layers import FiniteStateRNN
from sttau.models import SequenceClassifier

Table = Literal["categorical", "relaxed mean"]

_HORIZON = 20  # steps over which visits of random strings are counted
_DRAWS = 2000  # of Gumbel noise, for means and variances under the relaxation
_AT_ONCE = 1 << 22  # numbers


@dataclass(frozen=True)
class Edge:
    """A move of an extracted automaton, and how sure the network is of it.

    Attributes:
        target: the state it leads to.
        probability: that the network takes it, in the mean over visits.
        count: how often running over the data came by, in expectation; over random strings of 20 symbols without data.
        noise: variance from the Gumbel noise at a pure state: of the indicator of this move under the categorical law,
            of the share of α that takes it under the relaxed one.
        mixture: variance from where the network stood: of the mean share over the hidden states that were met while
            running, which are mixtures of states under the relaxed law, and members of the group under the categorical.
        shares: the whole law, the probability of each state of the automaton.
    """

    target: int
    probability: float
    count: float
    noise: float
    mixture: float
    shares: tuple[float, ...]


@dataclass(frozen=True)
class ExtractedDFA:
    """A DFA read out of a network, and how sure the network is of it.

    Attributes:
        dfa: minimal and complete, states numbered from 0, the start, in order of discovery.
        members: the network's states (rows of S) that each state of the DFA stands for.
        edges: what is known of each move (state, symbol).
        table: the law that was read: ``categorical`` (hard sampling, every τ) or ``relaxed mean`` (the mean of α, at
            the network's τ).
        vocabulary: the symbol of each of the network's tokens.
    """

    dfa: DFA
    members: dict[int, tuple[int, ...]]
    edges: dict[tuple[int, str], Edge]
    table: Table
    vocabulary: tuple[str, ...]

    @property
    def probabilities(self) -> dict[tuple[int, str], float]:
        """How likely the network takes each move (state, symbol)."""
        return {move: edge.probability for move, edge in self.edges.items()}

    @property
    def variances(self) -> dict[tuple[int, str], float]:
        """Variance of each move (state, symbol), from both sources together."""
        return {move: edge.noise + edge.mixture for move, edge in self.edges.items()}

    def equivalent_to(self, other: DFA) -> Equivalence:
        """Prove equality with another DFA, or give the shortest string on which they differ."""
        return compare(self.dfa, other)

    def accepts(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """Whether token sequences are accepted, (batch, time) with the start token in front: (batch,) booleans."""
        moves = torch.zeros(len(self.dfa.states), len(self.vocabulary), dtype=torch.int64)
        for (state, symbol), edge in self.edges.items():
            moves[state, self.vocabulary.index(symbol)] = edge.target
        states = torch.zeros(len(inputs), dtype=torch.int64)
        for step in range(1, inputs.shape[1]):
            states = torch.where(step < lengths, moves[states, inputs[:, step]], states)
        return torch.tensor([state in self.dfa.final_states for state in range(len(moves))])[states]


@dataclass(frozen=True)
class ExtractedPA:
    """A PA read out of a network.

    Attributes:
        pa: the automaton, after reduction.
        table: the law that was read: ``categorical`` (hard sampling, every τ: its answers are the network's exact ones)
            or ``relaxed mean`` (the mean of α at each pure state, at the network's τ: another automaton).
        full: the automaton with one state for each of the network's.
        reduction: which states were merged or left out, and a bound on what that costs.
    """

    pa: PA
    table: Table
    full: PA
    reduction: Reduction


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
    """Read a deterministic automaton out of a GRU-form model over a finite alphabet, at any moment of its training.

    The transition law is queried for every state and symbol, so no edge is missing. States are merged before an edge is
    chosen: two states stay together as long as they have the same label and send most of their probability, symbol by
    symbol, into the same group. An edge leads to the group that gets the most. Groups that no string reaches are left
    out.

    Args:
        model: classifier with an embedding and a finite-state GRU.
        vocabulary: the symbol of each token id; by default the one the model remembers.
        start: the token every sequence begins with; it is read once and is not part of the alphabet.
        accept: the class that means "in the language".
        table: the law that is read; see :class:`ExtractedDFA`.
        data: strings to run the network over, which say how often an edge is used and where the network stands then;
            random strings without it.
        seed: of the draws behind the relaxed law.

    Example:
        >>> from torch import nn
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> model = SequenceClassifier(STTauGRU(4, 16, num_states=6), 2, nn.Embedding(3, 4))
        >>> automaton = extract_dfa(model, ("^", "0", "1"))
        >>> sorted(automaton.dfa.input_symbols), automaton.edges[0, "1"].count > 0
        (['0', '1'], True)
    """
    law = _read(model, vocabulary, start, accept, table, seed)
    accepting = law.chances > 0.5
    matrices = dict(zip(law.symbols, law.matrices, strict=True))
    group = _merge(matrices, accepting)
    into = F.one_hot(group).to(law.initial.dtype)
    mass = law.matrices @ into  # (symbols, k, groups)
    noise = _noise_variance(law, into)
    visits, mixture = _visits(law), None
    if data is not None:
        visits, mixture = _visits_of_data(model, law, data, into, seed)

    # Explore from the start; number the groups as they are found.
    number: dict[int, int] = {int((law.initial @ into).argmax()): 0}
    found: dict[tuple[int, str], tuple[int, Edge]] = {}
    queue = list(number)
    for g in queue:
        for x, symbol in enumerate(law.symbols):
            rows = group == g
            weights = visits[x, rows] + 1e-9  # so that the weights of an edge that was never met make sense too
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
            input_symbols=set(law.symbols),
            transitions={n: {symbol: edges[n, symbol].target for symbol in law.symbols} for n in number.values()},
            initial_state=0,
            final_states={n for g, n in number.items() if bool(accepting[group == g][0])},
        ),
        members={n: tuple((group == g).nonzero()[:, 0].tolist()) for g, n in number.items()},
        edges=edges,
        table=table,
        vocabulary=law.vocabulary,
    )


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
    """Read a probabilistic automaton out of a GRU-form model over a finite alphabet.

    Args:
        model: classifier with an embedding and a finite-state GRU.
        vocabulary: the symbol of each token id; by default the one the model remembers.
        start: the token every sequence begins with; the law of the state after it is where the automaton begins.
        accept: the class that means "accepted".
        table: the law that is read; see :class:`ExtractedPA`.
        tolerance: states that differ by less become one; see :func:`sttau.automata.reduce`.
        leak: states entered with at most this probability a step are left out.
        seed: of the draws behind the relaxed law.

    Example:
        >>> from torch import nn
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> model = SequenceClassifier(STTauGRU(4, 16, num_states=6, mode="exact"), 2, nn.Embedding(3, 4))
        >>> extracted = extract_pa(model, ("^", "0", "1"))
        >>> logits = model(torch.tensor([[0, 2, 1, 1]]))
        >>> bool(torch.isclose(extracted.pa.probability(["100"]).float(), logits.softmax(-1)[:, 1], atol=1e-6))
        True
    """
    law = _read(model, vocabulary, start, accept, table, seed)
    full = PA(law.initial, law.matrices, law.chances, law.symbols)
    reduction = reduce(full, tolerance, leak=leak)
    return ExtractedPA(reduction.pa, table, full, reduction)


class _Law(NamedTuple):
    """What a network does with pure states."""

    initial: Tensor  # (k,) after the start token
    matrices: Tensor  # (symbols, k, k)
    categorical: Tensor  # (symbols, k, k), whatever the table
    chances: Tensor  # (k,) of acceptance
    symbols: tuple[str, ...]
    tokens: tuple[int, ...]
    vocabulary: tuple[str, ...]
    table: Table
    temperature: float
    seed: int


def _read(
    model: SequenceClassifier, vocabulary: Sequence[str] | None, start: str, accept: int, table: Table, seed: int
) -> _Law:
    """Query the law of every state and symbol, once what was asked for makes sense."""
    vocabulary = model.vocabulary if vocabulary is None else tuple(vocabulary)
    if vocabulary is None:
        raise ValueError("vocabulary is needed: the model has none (call model.set_metadata(data) before saving it)")
    if model.embedding is None or model.embedding.num_embeddings != len(vocabulary):
        size = "none" if model.embedding is None else f"one of {model.embedding.num_embeddings} tokens"
        raise ValueError(f"vocabulary has {len(vocabulary)} symbols, but the model's embedding is {size}")
    if start not in vocabulary:
        raise ValueError(f"start must be in the vocabulary {vocabulary}, got {start!r}")
    if table not in get_args(Table):
        raise ValueError(f"table must be one of {', '.join(map(repr, get_args(Table)))}, got {table!r}")
    if not 0 <= accept < model.num_classes:
        raise ValueError(f"accept must be a class from 0 to {model.num_classes - 1}, got {accept}")
    symbols = {symbol: token for token, symbol in enumerate(vocabulary) if symbol != start}
    if not symbols:
        raise ValueError("the alphabet is empty: vocabulary holds only the start token")
    with torch.no_grad():
        layer = model.finite_state_layer
        vectors = model.embedding.weight
        categorical = layer.transition_matrices(vectors)[list(symbols.values())].double().cpu()
        initial = layer.first_distribution(vectors[[vocabulary.index(start)]])[0].double().cpu()
        chances = model.state_logits().double().exp()[:, accept].cpu()
        tau = float(layer.temperature)
    categorical = categorical / categorical.sum(-1, keepdim=True)
    initial = initial / initial.sum()
    matrices = categorical
    if table == "relaxed mean":
        initial, matrices = (_relaxed(rows, tau, seed).mean(0) for rows in (initial, categorical))
    return _Law(
        initial, matrices, categorical, chances, tuple(symbols), tuple(symbols.values()), vocabulary, table, tau, seed
    )


def _relaxed(rows: Tensor, temperature: float, seed: int, draws: int = _DRAWS) -> Tensor:
    """Draws of α where the categorical law is given: (..., k) gives (draws, ..., k)."""
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(draws, *rows.shape, generator=generator, dtype=torch.float64).clamp(1e-12, 1 - 1e-12)
    gumbel = -(-uniform.log()).log()
    return ((rows.clamp_min(1e-300).log() + gumbel) / temperature).softmax(-1)


def _noise_variance(law: _Law, into: Tensor) -> Tensor:
    """Variance of what goes into each group, from pure states: (symbols, k, groups)."""
    if law.table == "categorical":
        mass = law.matrices @ into
        return mass * (1 - mass)
    return (_relaxed(law.categorical, law.temperature, law.seed) @ into).var(0, correction=0)


def _merge(matrices: dict[str, Tensor], accepting: Tensor) -> Tensor:
    """Group number of each state: the coarsest grouping that labels and heaviest moves respect."""
    group = accepting.long()
    while True:
        heaviest = [(matrix @ F.one_hot(group).to(matrix.dtype)).argmax(dim=-1) for matrix in matrices.values()]
        signature = torch.stack([group, *heaviest], dim=-1)
        refined: Tensor = signature.unique(dim=0, return_inverse=True)[1]
        if len(refined.unique()) == len(group.unique()):
            return refined
        group = refined


def _visits(law: _Law) -> Tensor:
    """Expected visits of each state while a random string is read, with each symbol next: (symbols, k)."""
    state, visits = law.initial, law.initial.clone()
    for _ in range(_HORIZON - 1):
        state = state @ law.matrices.mean(0)
        visits = visits + state
    return (visits / len(law.symbols)).expand(len(law.symbols), -1)


def _visits_of_data(
    model: SequenceClassifier, law: _Law, data: SequenceDataset, into: Tensor, seed: int
) -> tuple[Tensor, Tensor | None]:
    """Visits of each state with each symbol next, (symbols, k), while the network runs over data.

    Also, under the relaxed law, the variance over visits of the mean share of α that goes into each group: (symbols,
    groups, groups). The network is reset for every string. A visit under the relaxed law counts for the state with the
    largest share of α.
    """
    lengths = model.check_inputs(data.inputs, data.lengths)
    assert lengths is not None
    inputs = data.inputs.to(torch.int64)
    if law.table == "categorical":
        with torch.no_grad():
            before = model.chain(inputs, lengths).distributions[:, :-1].double().cpu()
        return _count(before, inputs, lengths, law.tokens), None
    assert model.embedding is not None
    layer: FiniteStateRNN = model.finite_state_layer
    with torch.no_grad():
        vectors = model.embedding(inputs)
        noise = Noise.of(fingerprint(inputs, lengths), 1, seed, 0)
        alpha = layer.transitions(vectors, lengths, noise=noise, mode="soft")[:, :-1]
    winner = F.one_hot(alpha.argmax(-1), alpha.shape[-1]).double().cpu()
    visits = _count(winner, inputs, lengths, law.tokens)
    groups = into.shape[1]
    spread = torch.zeros(len(law.tokens), groups, groups, dtype=torch.float64)
    alive = torch.arange(1, inputs.shape[1])[None] < lengths[:, None]
    for x, token in enumerate(law.tokens):
        met = alive & (inputs[:, 1:] == token)
        at = (winner[met] @ into).argmax(-1)
        with torch.no_grad():
            hidden = alpha[met] @ layer.states
            rows = layer.first_distribution(model.embedding.weight[[token]].expand(len(hidden), -1), hidden)
        rows = rows.double().cpu()
        size = max(1, _AT_ONCE // (100 * rows.shape[-1]))
        parts = [_relaxed(part, law.temperature, law.seed, 100).mean(0) @ into for part in rows.split(size)]
        share = torch.cat(parts)
        for g in range(groups):
            if bool((at == g).any()):
                spread[x, g] = share[at == g].var(0, correction=0)
    return visits, spread


def _count(before: Tensor, inputs: Tensor, lengths: Tensor, tokens: tuple[int, ...]) -> Tensor:
    """Sum the law of the state before each step over the steps that read each token: (tokens, k)."""
    alive = torch.arange(1, inputs.shape[1])[None] < lengths[:, None]
    return torch.stack([before[alive & (inputs[:, 1:] == token)].sum(0) for token in tokens])
