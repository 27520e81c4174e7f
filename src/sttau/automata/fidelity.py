"""Fidelity: agreement of an automaton with its network, and of the network's inference modes with each other."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sttau.automata.extraction import ExtractedDFA
from sttau.automata.value import AutomatonLike, as_pa
from sttau.data.dataset import SequenceDataset
from sttau.engine import Noise, fingerprint
from sttau.inference.chunks import in_eval_mode
from sttau.inference.predict import predict
from sttau.layers import LayerMode
from sttau.models import SequenceClassifier
from sttau.padding import valid_steps


@dataclass(frozen=True)
class Gap:
    """Difference |p − q| of the accepting class between two inference modes, over strings."""

    mean: float
    largest: float


@dataclass(frozen=True)
class Fidelity:
    """Comparison of a network's inference modes and its automaton on one set of strings.

    Soft and hard inference are different models that share weights (docs/mathematics.md, §5). Both are estimated from
    samples, so their gaps include a sampling error of about 0.5 / √samples.

    Attributes:
        name: Name of the set of strings.
        strings: Number of strings.
        longest: Length of the longest string.
        soft_exact: Gap between soft and exact inference.
        hard_exact: Gap between hard and exact inference; only sampling error, if the states are a Markov chain.
        soft_hard: Gap between soft and hard inference.
        mixing: E[1 − max α], the distance of soft transitions from choosing one state.
        agreement: Share of strings to which the automaton and exact inference give the same label.
        samples: Number of samples of soft and of hard inference.
    """

    name: str
    strings: int
    longest: int
    soft_exact: Gap
    hard_exact: Gap
    soft_hard: Gap
    mixing: float
    agreement: float
    samples: int

    def rows(self) -> list[tuple[str, str]]:
        """Return the lines of the report: a name and a value."""
        return [
            ("strings", f"{self.strings} of up to {self.longest} symbols ({self.name})"),
            ("soft − exact", f"mean {self.soft_exact.mean:.4f}, largest {self.soft_exact.largest:.4f}"),
            ("hard − exact", f"mean {self.hard_exact.mean:.4f}, largest {self.hard_exact.largest:.4f}"),
            ("soft − hard", f"mean {self.soft_hard.mean:.4f}, largest {self.soft_hard.largest:.4f}"),
            ("E[1 − max α]", f"{self.mixing:.4f}"),
            ("automaton = network", f"{100 * self.agreement:.2f} % of the strings"),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{name:<20} {value}" for name, value in self.rows())


def measure_fidelity(
    model: SequenceClassifier,
    automaton: AutomatonLike,
    data: SequenceDataset,
    *,
    accept: int = 1,
    samples: int = 100,
    seed: int = 0,
) -> Fidelity:
    """Compare soft, hard and exact predictions of a network with each other and with its automaton.

    Use it both for strings as long as those of the training and for longer ones.

    Args:
        model: GRU-form classifier over a finite alphabet.
        automaton: Automaton of the network; a PA accepts above probability 0.5.
        data: Strings that begin with a start token; their labels are not used.
        accept: Class that means "in the language".
        samples: Number of samples of soft and of hard inference.
        seed: Seed of the sampling noise.

    Example:
        >>> from sttau.automata import extract_dfa, learn
        >>> from sttau.data import load
        >>> model = learn(load("tomita1", "train")).model
        >>> report = measure_fidelity(model, extract_dfa(model), load("tomita1", "test"), samples=10)
        >>> report.agreement, report.longest
        (1.0, 100)
    """
    inputs, lengths = data.inputs.to(torch.int64), data.lengths
    modes: tuple[LayerMode, ...] = ("soft", "hard", "exact")
    chances = {
        mode: predict(model, inputs, lengths, samples=samples, seed=seed, mode=mode).mean[:, accept].double()
        for mode in modes
    }
    accepted = predict(model, inputs, lengths, mode="exact").label == accept
    return Fidelity(
        name=f"{data.name}, {data.split}",
        strings=len(data),
        longest=int(lengths.max()) - 1,
        soft_exact=_gap(chances["soft"], chances["exact"]),
        hard_exact=_gap(chances["hard"], chances["exact"]),
        soft_hard=_gap(chances["soft"], chances["hard"]),
        mixing=_mixing(model, data, seed),
        agreement=float((_accepted(automaton, data) == accepted).double().mean()),
        samples=samples,
    )


def _gap(p: torch.Tensor, q: torch.Tensor) -> Gap:
    return Gap(float((p - q).abs().mean()), float((p - q).abs().max()))


def _mixing(model: SequenceClassifier, data: SequenceDataset, seed: int) -> float:
    """E[1 − max α] over all steps, for one soft sample of each string."""
    inputs, lengths, model = data.inputs.to(torch.int64), data.lengths, in_eval_mode(model)
    assert model.embedding is not None
    with torch.no_grad():
        alpha = model.finite_state_layer.transitions(
            model.embedding(inputs), lengths, noise=Noise.of(fingerprint(inputs, lengths), 1, seed, 0), mode="soft"
        )
    alive = valid_steps(inputs, lengths)
    return float((1 - alpha.amax(-1))[alive].mean())


def _accepted(automaton: AutomatonLike, data: SequenceDataset) -> torch.Tensor:
    if isinstance(automaton, ExtractedDFA):
        return automaton.accepts(data.inputs, data.lengths)
    if data.vocabulary is None:
        raise ValueError(f"{data.name} must be strings over a vocabulary")
    strings = [
        [data.vocabulary[token] for token in tokens[1:length]]
        for tokens, length in zip(data.inputs.tolist(), data.lengths.tolist(), strict=True)
    ]
    return as_pa(automaton).probability(strings) > 0.5
