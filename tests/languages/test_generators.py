from __future__ import annotations

import pytest

from sttau.automata import compare
from sttau.languages import accepts, from_regex, random_dfa, random_pa, tomita


@pytest.mark.parametrize(
    ("expression", "number"),
    [("1*", 1), ("(10)*", 2), ("(1|01|001)*(0|00)?", 4), ("0*1*0*1*", 7)],
)
def test_regular_expressions_are_the_grammars(expression: str, number: int) -> None:
    dfa = from_regex(expression)
    assert compare(dfa, tomita(number))
    assert dfa.states == set(range(len(tomita(number).states)))
    assert all(len(moves) == 2 for moves in dfa.transitions.values())


def test_the_alphabet_may_have_symbols_that_the_expression_lacks() -> None:
    assert accepts(from_regex("a*", "abc"), ["aa", "ab", "c"]).tolist() == [True, False, False]


@pytest.mark.parametrize("size", [1, 2, 3, 8, 25])
def test_a_random_dfa_has_the_given_size_and_depends_on_its_seed(size: int) -> None:
    dfa = random_dfa(size, "abc", seed=1)
    assert len(dfa.minify().states) == size
    assert dfa == random_dfa(size, "cba", seed=1)


def test_random_automata_differ_by_seed() -> None:
    assert not compare(random_dfa(6, seed=0), random_dfa(6, seed=1))
    assert not compare(random_pa(6, seed=0), random_pa(6, seed=1))
    assert random_pa(6, seed=0) == random_pa(6, seed=0)


def test_concentration_makes_rows_sharp_or_flat() -> None:
    sharp, flat = (random_pa(10, seed=0, concentration=c).matrices.max(-1).values.mean() for c in (0.01, 100))
    assert sharp > 0.9
    assert flat < 0.15


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("(ab)*", r"contains 'a', 'b', which is not in the alphabet \('0', '1'\); pass all symbols as alphabet="),
        ("1-0", r"not in the alphabet .* alphabet="),
        ("(1", "is not a regular expression"),
    ],
)
def test_an_expression_over_other_symbols_is_rejected_with_a_hint(expression: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_regex(expression)


def test_wrong_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match="single characters"):
        from_regex("a", ())
    with pytest.raises(ValueError, match="states must be at least 1"):
        random_dfa(0, seed=0)
    with pytest.raises(ValueError, match="single symbol"):
        random_dfa(3, "a", seed=0)
    with pytest.raises(ValueError, match="concentration must be positive"):
        random_pa(2, seed=0, concentration=0)


@pytest.mark.parametrize(
    ("expression", "place"),
    [
        ("a(b|c", r"'\(' at character 2 is not closed"),
        ("((a)", r"'\(' at character 1 is not closed"),
        ("(a))(b", r"'\)' at character 4 is not opened"),
        (r"\([(]a)", r"'\)' at character 7 is not opened"),
    ],
)
def test_an_unbalanced_parenthesis_is_named_with_its_place(expression: str, place: str) -> None:
    with pytest.raises(ValueError, match=f"is not a regular expression: the parenthesis {place}"):
        from_regex(expression, "abc(")
