"""A fingerprint depends on the content of a sequence and on nothing else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sttau.engine import fingerprint


def some_batch(kind: str) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    if kind == "tokens":
        return torch.randint(0, 50, (6, 7), generator=generator)
    return torch.randn(6, 7, 3, generator=generator)


KINDS = pytest.mark.parametrize("kind", ["tokens", "features"])
LENGTHS = torch.tensor([7, 1, 4, 3, 7, 2])


@KINDS
def test_a_fingerprint_is_32_bits_and_differs_between_sequences(kind: str) -> None:
    marks = fingerprint(some_batch(kind), LENGTHS)
    assert marks.dtype == torch.int64
    assert marks.min() >= 0
    assert marks.max() < 2**32
    assert len(marks.unique()) == 6


@KINDS
@given(st.permutations(range(6)))
def test_a_fingerprint_moves_with_its_sequence(kind: str, order: list[int]) -> None:
    x = some_batch(kind)
    assert torch.equal(fingerprint(x[order], LENGTHS[order]), fingerprint(x, LENGTHS)[order])
    assert torch.equal(fingerprint(x[order[:1]], LENGTHS[order[:1]])[0], fingerprint(x, LENGTHS)[order[0]])


@KINDS
@given(more=st.integers(0, 5))
def test_content_and_amount_of_padding_do_not_matter(kind: str, more: int) -> None:
    x = some_batch(kind)
    longer = torch.cat([x, torch.ones_like(x[:, :1]).expand(-1, more, *x.shape[2:])], dim=1)
    padding = torch.arange(7 + more) >= LENGTHS[:, None]
    longer[padding] = 13 if kind == "tokens" else torch.nan
    assert torch.equal(fingerprint(longer, LENGTHS), fingerprint(x, LENGTHS))


@KINDS
def test_full_lengths_equal_no_lengths(kind: str) -> None:
    x = some_batch(kind)
    assert torch.equal(fingerprint(x), fingerprint(x, torch.full((6,), 7)))


@KINDS
def test_the_length_matters(kind: str) -> None:
    x = torch.zeros_like(some_batch(kind))  # the same content, one step more each
    assert len(fingerprint(x, torch.arange(1, 7)).unique()) == 6


@KINDS
def test_changing_any_one_valid_value_changes_the_fingerprint_of_that_sequence_only(kind: str) -> None:
    x = some_batch(kind)
    before = fingerprint(x, LENGTHS)
    for place in torch.ones_like(x).nonzero().tolist():
        changed = x.clone()
        changed[tuple(place)] += 1
        row, step = place[:2]
        expected = torch.zeros(6, dtype=torch.bool)
        expected[row] = step < int(LENGTHS[row])
        assert torch.equal(fingerprint(changed, LENGTHS) != before, expected)


def test_the_smallest_change_of_a_float_changes_the_fingerprint() -> None:
    x = some_batch("features")
    changed = x.clone()
    changed[0, 2, 1] = torch.nextafter(x[0, 2, 1], torch.tensor(torch.inf))
    assert (fingerprint(changed) != fingerprint(x)).tolist() == [True] + [False] * 5


@KINDS
@given(st.integers(0, 6), st.integers(0, 6))
def test_swapping_two_different_steps_changes_the_fingerprint(kind: str, one: int, other: int) -> None:
    x = torch.arange(7)[None] if kind == "tokens" else some_batch("features")[:1]
    order = list(range(7))
    order[one], order[other] = other, one
    assert bool(fingerprint(x[:, order]) == fingerprint(x)) == (one == other)


def test_swapping_two_features_of_a_step_changes_the_fingerprint() -> None:
    x = torch.randn(4, 5, 2)
    assert (fingerprint(x.flip(-1)) != fingerprint(x)).all()


def test_minus_zero_equals_zero() -> None:
    zero = torch.zeros(2, 3, 2)
    assert torch.equal(fingerprint(-zero), fingerprint(zero))


def test_the_integer_dtype_of_tokens_does_not_matter() -> None:
    tokens = some_batch("tokens")
    for dtype in (torch.int32, torch.int16, torch.uint8):
        assert torch.equal(fingerprint(tokens.to(dtype), LENGTHS), fingerprint(tokens, LENGTHS))


def test_the_float_dtype_of_features_does_not_matter_where_the_value_is_the_same() -> None:
    x = some_batch("features").bfloat16()
    for dtype in (torch.float32, torch.float64):
        assert torch.equal(fingerprint(x.to(dtype), LENGTHS), fingerprint(x, LENGTHS))


def test_fingerprints_of_many_short_sequences_rarely_collide() -> None:
    every = torch.cartesian_prod(*[torch.arange(8)] * 5)  # 32,768 sequences: 0.12 collisions expected
    assert len(every) - len(fingerprint(every).unique()) <= 2
