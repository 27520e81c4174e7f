from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

import pytest

from sttau.data import load
from sttau.data.tomita import GRAMMARS, sample_strings


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


@pytest.mark.parametrize("number", GRAMMARS)
def test_a_table_accepts_what_its_definition_says_on_all_strings_to_length_12(number: int) -> None:
    for length in range(13):
        for symbols in product("01", repeat=length):
            string = "".join(symbols)
            assert GRAMMARS[number].accepts(string) == DEFINITIONS[number](string), string


def test_tomita_3_looks_at_every_later_run_of_zeros() -> None:
    assert not GRAMMARS[3].accepts("100110")


@pytest.mark.parametrize("number", GRAMMARS)
@pytest.mark.parametrize("inside", [True, False])
def test_sampled_strings_have_the_length_and_label_asked_for(number: int, inside: bool) -> None:
    for length in (0, 1, 7, 300):
        strings = sample_strings(GRAMMARS[number], length, inside, 5, seed=1)
        assert len(strings) in (0, 5)
        assert all(len(s) == length and GRAMMARS[number].accepts(s) == inside for s in strings)


def test_sampling_is_uniform_over_the_strings_of_one_length() -> None:
    strings = sample_strings(GRAMMARS[4], 4, True, 13_000, seed=0)
    counts = {s: strings.count(s) for s in set(strings)}
    assert len(counts) == 13  # the strings of four symbols without 000
    assert all(abs(count - 1000) < 5 * 1000**0.5 for count in counts.values())


@pytest.mark.parametrize("number", GRAMMARS)
def test_data_sets_are_labelled_rightly_begin_with_the_start_token_and_do_not_overlap(number: int) -> None:
    seen: set[tuple[int, ...]] = set()
    for split in ("train", "validation", "test"):
        data = load(f"tomita{number}", split)
        assert data.vocabulary is not None
        assert bool((data.inputs[:, 0] == 0).all())
        strings = set()
        for row, length, label in zip(data.inputs.tolist(), data.lengths.tolist(), data.labels.tolist(), strict=True):
            string = "".join(data.vocabulary[token] for token in row[1:length])
            assert GRAMMARS[number].accepts(string) == bool(label)
            assert not any(row[length:])
            strings.add(tuple(row[:length]))
        assert not strings & seen
        seen |= strings


def test_data_sets_hold_the_empty_string_and_are_balanced_where_the_language_allows() -> None:
    data = load("tomita3", "train")
    assert int(data.lengths.min()) == 1
    assert 0.45 < float(data.labels.float().mean()) < 0.55
