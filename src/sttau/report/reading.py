"""A text read word by word: the prediction and its uncertainty after each word, as rows and as HTML."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sttau.data.text import START, encode, split_words
from sttau.files import write_atomically
from sttau.inference import Prediction, predict
from sttau.layers import LayerMode
from sttau.models import Predictor
from sttau.report.page import render

__all__ = ["Reading", "Word", "read_words"]

#: Colors of the classes, which people with any color vision can tell apart; further classes repeat them.
COLORS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7b8794")
#: Color of the attribution.
ATTRIBUTION_COLOR = "#6b46c1"
#: Largest share of a color in a background, so that black text on it is readable.
_STRONGEST = 0.6


class Word(NamedTuple):
    """A word or symbol, and the prediction after it. Entropies are in bits."""

    space: str  # white space before the word
    text: str  # as it is written
    known: bool  # whether it is in the vocabulary
    label: str
    place: int  # number of the class
    confidence: float
    total: float
    aleatoric: float
    epistemic: float
    attribution: float | None  # bits that the word contributes to the epistemic uncertainty at the end, in exact mode

    @property
    def title(self) -> str:
        """Description in one line."""
        parts = [f"{self.label} ({self.confidence:.2f})", f"total {self.total:.2f} bits"]
        parts += [f"aleatoric {self.aleatoric:.2f}", f"epistemic {self.epistemic:.2f}"]
        parts += [] if self.attribution is None else [f"attribution {self.attribution:.3f}"]
        return ", ".join(parts + ([] if self.known else ["not in the vocabulary"]))


@dataclass(frozen=True)
class Reading:
    """A text with the prediction after each of its words. A notebook shows it in color.

    Attributes:
        words: Words or symbols in their order.
        class_names: Name of each class.
    """

    words: tuple[Word, ...]
    class_names: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """Label and confidence after the last word."""
        return f"{self.words[-1].label} ({self.words[-1].confidence:.2f})"

    @property
    def is_exact(self) -> bool:
        """Whether the uncertainty is attributed to the words."""
        return self.words[0].attribution is not None

    @property
    def legend(self) -> list[tuple[str, str]]:
        """Labels that occur, each with the color of the most certain word."""
        occurring = sorted({(word.place, word.label) for word in self.words})
        return [(label, mix(COLORS[place % len(COLORS)], 1.0)) for place, label in occurring]

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return header and rows of a table, a row for each word."""
        header = ["read", "label", "confidence", "total", "aleatoric", "epistemic"]
        rows = [
            [
                word.text if word.known else f"{word.text} <unk>",
                word.label,
                *(f"{value:.2f}" for value in (word.confidence, word.total, word.aleatoric, word.epistemic)),
                *([] if word.attribution is None else [f"{word.attribution:.3f}"]),
            ]
            for word in self.words
        ]
        return header + (["attribution"] if self.is_exact else []), rows

    def color(self, word: Word) -> str:
        """Return the background of a word: the color of its label, stronger with the confidence."""
        chance = 1 / len(self.class_names)
        return mix(COLORS[word.place % len(COLORS)], (word.confidence - chance) / (1 - chance))

    def attribution_color(self, word: Word) -> str:
        """Return the background of a word by its share of the largest attribution; white without attribution."""
        largest = max(other.attribution or 0.0 for other in self.words)
        return mix(ATTRIBUTION_COLOR, (word.attribution or 0.0) / largest if largest else 0.0)

    def to_html(self) -> str:
        """Return the colored text and its table as a part of a page."""
        return self._render("reading.html.j2")

    def write_page(self, path: str | Path) -> Path:
        """Write a page of its own, which needs no other file; return its path."""
        return write_atomically(Path(path), self._render("reading_page.html.j2").encode())

    def _render(self, template: str) -> str:
        header, rows = self.table()
        return render(template, reading=self, header=header, rows=rows)

    def _repr_html_(self) -> str:
        return self.to_html()


def read_words(model: Predictor, text: str, samples: int = 10, seed: int = 0, mode: LayerMode | None = None) -> Reading:
    """Predict after each word of a text, or after each symbol of a string of a formal language.

    Args:
        model: A classifier with the vocabulary of its training data, or an ensemble.
        text: Text or string.
        samples: Monte Carlo samples per member.
        seed: Seed of the sampling noise.
        mode: Mode of the layer, as in :func:`sttau.predict`. In exact mode each word has an attribution, too.

    Example:
        >>> import torch
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> from sttau.data import load
        >>> model = SequenceClassifier(STTauGRU(4, 8, num_states=3), 2, torch.nn.Embedding(3, 4))
        >>> model.set_metadata(load("tomita1", "train"))
        >>> reading = read_words(model, "110", mode="exact")
        >>> [word.text for word in reading.words], reading.is_exact
        (['^', '1', '1', '0'], True)
    """
    if not model.reads_tokens or model.vocabulary is None:
        raise ValueError(
            "the model reads features, not text, or has no vocabulary; use predict, or call model.set_metadata(train)"
        )
    if model.task != "classification":
        raise ValueError("the model predicts values, and words are shown with classes; use predict")
    inputs, lengths = encode(text, model.vocabulary)
    every: Any = predict(model, inputs, lengths, samples, seed, mode, per_step=True).cpu()
    names = model.class_names or tuple(map(str, range(model.num_outputs)))
    is_language = model.vocabulary[0] == START
    written = [("", symbol) for symbol in (START, *text)] if is_language else split_words(text)
    tokens = set(model.vocabulary)
    words = tuple(
        _word(every, step, space, word, is_language or word.lower() in tokens, names)
        for step, (space, word) in enumerate(written)
    )
    return Reading(words, names)


def _word(every: Prediction, step: int, space: str, text: str, known: bool, names: tuple[str, ...]) -> Word:
    """Return a word with the prediction after it."""
    place = int(every.label[0, step])
    return Word(
        space, text, known, names[place], place,
        confidence=float(every.confidence[0, step]),
        total=float(every.total[0, step]),
        aleatoric=float(every.aleatoric[0, step]),
        epistemic=float(every.epistemic[0, step]),
        attribution=None if every.attribution is None else float(every.attribution[0, step]),
    )  # fmt: skip


def mix(color: str, strength: float) -> str:
    """Return a color mixed with white; strength 0 is white.

    Example:
        >>> mix("#000000", 0.0), mix("#000000", 1.0)
        ('#ffffff', '#666666')
    """
    share = _STRONGEST * min(max(strength, 0.0), 1.0)
    parts = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return "#" + "".join(f"{round(255 + share * (part - 255)):02x}" for part in parts)
