from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings

from sttau.automata import PA, bernoulli_kl, distance, random_pa, rms_distance, stochastic, tomita
from sttau.automata import distances as distances_module
from tests.languages.strategies import pas

STRINGS = ["".join(symbols) for length in range(7) for symbols in product("01", repeat=length)]


@given(pas(), pas())
@settings(max_examples=25)
def test_distances_are_those_over_all_strings(a: PA, b: PA) -> None:
    short = STRINGS[: 2**7 - 1]
    p, q = a.probability(short), b.probability(short)
    found = distance(a, b, length=6)
    assert found.strings == len(short)
    assert found.sup == pytest.approx(float((p - q).abs().max()), abs=1e-14)
    assert found.l1 == pytest.approx(float((p - q).abs().sum()), abs=1e-12)
    assert found.mean == pytest.approx(float((p - q).abs().mean()), abs=1e-13)
    at = short.index(found.worst)
    assert float((p - q).abs()[at]) == pytest.approx(found.sup, abs=1e-14)
    assert max(found.sup_by_length) == found.sup
    kl = [
        sum(x * math.log2(x / y) if y else math.inf for x, y in ((s, t), (1 - s, 1 - t)) if x > 0)
        for s, t in zip(p.tolist(), q.tolist(), strict=True)
    ]
    expected = pytest.approx(sum(kl) / len(kl), abs=1e-12)
    assert bernoulli_kl(a, b, length=6) == expected
    assert bernoulli_kl(a, b, strings=short) == expected


def test_a_level_that_is_too_large_is_processed_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = random_pa(3, "abc", seed=0), random_pa(4, "abc", seed=1)
    whole = distance(a, b, length=6)
    monkeypatch.setattr(distances_module, "_BLOCK", 10)
    blocks = distance(a, b, length=6)
    assert blocks.sup_by_length == pytest.approx(whole.sup_by_length, abs=1e-14)
    assert blocks.l1 == pytest.approx(whole.l1, abs=1e-12)
    gap = (a.probability([blocks.worst]) - b.probability([blocks.worst])).abs()
    assert float(gap) == pytest.approx(whole.sup, abs=1e-14)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("direct", [True, False])
def test_rms_distance_is_that_over_all_strings(seed: int, direct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not direct:
        monkeypatch.setattr(distances_module, "_DIRECT", 0)
    a, b, c = random_pa(3, seed=seed), random_pa(5, seed=seed + 50), 0.35
    total = 0.0
    for length in range(15):
        strings = torch.tensor(list(product((0, 1), repeat=length))).reshape(2**length, length).long()
        total += (1 - c) * c**length * float((a.probability(strings) - b.probability(strings)).square().mean())
    # strings of 15 symbols and more have weight 0.35^15 = 1.4e-7
    assert rms_distance(a, b, continuation=c) == pytest.approx(math.sqrt(total), rel=1e-5)


def test_weights_define_the_distribution_of_the_strings() -> None:
    a, b = stochastic(1), stochastic(2)
    one, two = (bernoulli_kl(a, b, strings=[s]) for s in ("0", "01"))
    assert bernoulli_kl(a, b, strings=["0", "01"], weights=torch.tensor([3.0, 1.0])) == pytest.approx(
        (3 * one + two) / 4, abs=1e-14
    )
    assert bernoulli_kl(a, tomita(1), strings=["0"]) == math.inf
    assert bernoulli_kl(tomita(1), tomita(2), strings=["1", ""], weights=torch.tensor([0, 1.0])) == 0
    assert bernoulli_kl(tomita(1), tomita(1), length=5) == 0


def test_wrong_arguments_are_rejected() -> None:
    pa = stochastic(1)
    with pytest.raises(ValueError, match="choose a smaller length"):
        distance(pa, pa, length=40)
    with pytest.raises(ValueError, match="length must not be negative"):
        distance(pa, pa, length=-1)
    with pytest.raises(ValueError, match="continuation"):
        rms_distance(pa, pa, continuation=1)
    with pytest.raises(ValueError, match="either length or strings"):
        bernoulli_kl(pa, pa)
    with pytest.raises(ValueError, match="only be given with strings"):
        bernoulli_kl(pa, pa, length=1, weights=torch.ones(3))
    with pytest.raises(ValueError, match="weights must be 1 floats"):
        bernoulli_kl(pa, pa, strings=["0"], weights=torch.zeros(1))
    with pytest.raises(TypeError, match="positions depend"):
        bernoulli_kl(pa, pa, strings=torch.zeros(1, 1))


def test_distances_do_not_depend_on_the_order_of_the_alphabet() -> None:
    pa = stochastic(2)
    turned = PA(pa.initial, pa.matrices.flip(0), pa.output, ("1", "0"))
    assert distance(pa, turned, length=5).sup == 0
    assert rms_distance(pa, turned) < 1e-7
    assert bernoulli_kl(pa, turned, strings=["01"]) == 0
