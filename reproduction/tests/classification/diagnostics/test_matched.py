from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from reproduction.tests.classification.fabricated import areas
from reproduction.tests.classification.small_networks import reviews
from sttau_reproduction.classification.diagnostics.matched import (
    PER_TEXT,
    cut_to_lengths,
    detect_by_length,
    match_lengths,
    measure_areas,
)


def test_cut_reviews_have_the_lengths_of_the_ood_texts_and_begin_as_reviews_do() -> None:
    test, ood = reviews("imdb", "test"), reviews("customer_reviews", "test")
    cut = match_lengths(test, ood)
    assert len(cut) == PER_TEXT * len(ood)
    assert cut.lengths.equal(ood.lengths.repeat(PER_TEXT))
    beginnings = {tuple(row[:end].tolist()) for row in test.inputs for end in set(ood.lengths.tolist())}
    for row, end in zip(cut.inputs, cut.lengths.tolist(), strict=True):
        assert tuple(row[:end].tolist()) in beginnings
        assert not row[end:].any()


def test_the_choice_is_seeded_and_among_all_that_are_long_enough() -> None:
    test = replace(reviews("imdb", "test"), ids=None)
    wanted = torch.full((2000,), 15)
    first, again, other = (cut_to_lengths(test, wanted, seed) for seed in (0, 0, 1))
    assert first.inputs.equal(again.inputs)
    assert not first.inputs.equal(other.inputs)
    long_enough = {tuple(row[:15].tolist()) for row, end in zip(test.inputs, test.lengths, strict=True) if end >= 15}
    assert {tuple(row.tolist()) for row in first.inputs} == long_enough


def test_areas_are_those_of_direct_computation_with_both_groups_alike() -> None:
    generator = torch.Generator().manual_seed(0)
    inside, ood = torch.rand(40, generator=generator), torch.rand(10, generator=generator) + 0.3
    expected = areas(inside.numpy(), ood.repeat_interleave(4).numpy())
    found = measure_areas(inside, ood, intervals=True)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value)
        assert found[f"{name}_low"] < value < found[f"{name}_high"]


def test_the_length_alone_separates_short_texts_and_nothing_at_equal_length() -> None:
    test = reviews("imdb", "test")
    ood = {"customer": reviews("customer_reviews", "test"), "movie": reviews("movie_reviews", "test")}
    found = detect_by_length(test, ood)
    for out, data in ood.items():
        assert found[f"{out}_matched_auroc"] == pytest.approx(50)
        inside = -test.lengths.double()
        assert found[f"{out}_auroc"] == pytest.approx(
            areas(inside.numpy(), -data.lengths.double().numpy())["auroc"], abs=12
        )  # of as many reviews as there are others
        assert found[f"{out}_auroc"] > 75
