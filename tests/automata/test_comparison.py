from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from automata.fa.dfa import DFA
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sttau.automata import (
    PA,
    bernoulli_kl,
    compare,
    distance,
    random_dfa,
    random_pa,
    rms_distance,
    stochastic,
    tomita,
)
from sttau.automata import comparison as comparison_module
from tests.automata.nursery import dfas, doubled, pas, permuted

STRINGS = ["".join(symbols) for length in range(13) for symbols in product("01", repeat=length)]


def _answers(dfa: DFA) -> NDArray[np.bool_]:
    """Whether each of STRINGS is accepted, by running over all of them, length by length."""
    table: Any = dfa.transitions
    moves = np.array([[table[s]["0"], table[s]["1"]] for s in range(len(dfa.states))])
    level, states = np.array([0]), [np.array([0])]
    for _ in range(12):
        level = moves[level].flatten()
        states.append(level)
    accepting = np.array([s in dfa.final_states for s in range(len(dfa.states))])
    return np.asarray(accepting[np.concatenate(states)])


def test_the_brute_force_below_is_right() -> None:
    rows = [0, 1, 5, 100, 8190]
    assert _answers(tomita(3))[rows].tolist() == [tomita(3).accepts_input(STRINGS[row]) for row in rows]


@given(dfas(most=6), dfas(most=6))
def test_the_answer_is_that_of_trying_all_strings_to_length_12(a: DFA, b: DFA) -> None:
    # two automata of at most 6 states that agree on all strings shorter than 6 + 6 agree on all strings
    wrong = np.flatnonzero(_answers(a) != _answers(b))
    answer = compare(a, b)
    assert bool(answer) == (len(wrong) == 0)
    assert answer.counterexample == (STRINGS[wrong[0]] if len(wrong) else None)


@given(dfas(most=6))
def test_a_dfa_equals_its_minimal_form(dfa: DFA) -> None:
    assert compare(dfa, dfa.minify())
    assert not compare(dfa, dfa.complement())


@pytest.mark.parametrize("first", range(1, 8))
@pytest.mark.parametrize("second", range(1, 8))
def test_tomita_grammars_equal_only_themselves(first: int, second: int) -> None:
    assert bool(compare(tomita(first), tomita(second))) == (first == second)


def test_a_long_counterexample_is_found_at_once() -> None:
    # the two count to 60 and differ there only: 2^60 strings could be tried
    size = 62
    moves = {n: {"0": min(n + 1, size - 1), "1": min(n + 1, size - 1)} for n in range(size)}
    one, other = (
        DFA(states=set(moves), input_symbols={"0", "1"}, transitions=moves, initial_state=0, final_states=final)
        for final in ({60}, set[int]())
    )
    assert compare(one, other).counterexample == "0" * 60


def test_missing_moves_reject() -> None:
    partial = DFA(
        states={0},
        input_symbols={"0", "1"},
        transitions={0: {"1": 0}},
        initial_state=0,
        final_states={0},
        allow_partial=True,
    )
    assert compare(partial, tomita(1))
    assert compare(tomita(1), partial)


def test_different_alphabets_are_refused() -> None:
    one = DFA(states={0}, input_symbols={"a"}, transitions={0: {"a": 0}}, initial_state=0, final_states=set())
    for other in (tomita(1), stochastic(1)):
        with pytest.raises(ValueError, match="read different symbols"):
            compare(other, one)


@given(pas(), pas())
def test_tzeng_agrees_with_trying_all_strings(a: PA, b: PA) -> None:
    # strings shorter than 4 + 4 decide
    short = STRINGS[: 2**8 - 1]
    gaps = (a.probability(short) - b.probability(short)).abs()
    answer = compare(a, b)
    assert bool(answer) == (float(gaps.max()) <= 1e-9)
    if answer.counterexample is not None:
        first = int((gaps > 1e-9).nonzero()[0])
        assert len(answer.counterexample) == len(short[first])
        assert float(gaps[short.index(answer.counterexample)]) > 1e-9


@given(pas(), st.randoms())
def test_tzeng_sees_through_another_order_and_doubled_states(pa: PA, source: st.DataObject) -> None:
    other = doubled(pa)
    order = list(range(other.num_states))
    source.shuffle(order)  # type: ignore[attr-defined]
    assert compare(pa, permuted(other, order))


@given(dfas(), dfas())
def test_dfas_as_pas_get_the_same_answer(a: DFA, b: DFA) -> None:
    assert bool(compare(PA.from_dfa(a), b)) == bool(compare(a, b))


def test_a_small_change_is_found_where_it_is_larger_than_the_tolerance() -> None:
    pa = stochastic(2)
    matrices = pa.matrices.clone()
    matrices[1, 2] += torch.tensor([1e-6, 0, -1e-6])
    other = PA(pa.initial, matrices, pa.output, pa.alphabet)
    assert not compare(pa, other)
    assert compare(pa, other, tolerance=1e-5)


def test_the_order_of_the_alphabet_does_not_matter() -> None:
    pa = stochastic(2)
    turned = PA(pa.initial, pa.matrices.flip(0), pa.output, ("1", "0"))
    assert compare(pa, turned)
    assert distance(pa, turned, length=5).sup == 0
    assert rms_distance(pa, turned) < 1e-7
    assert bernoulli_kl(pa, turned, strings=["01"]) == 0


def test_an_answer_says_why() -> None:
    assert (
        str(compare(tomita(1), tomita(1))) == "equal: 2 pairs of states, to which all strings lead back, answer alike"
    )
    assert str(compare(tomita(1), tomita(2))) == "different on “1”: the first accepts it: yes, the second: no"


@given(pas(), pas())
@settings(max_examples=25)
def test_distances_are_those_of_trying_all_strings(a: PA, b: PA) -> None:
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


def test_a_level_too_large_to_be_held_is_worked_through_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = random_pa(3, "abc", seed=0), random_pa(4, "abc", seed=1)
    whole = distance(a, b, length=6)
    monkeypatch.setattr(comparison_module, "_BLOCK", 10)
    blocks = distance(a, b, length=6)
    assert blocks.sup_by_length == pytest.approx(whole.sup_by_length, abs=1e-14)
    assert blocks.l1 == pytest.approx(whole.l1, abs=1e-12)
    gap = (a.probability([blocks.worst]) - b.probability([blocks.worst])).abs()
    assert float(gap) == pytest.approx(whole.sup, abs=1e-14)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("direct", [True, False])
def test_rms_distance_is_that_of_trying_all_strings(seed: int, direct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not direct:
        monkeypatch.setattr(comparison_module, "_DIRECT", 0)
    a, b, c = random_pa(3, seed=seed), random_pa(5, seed=seed + 50), 0.35
    total = 0.0
    for length in range(15):
        strings = torch.tensor(list(product((0, 1), repeat=length))).reshape(2**length, length).long()
        total += (1 - c) * c**length * float((a.probability(strings) - b.probability(strings)).square().mean())
    # strings of 15 symbols and more have weight 0.35^15 = 1.4e-7
    assert rms_distance(a, b, continuation=c) == pytest.approx(math.sqrt(total), rel=1e-5)


def test_weights_choose_the_law_of_the_strings() -> None:
    a, b = stochastic(1), stochastic(2)
    one, two = (bernoulli_kl(a, b, strings=[s]) for s in ("0", "01"))
    assert bernoulli_kl(a, b, strings=["0", "01"], weights=torch.tensor([3.0, 1.0])) == pytest.approx(
        (3 * one + two) / 4, abs=1e-14
    )
    assert bernoulli_kl(a, tomita(1), strings=["0"]) == math.inf
    assert bernoulli_kl(tomita(1), tomita(2), strings=["1", ""], weights=torch.tensor([0, 1.0])) == 0
    assert bernoulli_kl(tomita(1), tomita(1), length=5) == 0


@pytest.mark.parametrize("seed", range(3))
def test_larger_random_dfas_differ_from_their_mutants(seed: int) -> None:
    dfa = random_dfa(30, "abc", seed=seed)
    other = random_dfa(30, "abc", seed=seed + 10)
    answer = compare(dfa, other)
    assert answer.counterexample is not None
    assert dfa.accepts_input(answer.counterexample) != other.accepts_input(answer.counterexample)


def test_bad_arguments_are_named() -> None:
    pa = stochastic(1)
    with pytest.raises(ValueError, match="choose a smaller length"):
        distance(pa, pa, length=40)
    with pytest.raises(ValueError, match="length must not be negative"):
        distance(pa, pa, length=-1)
    with pytest.raises(ValueError, match="continuation"):
        rms_distance(pa, pa, continuation=1)
    with pytest.raises(ValueError, match="either length or strings"):
        bernoulli_kl(pa, pa)
    with pytest.raises(ValueError, match="weights belong to strings"):
        bernoulli_kl(pa, pa, length=1, weights=torch.ones(3))
    with pytest.raises(ValueError, match="weights must be 1 numbers"):
        bernoulli_kl(pa, pa, strings=["0"], weights=torch.zeros(1))
    with pytest.raises(TypeError, match="positions depend"):
        bernoulli_kl(pa, pa, strings=torch.zeros(1, 1))
