from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from automata.fa.dfa import DFA
from torch import Tensor

from sttau.automata import compare
from sttau.errors import AutomatonError
from sttau.languages import PA, random_pa, stochastic, tomita

EYE = torch.eye(2, dtype=torch.float64)
HALF = torch.full((2, 2), 0.5, dtype=torch.float64)


def test_strings_lists_of_symbols_and_positions_are_the_same() -> None:
    pa = stochastic(2)
    ids = torch.tensor([[0, 1, 1], [1, -7, 99]])  # values beyond the length are ignored
    given = pa.probability(["011", "1"])
    assert torch.equal(pa.probability([["0", "1", "1"], ["1"]]), given)
    assert torch.equal(pa.probability(ids, torch.tensor([3, 1])), given)


def test_symbols_may_have_several_characters() -> None:
    pa = PA(EYE[0], torch.stack([EYE, HALF]), EYE[1], ("stay", "toss"))
    assert pa.probability([["stay"], ["toss", "stay"]]).tolist() == [0, 0.5]
    with pytest.raises(ValueError, match="pass lists of symbols"):
        pa.probability(["stay"])


def test_an_empty_batch_and_the_empty_string_are_read() -> None:
    pa = stochastic(1)
    assert pa.probability([]).shape == (0,)
    assert pa.probability([""]).tolist() == [0]


def test_probability_is_the_sum_over_all_paths() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = torch.rand(2, 3, 3, dtype=torch.float64, generator=generator)
    pa = PA(torch.tensor([0.2, 0.3, 0.5]), rows / rows.sum(-1, keepdim=True), torch.tensor([0.1, 0.9, 0.4]), ("a", "b"))
    total = 0.0
    for path in product(range(3), repeat=4):
        chance = float(pa.initial[path[0]])
        for step, symbol in enumerate((0, 1, 1)):
            chance *= float(pa.matrices[symbol, path[step], path[step + 1]])
        total += chance * float(pa.output[path[-1]])
    assert float(pa.probability(["abb"])) == pytest.approx(total, abs=1e-14)


@pytest.mark.parametrize(("states", "symbols"), [(1, "a"), (5, "abc"), (3, "abcdefgh")])
def test_many_strings_are_read_as_one_by_one(states: int, symbols: str) -> None:
    pa = random_pa(states, symbols, seed=0)
    strings = [symbols[::-1] * n + symbols[:m] for n in range(4) for m in range(len(symbols))]
    alone = [float(pa.probability([string])) for string in strings]
    assert pa.probability(strings).tolist() == pytest.approx(alone, abs=1e-14)
    state = pa.initial
    for symbol in strings[-1]:
        state = state @ pa.matrices[symbols.index(symbol)]
    assert float(state @ pa.output) == pytest.approx(alone[-1], abs=1e-14)


def test_long_strings_keep_their_probability() -> None:
    pa = PA(EYE[0], torch.full((1, 2, 2), 0.5) * (1 + 1e-7), torch.ones(2), ("a",))  # float32 rounding
    assert float(pa.probability(["a" * 2000])) == pytest.approx(1, abs=1e-12)


def test_samples_accept_with_the_probability() -> None:
    pa, count = stochastic(1), 20000
    p = pa.probability(["0", "1", "01"])
    drawn = pa.sample(["0", "1", "01"], count, seed=3).double().mean(0)
    assert bool(((drawn - p).abs() < 4 * (p * (1 - p) / count).sqrt()).all())
    assert torch.equal(pa.sample(["01"], 50, seed=1), pa.sample(["01"], 50, seed=1))


@pytest.mark.parametrize("number", range(1, 8))
def test_a_dfa_is_converted_to_a_pa_and_back(number: int) -> None:
    pa = PA.from_dfa(tomita(number))
    strings = ["".join(s) for n in range(7) for s in product("01", repeat=n)]
    assert pa.probability(strings).tolist() == [float(tomita(number).accepts_input(s)) for s in strings]
    assert compare(pa.to_dfa(), tomita(number))


def test_missing_moves_lead_to_a_dead_state() -> None:
    partial = DFA(
        states={"p", "q"},
        input_symbols={"a", "b"},
        transitions={"p": {"a": "q"}, "q": {}},
        initial_state="p",
        final_states={"q"},
        allow_partial=True,
    )
    assert PA.from_dfa(partial).probability(["", "a", "b", "aa", "aba"]).tolist() == [0, 1, 0, 0, 0]


def test_a_pa_with_random_moves_is_not_a_dfa() -> None:
    with pytest.raises(ValueError, match="not deterministic: matrices"):
        stochastic(1).to_dfa()


def test_a_saved_pa_is_read_bit_for_bit(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    rows = torch.rand(3, 5, 5, generator=generator).softmax(-1)
    pa = PA(torch.full((5,), 0.2), rows, torch.rand(5, generator=generator), ("a", "ß", '"'))
    assert PA.load(pa.save(tmp_path / "deep/pa.json")) == pa
    assert PA.from_json(pa.to_json()) == pa
    assert hash(PA.from_json(pa.to_json())) == hash(pa)
    assert pa != stochastic(1)


def _changed(**changes: Any) -> str:
    """Text of a PA with some fields changed."""
    return json.dumps(json.loads(stochastic(1).to_json()) | changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not a PA"),
        ('{"format": "sttau.pa", "version": 9}', "format version 9"),
        ('{"format": "sttau.pa", "version": 1}', "lacks 'initial'"),
        (_changed(initial=["a"]), "the PA in .*initial"),
        (_changed(initial=[1e400, 0]), "the PA in .*NaN or infinity"),
        (_changed(matrices=[[[0.5, 0.5]]]), "the PA in"),
        (_changed(matrices={"a": 1}), "the PA in"),
        (_changed(output=10**400), "the PA in"),
        (_changed(alphabet=3), "the PA in"),
        (_changed(alphabet=[["a"]]), "the PA in"),
    ],
)
def test_other_json_is_rejected(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(AutomatonError, match=message):
        PA.from_json(text)
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(AutomatonError, match=r"mine\.json"):
        PA.load(tmp_path / "mine.json")


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_bytes(b"{\xff\xfe}")
    with pytest.raises(AutomatonError, match=r"mine\.json is not text in UTF-8"):
        PA.load(tmp_path / "mine.json")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"matrices": torch.ones(1, 2, 2)},
            r"symbol 'a'\) must be probabilities that sum to 1, but row 0",
        ),
        ({"matrices": torch.tensor([[[1.5, -0.5], [0, 1]]])}, "matrices"),
        ({"matrices": torch.full((1, 2, 2), math.nan)}, "matrices contains NaN"),
        ({"matrices": torch.eye(3)[None]}, r"matrices must have shape \(1, 2, 2\)"),
        ({"initial": torch.zeros(2)}, "initial must be probabilities that sum to 1, but it is"),
        ({"initial": torch.ones(1)}, r"initial must have shape \(2,\)"),
        ({"output": torch.tensor([0, 1.1])}, r"output must be probabilities in \[0, 1\]"),
        ({"output": torch.eye(2)}, r"output must be \(states,\)"),
        ({"alphabet": ()}, "alphabet is empty"),
        ({"alphabet": ("",)}, "alphabet must be distinct"),
        ({"alphabet": ("a", "a")}, "alphabet must be distinct"),
    ],
)
def test_invalid_values_are_rejected(change: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"initial": EYE[0], "matrices": EYE[None], "output": EYE[1], "alphabet": ("a",)}
    PA(**good)
    with pytest.raises(ValueError, match=message):
        PA(**(good | change))


def test_tensors_are_copied() -> None:
    given = EYE.clone()
    pa = PA(given[0], given[None], given[1], ("a",))
    given.fill_(7)
    assert pa.initial.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("strings", "lengths", "error", "message"),
    [
        (["2"], None, ValueError, "the symbol '2' in string 0"),
        ("01", None, TypeError, "list of strings"),
        (["0"], torch.tensor([1]), ValueError, "only be given with a tensor"),
        (torch.tensor([[2]]), None, ValueError, "0 … 1"),
        (torch.tensor([[1.0]]), None, TypeError, "must be integers"),
        (torch.tensor([[1]]), torch.tensor([2]), ValueError, "from 0 to 1"),
    ],
)
def test_unknown_symbols_and_wrong_shapes_are_rejected(
    strings: Any, lengths: Tensor | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        stochastic(1).probability(strings, lengths)
