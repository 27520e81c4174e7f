"""The Triton kernel draws the bits of the reference; here it is run by Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

from sttau.engine import Noise


def test_one_kernel_makes_the_same_draws() -> None:
    if torch.cuda.is_available():
        pytest.skip("on a GPU the kernel is compiled: see tests/gpu")
    triton = pytest.importorskip("sttau.engine.noise.triton", reason="needs Triton")
    noise = Noise.of(torch.tensor([7, 2**40 + 8, -3]), samples=2, seed=2**33 + 5, first_sample=3).for_layer(2)
    for start, steps, size in ((0, 1, 1), (3, 5, 7), (2, 2, 300)):
        drawn = triton.uniform(noise.seed, noise.sample, noise.sequence, 2 << 16, start, steps, size)
        assert torch.equal(drawn, noise.uniform(start, steps, size))
    drawn = triton.uniform(noise.seed, noise.sample[4:5], None, 0, 2, 1, 4 * 100).view(-1, 4)
    assert torch.equal(drawn, noise._uniform_of_sample(4, 100, torch.float32))
    assert triton.uniform(noise.seed, noise.sample, noise.sequence, 0, 0, 0, 5).shape == (6, 0, 5)
