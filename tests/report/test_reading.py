from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from torch import nn

from sttau import SequenceClassifier, SequenceRegressor, STTauGRU, predict
from sttau.data import load
from sttau.report.reading import COLORS, Reading, mix, read_words

TEXT = "A <b>Fine</b> film, &\n  truly blorp!"
VOCABULARY = ("<pad>", "<unk>", "a", "fine", "film", "truly", "b", "<", ">", "/", ",", "&", "!")


class _Names:
    class_names, feature_names, schema = ("bad", "good <i>"), (), None
    vocabulary = VOCABULARY


@pytest.fixture(scope="module")
def model() -> SequenceClassifier:
    torch.manual_seed(0)
    made = SequenceClassifier(STTauGRU(4, 8, num_states=5), 2, nn.Embedding(len(VOCABULARY), 4))
    made.set_metadata(_Names())
    return made


@pytest.fixture(scope="module")
def reading(model: SequenceClassifier) -> Reading:
    return read_words(model, TEXT, mode="exact")


class _Spans(HTMLParser):
    """Collects the text of a page and the titles of its words."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.titles = "", list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.titles += [value for name, value in attrs if name == "title" and value]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_words_have_the_values_of_a_prediction_per_step(model: SequenceClassifier, reading: Reading) -> None:
    p = predict(model, [TEXT], mode="exact", per_step=True)
    assert p.attribution is not None
    for step, word in enumerate(reading.words):
        assert word.label == _Names.class_names[int(p.label[0, step])]
        shown = (word.confidence, word.total, word.aleatoric, word.epistemic, word.attribution)
        values = (p.confidence, p.total, p.aleatoric, p.epistemic, p.attribution)
        assert shown == tuple(float(value[0, step]) for value in values)


def test_the_words_joined_are_the_text(reading: Reading) -> None:
    assert "".join(word.space + word.text for word in reading.words) == TEXT
    assert [word.text for word in reading.words if not word.known] == ["blorp"]


def test_a_letter_that_lower_case_splits_still_has_one_prediction_per_token(model: SequenceClassifier) -> None:
    reading = read_words(model, "fine İ film")
    assert len(reading.words) == predict(model, "fine İ film", per_step=True).label.shape[1]


def test_the_page_is_escaped_and_self_contained_and_reads_without_color(reading: Reading, tmp_path: Path) -> None:
    page = reading.write_page(tmp_path / "page.html").read_text("utf-8")
    assert "<b>" not in page
    assert "<i>" not in page
    assert not re.findall(r"(?:src|href)=|http|url\(", page)
    spans = _Spans()
    spans.feed(page)
    assert spans.text.count(TEXT) == 2  # colored by label, and by attribution
    assert spans.titles == 2 * [word.title for word in reading.words]
    assert all(f"{word.label} ({word.confidence:.2f})" in word.title for word in reading.words)


def test_a_notebook_shows_the_part_of_the_page(reading: Reading) -> None:
    assert reading._repr_html_() == reading.to_html()
    assert "<html" not in reading.to_html()


def test_without_exact_mode_there_is_no_attribution(model: SequenceClassifier) -> None:
    reading = read_words(model, "a fine film", mode="soft")
    assert not reading.is_exact
    assert reading.table()[0][-1] == "epistemic"
    assert reading.to_html().count("white-space: pre-wrap") == 1


def test_a_more_confident_word_has_a_stronger_color(reading: Reading) -> None:
    word = reading.words[0]
    unsure, sure = word._replace(confidence=0.5), word._replace(confidence=1.0)
    assert reading.color(unsure) == "#ffffff"
    assert reading.color(sure) == mix(COLORS[word.place], 1.0) != "#ffffff"
    strongest = max(reading.words, key=lambda one: one.attribution or 0.0)
    assert reading.attribution_color(strongest) == mix("#6b46c1", 1.0)


@pytest.mark.parametrize("color", COLORS)
def test_text_on_the_strongest_color_is_readable(color: str) -> None:
    """The contrast of 4.5 that WCAG asks for."""
    assert _luminance(mix(color, 1.0)) + 0.05 >= 4.5 * (_luminance("#1f2933") + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_empty_string_of_a_language_is_read() -> None:
    model = SequenceClassifier(STTauGRU(4, 8, num_states=5), 2, nn.Embedding(3, 4))
    model.set_metadata(load("tomita1", "train"))
    assert [word.text for word in read_words(model, "").words] == ["^"]


def test_models_of_features_and_of_values_are_refused() -> None:
    with pytest.raises(ValueError, match="reads features, not text"):
        read_words(SequenceClassifier(nn.LSTM(2, 4), 2), "a")
    with pytest.raises(ValueError, match="has no vocabulary"):
        read_words(SequenceClassifier(nn.LSTM(2, 4), 2, nn.Embedding(3, 2)), "a")
    regressor = SequenceRegressor(nn.LSTM(2, 4), 1, embedding=nn.Embedding(len(VOCABULARY), 2))
    names = _Names()
    names.class_names = ()  # type: ignore[assignment]
    regressor.set_metadata(names)
    with pytest.raises(ValueError, match="predicts values"):
        read_words(regressor, "a")
