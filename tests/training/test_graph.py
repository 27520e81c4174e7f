"""Captured updates where there is no GPU: when a capture is tried, and what is done instead."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from sttau.training import graph
from sttau.training.graph import GraphCache


class _Graph:
    def __init__(self, cache: GraphCache, shape: Any) -> None:
        self.cache, self.shape = cache, shape

    def replay(self) -> None:
        self.cache.work(self.shape)


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What each capture raises; no error where the list has ended."""
    errors: list[Any] = []

    def capture(cache: GraphCache, shape: Any) -> Any:
        if errors and (error := errors.pop(0)) is not None:
            raise error
        return _Graph(cache, shape)

    monkeypatch.setattr(GraphCache, "_capture", capture)
    monkeypatch.setattr(GraphCache, "_PAUSE", 4)
    monkeypatch.setattr(graph, "synchronization_forbidden", nullcontext)
    return errors


def _made(cache: GraphCache, calls: int) -> list[bool]:
    return [cache("shape") for _ in range(calls)]


def test_missing_memory_is_waited_for(captures: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    captures += [torch.OutOfMemoryError("CUDA out of memory. Tried"), RuntimeError("CUDA error: out of memory")]
    done: list[str] = []
    cache = GraphCache(done.append, [])
    with caplog.at_level(logging.WARNING):
        # Two eager calls, a failed capture, three eager ones, a second failed capture, three, and the captured one.
        made = _made(cache, 12)
    assert made == [True, True, False, True, True, True, False, True, True, True, True, True]
    assert len(done) == 10  # the caller makes up for the failed ones
    assert list(cache.graphs) == ["shape"]
    assert cache.obstacle is None
    assert caplog.text.count("GPU memory is missing") == 1


def test_other_obstacles_are_final(captures: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    captures += [RuntimeError("operation not permitted when stream is capturing\nmore")]
    cache = GraphCache(lambda _: None, [])
    with caplog.at_level(logging.WARNING):
        assert _made(cache, 12) == [True, True, False] + [True] * 9
    assert not cache.graphs
    assert cache.obstacle == "operation not permitted when stream is capturing"
    assert caplog.text.count("cannot be captured") == 1
