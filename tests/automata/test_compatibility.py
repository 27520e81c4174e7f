"""Files of automata and compiled models written by earlier versions load and give the same values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import sttau
from sttau.automata import PA, CompiledModel, compare, from_json, stochastic, to_json, tomita

V01 = Path(__file__).parents[1] / "artefacts/v0.1"


def test_a_compiled_model_of_version_0_1_predicts_what_it_predicted() -> None:
    expected = json.loads((V01 / "expected.json").read_text("utf-8"))["compiled"]
    compiled = CompiledModel.load(V01 / "compiled.safetensors")
    torch.testing.assert_close(
        compiled.probabilities(["0120", "2"]), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12
    )


def test_a_dfa_of_version_0_1_is_tomita_3() -> None:
    text = (V01 / "dfa.json").read_text("utf-8")
    assert compare(from_json(text), tomita(3))
    assert json.loads(to_json(from_json(text))) == json.loads(text)


def test_a_pa_of_version_0_1_has_its_values() -> None:
    text = (V01 / "pa.json").read_text("utf-8")
    assert PA.load(V01 / "pa.json") == from_json(text) == stochastic(2)
    assert json.loads(from_json(text).to_json()) == json.loads(text)  # type: ignore[union-attr]


def test_load_says_what_a_compiled_file_is() -> None:
    with pytest.raises(ValueError, match=r"is not a model: it is a compiled model; .*CompiledModel\.load"):
        sttau.load(V01 / "compiled.safetensors")


def test_a_file_of_a_later_version_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"format version 2; .* Update sttau"):
        from_json('{"format": "sttau.pa", "version": 2}')
