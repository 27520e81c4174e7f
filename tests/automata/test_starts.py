from __future__ import annotations

import pytest
import torch

from sttau.automata.starts import run_starts


def draw(seed: int, size: int) -> tuple[int, torch.Tensor]:
    """The number of threads, and a sum that depends on it."""
    values = torch.rand(size, generator=torch.Generator().manual_seed(seed))
    return torch.get_num_threads(), values.sum()


def test_attempts_run_on_one_thread_in_order_and_the_number_of_threads_comes_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        results = run_starts(draw, [(seed, 100_000) for seed in range(3)])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert [threads for threads, _ in results] == [1, 1, 1]
    assert len({float(total) for _, total in results}) == 3


@pytest.mark.slow
def test_processes_give_the_same_results_in_the_same_order() -> None:
    starts = [(seed, 100_000) for seed in range(5)]
    assert run_starts(draw, starts, workers=2) == run_starts(draw, starts)
