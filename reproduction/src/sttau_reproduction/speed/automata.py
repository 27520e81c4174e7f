"""Speed of a network compiled to tables, relative to the network itself, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial

import torch
from torch import nn

from sttau.automata import compile
from sttau.bench import time_alternately, without_gradients
from sttau.jobs import Result
from sttau.layers import STTauGRU
from sttau.models import SequenceClassifier


@dataclass(frozen=True)
class Alphabet:
    """One size of network and batch; all rows are full."""

    tokens: int
    states: int
    hidden: int = 100
    features: int = 16
    batch: int = 1000
    time: int = 200

    @property
    def name(self) -> str:
        """A short name, as it stands in tables."""
        return f"{self.tokens} tokens, k{self.states} d{self.hidden}, B{self.batch} T{self.time}"


ALPHABETS = (Alphabet(3, 10), Alphabet(3, 4), Alphabet(27, 10), Alphabet(1000, 10))


def measure_compiled(
    alphabets: tuple[Alphabet, ...] = ALPHABETS,
    *,
    rounds: int = 7,
    round_seconds: float = 0.15,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[Result]:
    """Time compiled tables, the network's soft forward pass (one sample, fused engine) and its exact one, on the CPU.

    Methods take turns; each number is the median over the rounds. ``largest_difference`` is that between the compiled
    model's probabilities and those of the network's exact inference, on the same tokens.
    """
    for alphabet in alphabets:
        began = time.perf_counter()
        progress(alphabet.name)
        torch.manual_seed(0)
        model = SequenceClassifier(
            STTauGRU(alphabet.features, alphabet.hidden, alphabet.states),
            2,
            nn.Embedding(alphabet.tokens, alphabet.features),
        ).eval()
        inputs = torch.randint(alphabet.tokens, (alphabet.batch, alphabet.time))
        compiled = compile(model, [str(token) for token in range(alphabet.tokens)], start=None)
        work = {
            "compiled": without_gradients(partial(compiled.probabilities, inputs)),
            "st-tau soft": without_gradients(partial(model, inputs, mode="soft")),
            "st-tau exact": without_gradients(partial(model, inputs, mode="exact")),
        }
        times = time_alternately(work, "cpu", rounds, round_seconds)
        with torch.no_grad():
            gap = compiled.probabilities(inputs) - model(inputs, mode="exact").softmax(-1)
        seconds = time.perf_counter() - began
        for method, milliseconds in times.items():
            metrics = {
                "forward_ms": milliseconds,
                "million_symbols_per_second": inputs.numel() / milliseconds / 1e3,
                "times_soft": times["st-tau soft"] / milliseconds,
            }
            if method == "compiled":
                metrics["largest_difference"] = float(gap.abs().max())
            yield Result(
                experiment="automata-speed",
                data=alphabet.name,
                method=method,
                states=alphabet.states,
                seed=0,
                metrics=metrics,
                settings={**asdict(alphabet), "rounds": rounds, "threads": torch.get_num_threads()},
                seconds=seconds,
            )
