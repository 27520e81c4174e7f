from __future__ import annotations

import pytest
import torch

from sttau.automata import bernoulli_kl, compare, distance, random_pa, reduce, rms_distance

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_a_pa_on_the_gpu_gives_the_answers_of_the_cpu() -> None:
    a = random_pa(6, seed=0)
    there = a.to("cuda")
    strings = ["", "0", "0110", "1" * 500]
    assert there.probability(strings).device.type == "cuda"
    torch.testing.assert_close(there.probability(strings).cpu(), a.probability(strings), rtol=0, atol=1e-13)
    torch.testing.assert_close(there.sample(strings, 100, seed=0).cpu(), a.sample(strings, 100, seed=0))
    assert there == a


def test_algorithms_run_where_the_first_automaton_is() -> None:
    a, b = random_pa(6, seed=0), random_pa(5, seed=1)
    there = a.to("cuda")
    assert compare(there, b).counterexample == compare(a, b).counterexample
    assert compare(there, a)
    assert distance(there, b, length=10).sup == pytest.approx(distance(a, b, length=10).sup, abs=1e-13)
    assert rms_distance(there, b) == pytest.approx(rms_distance(a, b), abs=1e-10)
    assert bernoulli_kl(there, b, length=8) == pytest.approx(bernoulli_kl(a, b, length=8), abs=1e-10)
    assert reduce(there, 0.3).members == reduce(a, 0.3).members
