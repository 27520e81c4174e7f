from __future__ import annotations

from pathlib import Path

import pytest

from sttau.automata import accepts, compare, random_dfa, read_automaton, tomita
from tests.cli.invocation import check_failure, invoke

STRINGS = [format(n, "b")[1:] for n in range(1, 512)]


@pytest.fixture
def strings(tmp_path: Path) -> Path:
    labels = accepts(tomita(4), STRINGS).tolist()
    flipped = [label != (number % 19 == 7) for number, label in enumerate(labels)]
    file = tmp_path / "strings.txt"
    file.write_text("".join(f"{int(label)} {string}\n" for label, string in zip(flipped, STRINGS, strict=True)))
    return file


def test_a_language_is_learned_from_a_file_though_labels_are_wrong(strings: Path, tmp_path: Path) -> None:
    network, automaton = tmp_path / "model.safetensors", tmp_path / "automaton.jff"
    shown = invoke("learn", strings, "--out", network, "--out", automaton, "--against", "tomita4")
    assert shown.exit_code == 0, shown.output
    assert "likely: 27 of 511 labels differ from the automaton of 4 states" in shown.output
    assert "tomita4: equal" in shown.output
    assert compare(read_automaton(automaton), tomita(4))
    again = invoke("extract", network, "--against", "tomita4")
    assert again.exit_code == 0, again.output
    by_expression = invoke("extract", network, "--against", "(1|01|001)*(0{0,2})")
    assert by_expression.exit_code == 0, by_expression.output
    other = invoke("extract", network, "--against", automaton)
    assert other.exit_code == 0, other.output
    assert invoke("learn", strings, "--out", network, "--against", "1*").exit_code == 1
    before = strings.read_text()
    named = strings.rename(tmp_path / "strings.json")
    check_failure(invoke("learn", named, "--out", named), "strings.json would overwrite what is read", 2)
    assert named.read_text() == before
    check_failure(invoke("extract", network, "--against", "(1"), "'(1' is not a language", 2)


def test_failure_is_an_exit_code_unless_forced(tmp_path: Path) -> None:
    file = tmp_path / "few.txt"
    file.write_text("1 a\n0 b\n")
    shown = invoke("learn", file, "--out", tmp_path / "model.safetensors")
    assert shown.exit_code == 1
    assert "not determined by the data" in shown.output
    assert invoke("extract", tmp_path / "model.safetensors").exit_code == 1
    assert invoke("extract", tmp_path / "model.safetensors", "--force").exit_code == 0
    assert invoke("learn", file, "--out", tmp_path / "model.safetensors", "--force").exit_code == 0


def test_strings_of_a_file_are_run_through_an_automaton(strings: Path, tmp_path: Path) -> None:
    from sttau.plotting.automaton import write_automaton

    automaton = write_automaton(tomita(4), tmp_path / "four.json")
    shown = invoke("run", automaton, strings)
    assert shown.exit_code == 1
    assert shown.output.splitlines()[:2] == ["accept\t", "accept\t0"]
    assert shown.output.splitlines()[-1] == "27 of 511 labels are wrong"
    plain = tmp_path / "plain.txt"
    plain.write_text("\n000\n11\n")
    assert invoke("run", automaton, plain).output.splitlines() == ["accept\t", "reject\t000", "accept\t11"]
    assert invoke("run", automaton, "0001").output == "reject\t0001\n"
    pa = write_automaton(random_dfa(2, seed=0), tmp_path / "two.att")
    assert invoke("run", pa, "01").exit_code == 0


def test_probabilities_are_shown_for_a_pa(tmp_path: Path) -> None:
    from sttau.automata import stochastic

    shown = invoke("run", stochastic(1).save(tmp_path / "pa.json"), "1")
    assert shown.output == "0.800000\t1\n"
    check_failure(invoke("run", tmp_path / "pa.json", "12"), "symbol '2'", 1)
