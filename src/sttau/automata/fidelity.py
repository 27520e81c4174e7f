"""How faithfully an automaton stands for its network, and how far the network's own laws are apart."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from automata.fa.dfa import DFA

from sttau.automata.extraction import ExtractedDFA, ExtractedPA
from sttau.automata.pa import PA
from sttau.data.dataset import SequenceDataset
from sttau.engine import Noise, fingerprint
from sttau.inference.predict import predict
from sttau.layers import LayerMode
from sttau.models import SequenceClassifier


@dataclass(frozen=True)
class Gap:
    """How far two laws of a network are apart: |p − q| of the accepting class over strings."""

    mean: float
    largest: float


@dataclass(frozen=True)
class Fidelity:
    """A network's laws beside each other on one set of strings, and its automaton beside them.

    Soft and hard inference are different models that share weights (docs/mathematics.md, §5). Both are estimated from
    runs, so gaps to them hold about 0.5 / √runs of chance.

    Attributes:
        name: of the strings.
        strings: how many there are.
        longest: symbols of the longest.
        soft_exact: soft against exact.
        hard_exact: hard against exact; only chance, for a network whose states are a Markov chain.
        soft_hard: soft against hard.
        mixing: E[1 − max α], how far the soft transitions are from choosing one state.
        agreement: the share of strings to which automaton and network, read exactly, give the same label.
        samples: runs of soft and of hard inference.
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
        """What is reported, line by line: a name and a value."""
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
    automaton: ExtractedDFA | ExtractedPA | DFA | PA,
    data: SequenceDataset,
    *,
    accept: int = 1,
    samples: int = 100,
    seed: int = 0,
) -> Fidelity:
    """Hold a network's soft, hard and exact answers and those of its automaton beside each other.

    Ask once for strings as long as those of the training and once for longer ones.

    Args:
        model: GRU-form classifier over a finite alphabet.
        automaton: what was read out of it; a PA says "accept" above one half.
        data: strings that begin with a start token; labels are not looked at.
        accept: the class that means "in the language".
        samples: runs of soft and hard inference.
        seed: of the runs.

    Example:
        >>> from sttau.automata import extract_dfa, learn
        >>> from sttau.data import load
        >>> model = learn(load("tomita1", "train")).model
        >>> report = measure_fidelity(model, extract_dfa(model), load("tomita1", "test"), samples=10)
        >>> report.agreement, report.longest
        (1.0, 100)
    """
    inputs, lengths = data.inputs.to(torch.int64), data.lengths
    choices: tuple[LayerMode, ...] = ("soft", "hard", "exact")
    laws = {
        law: predict(model, inputs, lengths, samples=samples, seed=seed, mode=law).mean[:, accept].double()
        for law in choices
    }
    said = predict(model, inputs, lengths, mode="exact").label == accept
    return Fidelity(
        name=f"{data.name}, {data.split}",
        strings=len(data),
        longest=int(lengths.max()) - 1,
        soft_exact=_gap(laws["soft"], laws["exact"]),
        hard_exact=_gap(laws["hard"], laws["exact"]),
        soft_hard=_gap(laws["soft"], laws["hard"]),
        mixing=_mixing(model, data, seed),
        agreement=float((_accepted(automaton, data) == said).double().mean()),
        samples=samples,
    )


def _gap(p: torch.Tensor, q: torch.Tensor) -> Gap:
    return Gap(float((p - q).abs().mean()), float((p - q).abs().max()))


def _mixing(model: SequenceClassifier, data: SequenceDataset, seed: int) -> float:
    """E[1 − max α] over all steps, in one soft run over each string."""
    inputs, lengths = data.inputs.to(torch.int64), data.lengths
    assert model.embedding is not None
    with torch.no_grad():
        alpha = model.finite_state_layer.transitions(
            model.embedding(inputs), lengths, noise=Noise.of(fingerprint(inputs, lengths), 1, seed, 0), mode="soft"
        )
    alive = torch.arange(inputs.shape[1])[None] < lengths[:, None]
    return float((1 - alpha.amax(-1))[alive].mean())


def _accepted(automaton: ExtractedDFA | ExtractedPA | DFA | PA, data: SequenceDataset) -> torch.Tensor:
    if isinstance(automaton, ExtractedDFA):
        return automaton.accepts(data.inputs, data.lengths)
    if isinstance(automaton, ExtractedPA):
        automaton = automaton.pa
    if isinstance(automaton, DFA):
        automaton = PA.from_dfa(automaton)
    if data.vocabulary is None:
        raise ValueError(f"{data.name} must be strings over a vocabulary")
    strings = [
        [data.vocabulary[token] for token in tokens[1:length]]
        for tokens, length in zip(data.inputs.tolist(), data.lengths.tolist(), strict=True)
    ]
    return automaton.probability(strings) > 0.5
