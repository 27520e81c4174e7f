from __future__ import annotations

import pytest
import torch

from sttau.metrics.statistics import resampling
from sttau.metrics.statistics.resampling import draw_counts, draw_rows, draw_signs, in_pieces


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_CHUNK_ELEMENTS", "_CACHED_ELEMENTS"):
        monkeypatch.setattr(resampling, name, 100)


def test_draws_do_not_depend_on_the_size_of_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, signs = torch.cat(list(draw_rows(30, 10, seed=1))), torch.cat(list(draw_signs(30, 10, seed=1)))
    for name in ("_CHUNK_ELEMENTS", "_CACHED_ELEMENTS"):
        monkeypatch.setattr(resampling, name, 100)
    assert torch.equal(torch.cat(list(draw_rows(30, 10, seed=1))), rows)
    assert torch.equal(torch.cat(list(draw_signs(30, 10, seed=1))), signs)


@pytest.mark.usefixtures("small_chunks")
def test_chunks_are_bounded() -> None:
    for chunks in (draw_rows(30, 10, seed=1), draw_signs(30, 10, seed=1), draw_counts([20, 10], 10, seed=1)):
        drawn = list(chunks)
        assert max(chunk.numel() for chunk in drawn) <= 100
        assert torch.cat(drawn).shape == (10, 30)


def test_counts_are_those_of_the_rows_drawn_for_each_group() -> None:
    counts = torch.cat(list(draw_counts([7, 4], 6, seed=3)))
    for first, last, seed in ((0, 7, 3), (7, 11, 4)):
        (draws,) = draw_rows(last - first, 6, seed)
        expected = torch.stack([torch.bincount(draw, minlength=last - first) for draw in draws])
        assert torch.equal(counts[:, first:last], expected.double())


def test_pieces_are_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resampling, "_CACHED_ELEMENTS", 10)
    chunk = torch.arange(21).reshape(7, 3)
    pieces = list(in_pieces([chunk]))
    assert [len(piece) for piece in pieces] == [3, 3, 1]
    assert torch.equal(torch.cat(pieces), chunk)
