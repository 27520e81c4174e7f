"""A compiled network and what its exported forms must agree on."""

from __future__ import annotations

import torch
from torch import nn

from sttau import SequenceClassifier, STTauGRU
from sttau.automata import CompiledModel, compile

#: Symbols that need escapes in some language.
SYMBOLS = ("^", "a", 'b"\\', "</script>", "é\n")
STRINGS = [[], ["a"], ["a", "é\n", 'b"\\'], ["</script>", "a"] * 40]


def automaton(start: str | None = "^") -> CompiledModel:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(4, 8, num_states=6), 3, nn.Embedding(len(SYMBOLS), 4))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    return compile(model, SYMBOLS, start=start)


def expected(compiled: CompiledModel, string: list[str]) -> list[float]:
    """Class probabilities, total and aleatoric uncertainty."""
    symbols = ([] if compiled.start is None else [compiled.start]) + string
    p = compiled.predict(torch.tensor([[SYMBOLS.index(symbol) for symbol in symbols]]))
    return [*p.mean[0].tolist(), p.total.item(), p.aleatoric.item()]
