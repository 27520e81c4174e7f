from __future__ import annotations

import pytest
import torch

from sttau import seeds
from sttau.seeds import derive_seed, seed_generators, seeded


def test_a_derived_seed_depends_on_the_seed_and_on_every_part_of_its_purpose() -> None:
    seeds = {derive_seed(seed, *parts) for seed in range(50) for parts in (("weights",), ("update", 1), ("update", 2))}
    assert len(seeds) == 150
    assert derive_seed(3, "update", 7) == derive_seed(3, "update", 7)
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize("accelerator", [False, True])
def test_generators_are_seeded_as_pytorch_seeds_them(accelerator: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "_has_accelerator", lambda: accelerator)
    torch.manual_seed(2**62 + 3)
    expected = torch.rand(5)
    seed_generators(2**62 + 3)
    assert torch.equal(torch.rand(5), expected)


def test_generators_of_all_devices_are_seeded_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seeded: list[int] = []
    monkeypatch.setattr(seeds, "_has_accelerator", lambda: True)
    monkeypatch.setattr(torch, "manual_seed", seeded.append)
    seed_generators(4)
    assert seeded == [4]


@pytest.mark.parametrize("cpu_only", [False, True])
def test_a_seeded_context_draws_as_pytorch_does_and_restores_its_generator(cpu_only: bool) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(9)
    before = torch.get_rng_state()
    with seeded(5, cpu_only=cpu_only):
        assert torch.equal(torch.rand(3), expected)
    assert torch.equal(torch.get_rng_state(), before)
