from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from automata.fa.dfa import DFA
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sttau.automata import PA, compare, random_dfa, random_pa, stochastic, tomita
from tests.languages.strategies import dfas, doubled, pa_of, pas, permuted

STRINGS = ["".join(symbols) for length in range(13) for symbols in product("01", repeat=length)]


def _answers(dfa: DFA) -> NDArray[np.bool_]:
    """Whether each of STRINGS is accepted, by evaluating all of them, length by length."""
    table: Any = dfa.transitions
    moves = np.array([[table[s]["0"], table[s]["1"]] for s in range(len(dfa.states))])
    level, states = np.array([0]), [np.array([0])]
    for _ in range(12):
        level = moves[level].flatten()
        states.append(level)
    accepting = np.array([s in dfa.final_states for s in range(len(dfa.states))])
    return np.asarray(accepting[np.concatenate(states)])


def test_the_brute_force_reference_is_correct() -> None:
    rows = [0, 1, 5, 100, 8190]
    assert _answers(tomita(3))[rows].tolist() == [tomita(3).accepts_input(STRINGS[row]) for row in rows]


@given(dfas(most=6), dfas(most=6))
def test_the_result_is_that_of_all_strings_to_length_12(a: DFA, b: DFA) -> None:
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


def test_different_alphabets_are_rejected() -> None:
    one = DFA(states={0}, input_symbols={"a"}, transitions={0: {"a": 0}}, initial_state=0, final_states=set())
    for other in (tomita(1), stochastic(1)):
        with pytest.raises(ValueError, match="read different symbols"):
            compare(other, one)


@given(pas(), pas())
def test_tzeng_agrees_with_all_short_strings(a: PA, b: PA) -> None:
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
def test_tzeng_accepts_another_order_and_doubled_states(pa: PA, source: st.DataObject) -> None:
    other = doubled(pa)
    order = list(range(other.num_states))
    source.shuffle(order)  # type: ignore[attr-defined]
    assert compare(pa, permuted(other, order))


@given(dfas(), dfas())
def test_dfas_converted_to_pas_have_the_same_result(a: DFA, b: DFA) -> None:
    assert bool(compare(PA.from_dfa(a), b)) == bool(compare(a, b))


def test_a_change_larger_than_the_tolerance_is_found() -> None:
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


def test_a_result_has_a_reason() -> None:
    assert str(compare(tomita(1), tomita(1))) == "equal: the 2 reachable pairs of states agree"
    assert str(compare(tomita(1), tomita(2))) == "different on “1”: the first accepts it, the second rejects it"


@pytest.mark.parametrize("seed", range(3))
def test_larger_random_dfas_differ_from_their_mutants(seed: int) -> None:
    dfa = random_dfa(30, "abc", seed=seed)
    other = random_dfa(30, "abc", seed=seed + 10)
    answer = compare(dfa, other)
    assert answer.counterexample is not None
    assert dfa.accepts_input(answer.counterexample) != other.accepts_input(answer.counterexample)


def _leaking(leak: float) -> PA:
    """State 0 is left with this probability per symbol, and the other state accepts."""
    moves = torch.tensor([[[1 - leak, leak], [0.0, 1.0]]], dtype=torch.float64)
    return PA(torch.tensor([1.0, 0.0], dtype=torch.float64), moves, torch.tensor([0.0, 1.0]).double(), ("a",))


def test_equal_up_to_a_tolerance_bounds_no_difference_on_long_strings_and_says_so() -> None:
    leaking, never = _leaking(5e-10), _leaking(0.0)
    answer = compare(leaking, never)
    assert answer.equal
    assert "agree to 1e-09" in str(answer)
    long = ["a" * 10_000]
    assert float(leaking.probability(long) - never.probability(long)) == pytest.approx(5e-6, rel=1e-4)
    exact = compare(leaking, never, exact=True)
    assert not exact.equal
    assert exact.counterexample == "a"
    assert "probabilities 5e-10 and 0, exactly compared" in str(exact)


def test_equality_in_fractions_is_a_proof_where_rounding_errors_would_differ() -> None:
    # 0.1 + 0.2 is not 0.3 in float64: state 1 of one automaton is divided among two states of the other
    one = PA(
        torch.tensor([1.0, 0.0]).double(),
        torch.tensor([[[0.7, 0.3], [0.4, 0.6]]], dtype=torch.float64),
        torch.tensor([0.0, 0.5]).double(),
        ("a",),
    )
    divided = torch.tensor([[[0.7, 0.1, 0.2], [0.4, 0.35, 0.25], [0.4, 0.05, 0.55]]], dtype=torch.float64)
    other = PA(torch.tensor([1.0, 0.0, 0.0]).double(), divided, torch.tensor([0.0, 0.5, 0.5]).double(), ("a",))
    answer = compare(one, other, exact=True)
    assert answer.equal
    assert "agree exactly, and span those of all strings: a proof" in str(answer)
    divided[0, 1, 1], divided[0, 1, 2] = 0.350000000001, 0.25
    divided[0, 1, 0] = 0.399999999999
    changed = PA(other.initial, divided, other.output, ("a",))
    assert compare(one, changed).equal
    assert not compare(one, changed, exact=True).equal


@pytest.mark.parametrize("seed", range(8))
def test_exact_and_approximate_comparison_agree_on_automata_that_differ_clearly(seed: int) -> None:
    first, second = random_pa(2, seed=seed), random_pa(2, seed=seed + 1)
    approximate, exact = compare(first, second), compare(first, second, exact=True)
    assert (approximate.equal, approximate.counterexample) == (exact.equal, exact.counterexample)


def test_a_difference_below_the_tolerance_is_found_exactly() -> None:
    leak = 5e-10  # p(a^10000) = 5e-6, and 0
    rows = torch.tensor([[[1 - leak, leak], [0.0, 1.0]]], dtype=torch.float64)
    leaking = pa_of([1.0, 0.0], rows, [0.0, 1.0], ("a",))
    never = pa_of([1.0], [[[1.0]]], [0.0], ("a",))
    assert float(leaking.probability(["a" * 10_000])) == pytest.approx(5e-6, rel=1e-3)
    assert compare(leaking, never)  # on the basis they agree to 1e-9
    answer = compare(leaking, never, exact=True)
    assert (answer.equal, answer.counterexample) == (False, "a")
    assert "probabilities 5e-10 and 0" in str(answer)


@pytest.mark.parametrize("seed", range(5))
def test_exact_comparison_proves_equality_of_a_pa_with_its_own_refinement(seed: int) -> None:
    # rows of tenths, and a state split in two halves, each entered with half of the probability
    source = torch.Generator().manual_seed(seed)
    rows = torch.randint(0, 6, (2, 3, 2), generator=source)
    matrices = torch.cat([rows, 10 - rows.sum(-1, keepdim=True)], -1).double() / 10
    output = torch.randint(0, 11, (3,), generator=source).double() / 10
    pa = pa_of([1.0, 0.0, 0.0], matrices, output, ("a", "b"))
    halves = torch.cat([matrices[..., :2], matrices[..., 2:] / 2, matrices[..., 2:] / 2], -1)
    split = pa_of(
        [1.0, 0.0, 0.0, 0.0], torch.cat([halves, halves[:, 2:]], 1), torch.cat([output, output[2:]]), ("a", "b")
    )
    answer = compare(pa, split, exact=True)
    assert answer, answer
    assert "a proof" in str(answer)
    changed = PA(
        pa.initial, pa.matrices, torch.cat([output[:2], (output[2:] + 1e-12).clamp(max=1 - 1e-12)]), pa.alphabet
    )
    reached = compare(changed, split, exact=True)
    assert not reached or float(pa.matrices[:, :2, 2].sum()) == 0
