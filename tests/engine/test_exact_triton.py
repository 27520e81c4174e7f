"""The exact engine's Triton kernels, here run by Triton's interpreter, give the reference's values and gradients."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sttau.engine import Weights, exact

Errors = dict[str, dict[str, float]]

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")


@pytest.fixture(scope="module")
def errors() -> Errors:
    """Of all comparisons, made in a process of their own."""
    script = Path(__file__).with_name("interpreted.py")
    run = subprocess.run(
        [sys.executable, script], env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    found: Errors = json.loads(run.stdout)
    return found


@needs_triton
@pytest.mark.parametrize("what", ["rows", "scan"])
def test_values_and_gradients_are_those_of_the_reference(what: str, errors: Errors) -> None:
    cases = {name: worst for name, worst in errors.items() if name.startswith(what)}
    assert len(cases) >= 5
    assert {name: worst for name, worst in cases.items() if not max(worst.values()) < 1e-5} == {}


@needs_triton
def test_the_operators_keep_the_contract_of_torch_library(errors: Errors) -> None:
    cases = {name: told for name, told in errors.items() if name.startswith("operator")}
    assert len(cases) == 2
    assert [failure for told in cases.values() for failure, failed in told.items() if failed] == []


def test_on_a_cpu_pytorch_does_the_work_and_a_wrong_engine_is_refused() -> None:
    first, matrices = torch.full((1, 2), 0.5), torch.full((1, 3, 2, 2), 0.5)
    default = exact.state_distribution(first, matrices)
    assert torch.equal(default, exact.state_distribution(first, matrices, engine="reference"))
    with pytest.raises(ValueError, match="engine must be one of 'reference', 'triton', got 'cpu'"):
        exact.state_distribution(first, matrices, engine="cpu")  # type: ignore[arg-type]


@needs_triton
def test_what_the_kernels_cannot_do_is_said() -> None:
    many, matrices = torch.full((1, 33), 1 / 33), torch.full((1, 3, 33, 33), 1 / 33)
    with pytest.raises(ValueError, match="at most 32 states, not 33"):
        exact.state_distribution(many, matrices, engine="triton")
    with pytest.raises(ValueError, match="needs a CUDA device, not 'cpu'"):
        exact.state_distribution(many[:, :2], matrices[..., :2, :2], engine="triton")
    weights = Weights(torch.ones(3, 1), torch.ones(3, 1), None, None, torch.ones(2, 1), torch.tensor(1.0))
    with pytest.raises(ValueError, match="float32, not float64"):
        exact.transition_matrices(torch.ones(4, 1, dtype=torch.float64), weights.to(torch.float64), engine="triton")
