from __future__ import annotations

import re

import pytest

from sttau.data import SPLITS, SequenceDataset, load

PRAISE = {"good", "witty", "moving", "clever"}


def texts(data: SequenceDataset) -> list[str]:
    assert data.vocabulary is not None
    return [" ".join(data.vocabulary[token] for token in data[row].inputs.tolist()) for row in range(len(data))]


def judge(clause: str) -> int:
    *_, before, adjective = clause.split()
    if adjective == "strange":
        return 0
    return (1 if adjective in PRAISE else -1) * (-1 if before in ("not", "never") else 1)


def expected(text: str) -> int:
    """Opinion by the rules of the docs; 0 where there is none."""
    clauses = re.split(r" (and|but|even though) ", text)
    if len(clauses) == 1:
        return judge(text)
    first, link, second = clauses
    if link == "and":
        return judge(first) + judge(second)
    assert judge(first) == -judge(second) != 0
    return judge(second if link == "but" else first)


@pytest.mark.parametrize("split", SPLITS)
def test_labels_follow_negation_and_the_clause_that_decides(split: str) -> None:
    data = load("opinions", split)
    found = [(expected(text), label) for text, label in zip(texts(data), data.labels.tolist(), strict=True)]
    assert all(label == (opinion > 0) for opinion, label in found if opinion)
    drawn = [label for opinion, label in found if not opinion]
    assert 0.1 < len(drawn) / len(found) < 0.3
    assert 0 < sum(drawn) < len(drawn)


def test_all_sentences_are_distinct_and_the_splits_apart() -> None:
    every = [text for split in SPLITS for text in texts(load("opinions", split))]
    assert len(set(every)) == len(every) == 916


def test_no_word_decides_alone() -> None:
    data = load("opinions", "train")
    for word in ("good", "dull", "not", "but", "though"):
        labels = [label for text, label in zip(texts(data), data.labels.tolist(), strict=True) if word in text.split()]
        assert 0.2 < sum(labels) / len(labels) < 0.8, word


def test_the_data_says_that_it_is_generated() -> None:
    assert "Generated" in load("opinions", "test").provenance
