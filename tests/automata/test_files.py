from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from aalpy.utils import save_automaton_to_file
from automata.fa.dfa import DFA
from hypothesis import given, settings
from hypothesis import strategies as st

from sttau import SequenceClassifier, STTauGRU
from sttau.automata import (
    PA,
    accepts,
    balanced_strings,
    compare,
    extract_dfa,
    from_att,
    from_dot,
    from_jflap,
    from_prism,
    from_regex,
    learn,
    mutations,
    random_dfa,
    random_pa,
    read_automaton,
    read_strings,
    stochastic,
    to_aalpy,
    to_att,
    to_dot,
    to_jflap,
    to_prism,
    tomita,
)
from sttau.automata import compile as compile_model
from sttau.data import load
from sttau.errors import AutomatonError, DataError
from sttau.plotting.automaton import write_automaton


def pa_of(initial: list[float], matrices: Any, output: Any, alphabet: tuple[str, ...]) -> PA:
    return PA(torch.tensor(initial), torch.as_tensor(matrices).double(), torch.as_tensor(output), alphabet)


WORDS = ["".join(word) for length in range(7) for word in product("01", repeat=length)]


@pytest.mark.parametrize("ending", ["dot", "jff", "att", "json"])
@given(states=st.integers(1, 9), seed=st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_a_dfa_is_the_same_after_it_was_written_and_read(ending: str, states: int, seed: int) -> None:
    dfa = random_dfa(states, "01", seed=seed)
    writers = {"dot": (to_dot, from_dot), "jff": (to_jflap, from_jflap), "att": (to_att, from_att)}
    if ending in writers:
        write, read = writers[ending]
        found = read(write(dfa))
        assert compare(found, dfa)
        assert len(found.states) == states


@given(states=st.integers(1, 6), seed=st.integers(0, 1000), mixed=st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_pa_is_the_same_after_prism(states: int, seed: int, mixed: bool) -> None:
    pa = random_pa(states, "ab", seed=seed)
    if mixed:
        pa = PA(torch.full((states,), 1 / states), pa.matrices, torch.linspace(0, 1, states), pa.alphabet)
    assert from_prism(to_prism(pa)) == pa
    odd = PA(pa.initial, pa.matrices, pa.output, ("+", '"'))
    assert from_prism(to_prism(odd)) == odd


def test_the_dot_files_of_aalpy_are_read(tmp_path: Path) -> None:
    for number in range(1, 8):
        save_automaton_to_file(to_aalpy(tomita(number)), str(tmp_path / "theirs"), file_type="dot")
        assert compare(read_automaton(tmp_path / "theirs.dot"), tomita(number))


def test_probabilities_and_odd_symbols_in_dot_are_no_obstacle() -> None:
    dfa = from_regex("(ab)*", "ab")
    renamed = DFA(
        states=dfa.states,
        input_symbols={'"', "]"},
        transitions={s: {'"': row["a"], "]": row["b"]} for s, row in dfa.transitions.items()},
        initial_state=dfa.initial_state,
        final_states=dfa.final_states,
    )
    notes = {(state, symbol): 0.5 for state in renamed.states for symbol in renamed.input_symbols}
    assert compare(from_dot(to_dot(renamed, probabilities=notes, variances=notes)), renamed)


def test_a_nondeterministic_automaton_of_jflap_becomes_a_dfa() -> None:
    text = """<?xml version="1.0"?><structure><type>fa</type><automaton>
      <state id="0"><initial/></state><state id="1"/><state id="2"><final/></state>
      <transition><from>0</from><to>0</to><read>0</read></transition>
      <transition><from>0</from><to>0</to><read>1</read></transition>
      <transition><from>0</from><to>1</to><read>1</read></transition>
      <transition><from>1</from><to>2</to><read/></transition></automaton></structure>"""
    assert accepts(from_jflap(text), WORDS).tolist() == [word.endswith("1") for word in WORDS]


def test_acceptors_of_openfst_are_read() -> None:
    assert accepts(from_att("0 1 1\n1 1 1\n1 0 0 0.0\n0 0 0\n1\n"), WORDS).tolist() == [w.endswith("1") for w in WORDS]


@pytest.mark.parametrize(
    ("read", "text", "problem"),
    [
        (from_dot, "graph {}", "no directed graph"),
        (from_dot, "digraph { 0 -> 1 [label=a]; }", "one initial state"),
        (from_dot, to_dot(stochastic(1)), "several moves of a state"),
        (from_dot, to_dot(pa_of([1.0], [[[1.0]]], [0.3], ("a",))), "rounded for a drawing"),
        (from_dot, "digraph { s [shape=point]; s -> 0; 0 -> 0; }", "without a symbol"),
        (from_dot, "digraph { a ] }", "cannot be read from"),
        (from_jflap, "<structure><type>pda</type></structure>", "type 'pda'"),
        (from_jflap, "<!DOCTYPE x><structure/>", "document type"),
        (from_jflap, "<structure>", "not valid"),
        (from_jflap, "<structure><type>fa</type><automaton/></structure>", "no initial state"),
        (from_att, "0 1 a 0.5\n1\n", "line 1: expected source"),
        (from_att, "", "no initial state"),
        (from_prism, "dtmc", "no MDP"),
        (from_prism, "mdp\ns : [0..1] init 0;\n[a_x] s=0 -> s'=1;", "an update that is not read"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason(read: object, text: str, problem: str) -> None:
    with pytest.raises(AutomatonError, match=problem):
        read(text)  # type: ignore[operator]


def test_pas_are_not_written_where_there_are_no_probabilities() -> None:
    for write in (to_jflap, to_att):
        with pytest.raises(TypeError, match=r"write a PA as \.json"):
            write(stochastic(1))
    with pytest.raises(ValueError, match="' ' cannot be written"):
        to_att(random_dfa(2, "a ", seed=0))


def test_files_are_read_by_their_ending(tmp_path: Path) -> None:
    for ending in ("json", "dot", "jff", "att"):
        assert compare(read_automaton(write_automaton(tomita(5), tmp_path / f"five.{ending}")), tomita(5))
    for ending in ("json", "prism"):
        assert read_automaton(write_automaton(stochastic(2), tmp_path / f"two.{ending}")) == stochastic(2)
    model = SequenceClassifier(STTauGRU(4, 8, 3), 2, torch.nn.Embedding(3, 4))
    compiled = compile_model(model, ("^", "0", "1"))
    path = compiled.save(tmp_path / "model.safetensors")
    assert read_automaton(path) == compiled.pa()
    with pytest.raises(AutomatonError, match=r"three\.txt must end in \.json"):
        read_automaton(tmp_path / "three.txt")


def test_all_that_stands_for_a_dfa_is_accepted() -> None:
    learned = learn(load("tomita1", "train"))
    strings = ["", "1", "11", "10"]
    for value in (learned, extract_dfa(learned.model), PA.from_dfa(tomita(1)), tomita(1)):
        assert accepts(value, strings).tolist() == [True, True, True, False]
        assert balanced_strings(value, [3], 2, seed=0)[0] == balanced_strings(tomita(1), [3], 2, seed=0)[0]
        assert mutations(value, strings, seed=0)[0] == mutations(tomita(1), strings, seed=0)[0]
    with pytest.raises(ValueError, match="not deterministic"):
        accepts(stochastic(1), strings)


@pytest.mark.parametrize("separator", [" ", "\t", ",", "; "])
def test_strings_are_read_with_their_labels(separator: str, tmp_path: Path) -> None:
    file = tmp_path / "strings.txt"
    file.write_text(f"label{separator}string\n1{separator}abab\nreject{separator}b\n+\n0{separator.strip()}\n", "utf-8")
    data = read_strings(file)
    assert data.vocabulary == ("^", "a", "b")
    assert data.lengths.tolist() == [5, 2, 1, 1]
    assert data.labels.tolist() == [1, 0, 1, 0]
    assert read_strings(file, "abc").vocabulary == ("^", "a", "b", "c")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("aa\nbb\n", "has no labels"),
        ("", "has no labels"),
        ("1 a\nx b\n", r"line 2: the label 'x' must be one of 1, \+"),
        ("1 a\n0 b c\n", "line 2: the string 'b c' contains a separator"),
        ("1 \n", "only empty strings"),
    ],
)
def test_wrong_lines_are_named(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "strings.txt").write_text(text, "utf-8")
    with pytest.raises(DataError, match=problem):
        read_strings(tmp_path / "strings.txt")


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
