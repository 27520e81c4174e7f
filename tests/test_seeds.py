from __future__ import annotations

from sttau.seeds import derive_seed


def test_a_derived_seed_depends_on_the_seed_and_on_every_part_of_its_purpose() -> None:
    seeds = {derive_seed(seed, *parts) for seed in range(50) for parts in (("weights",), ("update", 1), ("update", 2))}
    assert len(seeds) == 150
    assert derive_seed(3, "update", 7) == derive_seed(3, "update", 7)
    assert all(0 <= seed < 2**63 for seed in seeds)
