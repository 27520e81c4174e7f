"""The n-gram density of tokens."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

import sttau
from sttau import SequenceClassifier
from sttau.ood import TokenDensity, kept_detector


def _model(vocabulary: int = 8) -> SequenceClassifier:
    return SequenceClassifier(nn.LSTM(4, 4), 2, embedding=nn.Embedding(vocabulary, 4))


def _surprise(order: int, unknown_words: float = 100.0) -> TokenDensity:
    return TokenDensity(order, unknown_words, beginning=None, relative=False)


def test_the_bigram_probability_is_that_of_absolute_discounting() -> None:
    train = torch.tensor([[2, 3, 2, 4], [2, 3, 3, 5]])
    detector = _surprise(2).fit(_model(), train)
    unigram = (
        (3 - 0.75 + 0.75 * 4 / 8) / 8,
        (3 - 0.75 + 0.75 * 4 / 8) / 8,
    )  # of 2 and of 3: four kinds among eight tokens
    bigram = (2 - 0.75 + 0.75 * 2 * unigram[1]) / 3  # 2 is followed by 3, 4, 3
    expected = -(math.log(unigram[0]) + math.log(bigram)) / 2
    assert float(detector.score(_model(), torch.tensor([[2, 3]]))) == pytest.approx(expected, rel=1e-12)


def test_beginnings_have_counts_of_their_own_and_know_where_a_text_begins() -> None:
    train = torch.tensor([[2, 3, 2, 4], [2, 3, 3, 5]])
    detector = TokenDensity(2, beginning=1, relative=False).fit(_model(), train)
    d = 0.75

    def interpolated(count: int, total: int, kinds: int, lower: float) -> float:
        return (max(count - d, 0) + d * kinds * lower) / total

    whole = interpolated(3, 8, 4, 1 / 8)  # of 2, and of 3
    first = interpolated(2, 2, 1, whole)  # both texts begin with 2
    first = interpolated(2, 2, 1, interpolated(2, 2, 1, first))  # given the beginning, in whole texts and in beginnings
    second = interpolated(2, 3, 2, whole)  # 3 after 2, not among the first tokens
    expected = -(math.log(first) + math.log(second)) / 2
    assert float(detector.score(_model(), torch.tensor([[2, 3]]))) == pytest.approx(expected, rel=1e-12)
    # the same tokens in another place are less probable
    assert detector.score(_model(), torch.tensor([[3, 2]])) > detector.score(_model(), torch.tensor([[2, 3]]))


def test_the_surprise_of_the_words_alone_is_subtracted() -> None:
    train = torch.randint(2, 8, (30, 12), generator=torch.Generator().manual_seed(0))
    text = torch.tensor([[2, 3, 4, 4, 7]])
    relative, absolute = (
        TokenDensity(3, 10, relative=relative).fit(_model(), train).score(_model(), text) for relative in (True, False)
    )
    alone = _surprise(1, unknown_words=1).fit(_model(), train).score(_model(), text)
    assert float(absolute - relative) == pytest.approx(float(alone), rel=1e-12)


@pytest.mark.parametrize("beginning", [None, 1, 2, 5])
def test_probabilities_of_the_next_token_sum_to_one(beginning: int | None) -> None:
    generator = torch.Generator().manual_seed(0)
    train = torch.randint(2, 7, (30, 12), generator=generator)
    detector = TokenDensity(3, unknown_words=1, beginning=beginning, relative=False).fit(_model(), train)
    for context in ([2, 3], [7, 7], [0, 2]):
        before = float(detector.score(_model(), torch.tensor([context]))) * 2
        after = detector.score(_model(), torch.tensor([[*context, token] for token in range(8)])) * 3
        assert float((before - after).exp().sum()) == pytest.approx(1, abs=1e-12)


def test_padding_and_the_length_of_repeated_text_do_not_count() -> None:
    train = torch.tensor([[2, 3, 4, 2, 3, 4]] * 5)
    detector = TokenDensity(order=2).fit(
        _model(),
        train,
    )
    padded = torch.tensor([[2, 3, 4, 0, 0, 0]])
    whole = detector.score(_model(), padded[:, :3])
    assert torch.equal(detector.score(_model(), padded, torch.tensor([3])), whole)


def test_an_unknown_word_costs_more() -> None:
    train = torch.tensor([[2, 1, 2, 1]] * 5)
    cheap, dear = (TokenDensity(1, unknown_words=n).fit(_model(), train) for n in (1, 1000))
    text = torch.tensor([[2, 1]])
    assert float(dear.score(_model(), text) - cheap.score(_model(), text)) == pytest.approx(math.log(1000) / 2)


def test_it_travels_with_the_model(tmp_path: Path) -> None:
    model, train = _model(), torch.randint(2, 8, (20, 9))
    detector = TokenDensity(order=2).fit(model, train)
    detector.choose_threshold(model, train, false_alarms=0.1)
    detector.keep(model)
    again = sttau.load(model.save(tmp_path / "model.safetensors"))
    found = kept_detector(again)
    assert torch.equal(found.score(again, train), detector.score(model, train))
    assert found.threshold == detector.threshold


def test_a_file_of_an_earlier_version_gives_the_scores_it_gave_then() -> None:
    model = sttau.load(Path(__file__).parents[1] / "artefacts/token-density.safetensors")
    found = kept_detector(model)
    scores = found.score(model, torch.tensor([[2, 3, 4, 5], [1, 1, 2, 7], [6, 5, 4, 3]]))
    expected = [1.911657068467901, 9.641510859746665, 1.9277137721718884]  # printed when the file was written
    assert scores.tolist() == pytest.approx(expected, rel=1e-12)
    assert found.threshold == 1.6373618712089644


def test_what_cannot_be_counted_is_refused() -> None:
    with pytest.raises(ValueError, match="reads features"):
        TokenDensity().fit(SequenceClassifier(nn.LSTM(4, 4), 2), torch.zeros(2, 3, 4))
    with pytest.raises(ValueError, match="too large for 8 tokens"):
        TokenDensity(order=21).fit(_model(), torch.tensor([[2, 3]]))
    with pytest.raises(ValueError, match="unknown_words must be at least 1"):
        TokenDensity(unknown_words=0)
    with pytest.raises(ValueError, match="beginning must be at least 1"):
        TokenDensity(beginning=0)
