from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

import pytest

from sttau.languages import TOMITA_GRAMMARS, accepts, count_strings, sample_strings, tomita


def _odd_zeros_after_odd_ones(string: str) -> bool:
    seen = False
    for run in re.findall(r"0+|1+", string):
        if run[0] == "1" and len(run) % 2:
            seen = True
        if run[0] == "0" and len(run) % 2 and seen:
            return True
    return False


DEFINITIONS: dict[int, Callable[[str], bool]] = {
    1: lambda s: re.fullmatch("1*", s) is not None,
    2: lambda s: re.fullmatch("(10)*", s) is not None,
    3: lambda s: not _odd_zeros_after_odd_ones(s),
    4: lambda s: "000" not in s,
    5: lambda s: s.count("0") % 2 == 0 and s.count("1") % 2 == 0,
    6: lambda s: (s.count("0") - s.count("1")) % 3 == 0,
    7: lambda s: re.fullmatch("0*1*0*1*", s) is not None,
}


@pytest.mark.parametrize("number", TOMITA_GRAMMARS)
def test_a_grammar_accepts_what_its_definition_says_on_all_strings_to_length_12(number: int) -> None:
    strings = ["".join(symbols) for length in range(13) for symbols in product("01", repeat=length)]
    assert accepts(tomita(number), strings).tolist() == [DEFINITIONS[number](string) for string in strings]


def test_tomita_3_considers_every_later_run_of_zeros() -> None:
    assert not tomita(3).accepts_input("100110")


@pytest.mark.parametrize("number", TOMITA_GRAMMARS)
def test_the_dfa_is_minimal(number: int) -> None:
    assert len(tomita(number).minify().states) == len(tomita(number).states)


def test_an_unknown_number_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"number must be 1 … 7, got 8"):
        tomita(8)


@pytest.mark.parametrize("number", TOMITA_GRAMMARS)
@pytest.mark.parametrize("inside", [True, False])
def test_sampled_strings_have_the_requested_length_and_label(number: int, inside: bool) -> None:
    for length in (0, 1, 7, 300):
        strings = sample_strings(TOMITA_GRAMMARS[number], length, inside, 5, seed=1)
        assert len(strings) == (5 if count_strings(TOMITA_GRAMMARS[number], length, inside) else 0)
        assert all(len(s) == length and tomita(number).accepts_input(s) == inside for s in strings)


def test_sampling_is_uniform_over_the_strings_of_one_length() -> None:
    strings = sample_strings(TOMITA_GRAMMARS[4], 4, True, 13_000, seed=0)
    counts = {s: strings.count(s) for s in set(strings)}
    assert len(counts) == 13  # the strings of four symbols without 000
    assert all(abs(count - 1000) < 5 * 1000**0.5 for count in counts.values())
