from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sttau.automata import PA, compare, random_dfa, random_pa, reduce, rms_distance, stochastic, tomita
from tests.languages.strategies import doubled, pas, permuted

STRINGS = ["".join(symbols) for length in range(8) for symbols in product("01", repeat=length)]


def _blurred(pa: PA, noise: float, seed: int) -> PA:
    """The same automaton with noise on every row and output."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.rand(pa.matrices.shape, generator=generator, dtype=torch.float64)
    matrices = (1 - noise) * pa.matrices + noise * rows / rows.sum(-1, keepdim=True)
    output = (1 - noise) * pa.output + noise * torch.rand(pa.num_states, generator=generator, dtype=torch.float64)
    return PA(pa.initial, matrices, output, pa.alphabet)


@given(
    pas(),
    st.sampled_from([0.0, 0.001, 0.05, 0.3]),
    st.floats(0, 2),
    st.sampled_from([0.0, 0.01, 0.2]),
    st.integers(0, 9),
)
def test_no_string_exceeds_the_bound(pa: PA, noise: float, tolerance: float, leak: float, seed: int) -> None:
    large = _blurred(doubled(pa), noise, seed)
    small = reduce(large, tolerance, leak=leak)
    gaps = (large.probability(STRINGS) - small.pa.probability(STRINGS)).abs()
    for string, gap in zip(STRINGS, gaps.tolist(), strict=True):
        bound = small.bound(len(string))
        assert gap <= bound + 1e-12
        simple = len(string) * small.defect + small.output_defect + (len(string) + 1) * small.leak
        assert bound <= simple + 1e-12
    assert small.defect <= tolerance + 1e-12
    assert small.output_defect <= tolerance + 1e-12
    assert small.leak <= leak
    assert sorted([*sum(small.members, ()), *small.left_out]) == list(range(large.num_states))


def test_the_bound_is_reached() -> None:
    # both states accept, but for one symbol; the first moves away with probability 0.2 in one copy and 0 in the other
    pa = PA(
        torch.tensor([1.0, 0, 0]),
        torch.tensor([[[0.8, 0, 0.2], [0, 1.0, 0], [0, 0, 1.0]], [[0, 1.0, 0], [0, 1.0, 0], [0, 0, 1.0]]]),
        torch.tensor([1.0, 1, 0]),
        ("a", "b"),
    )
    small = reduce(pa, 0.4)
    assert small.members == ((0, 1), (2,))
    assert 0 < small.defect < 0.2
    gap = abs(float(pa.probability(["a"]) - small.pa.probability(["a"])))
    assert gap == pytest.approx(small.bound(1), abs=1e-12)


@given(pas(), st.randoms())
def test_doubled_and_unreachable_states_are_removed_without_a_change(pa: PA, source: st.DataObject) -> None:
    large = doubled(pa)
    order = list(range(large.num_states))
    source.shuffle(order)  # type: ignore[attr-defined]
    small = reduce(permuted(large, order))
    assert small.pa.num_states <= pa.num_states
    assert order.index(large.num_states - 1) in small.left_out
    assert compare(small.pa, pa)


@pytest.mark.parametrize("number", [1, 2])
def test_a_noisy_copy_of_a_stochastic_language_is_reduced_to_its_size(number: int) -> None:
    truth = stochastic(number)
    noisy = _blurred(doubled(truth), 0.005, 0)
    small = reduce(noisy, 0.03, leak=0.005)
    assert small.pa.num_states == truth.num_states
    assert rms_distance(small.pa, truth) < 0.02


@pytest.mark.parametrize("number", range(1, 8))
def test_a_dfa_becomes_minimal(number: int) -> None:
    large = doubled(PA.from_dfa(tomita(number)), share=1.0)
    small = reduce(large, 0)
    assert small.pa.num_states == len(tomita(number).states)
    assert compare(small.pa.to_dfa(), tomita(number))
    assert small.defect == small.output_defect == 0


def test_states_that_only_a_long_string_distinguishes_are_not_merged() -> None:
    dfa = random_dfa(15, seed=0)
    assert reduce(PA.from_dfa(dfa), 0).pa.num_states == 15


def test_the_bound_of_a_contracting_automaton_holds_for_all_lengths() -> None:
    small = reduce(_blurred(doubled(random_pa(3, seed=1, concentration=5)), 0.01, 0), 0.1)
    assert small.contraction < 1
    assert small.bound(10**6) == pytest.approx(small.defect / (1 - small.contraction) + small.output_defect)
    assert small.bound(10**6) < 1


def test_a_nearly_unreachable_state_is_left_out_if_allowed() -> None:
    pa = PA(torch.tensor([1.0, 0]), torch.tensor([[[0.99, 0.01], [0, 1]]]).double(), torch.tensor([0.0, 1.0]), ("a",))
    assert reduce(pa, 0).left_out == ()
    small = reduce(pa, 0, leak=0.02)
    assert small.left_out == (1,)
    assert small.leak == pytest.approx(0.01)
    assert float(pa.probability(["aaa"])) <= small.bound(3) == pytest.approx(0.04)


def test_wrong_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"leak in \[0, 1\), got 1e-09 and 1"):
        reduce(stochastic(1), leak=1)
    with pytest.raises(ValueError, match="tolerance must be at least 0"):
        reduce(stochastic(1), -1)
    with pytest.raises(ValueError, match="length must not be negative"):
        reduce(stochastic(1)).bound(-1)
