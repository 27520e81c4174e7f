"""The Triton kernels compute what the reference does; here they are run by Triton's interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sttau.engine import Cell, Noise, Weights, run
from sttau.engine.recurrence import triton_plan
from tests.engine.agreement import Case, disagreement, small_cases

ROOT = Path(__file__).parents[3]
triton = pytest.importorskip("triton", reason="needs Triton")
triton_engine = pytest.importorskip("sttau.engine.recurrence.triton", reason="needs Triton")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU the kernels are compiled: see tests/gpu")


@pytest.mark.parametrize("case", small_cases(), ids=str)
def test_values_and_gradients_are_those_of_the_reference(case: Case) -> None:
    assert max(disagreement(case, "triton").values()) < 1e-4


@pytest.mark.parametrize(
    "case",
    [
        Case("lstm", "soft", 3, 5, time=11, ragged=True, peephole=True),
        Case("lstm", "soft", 3, 5, time=11, reverse=True, features=1, steps="last"),
        Case("gru", "hard", 3, 5, time=11, ragged=True, reverse=True, samples=2),
        Case("gru", "soft", 17, 5, time=11, ragged=True, tokens=True),
        Case("lstm", "soft", 17, 5, time=2),
        Case("gru", "soft", 17, 5, time=1, reverse=True),
    ],
    ids=str,
)
def test_processing_time_in_pieces_changes_nothing(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_engine, "_PIECE_VALUES", 1)
    assert max(disagreement(case, "triton").values()) < 1e-4


@pytest.mark.parametrize(
    "case",
    [
        Case("lstm", "soft", 19, 5, ragged=True, peephole=True, start=True, samples=2),
        Case("lstm", "soft", 19, 5, reverse=True, tokens=True),
        Case("lstm", "deterministic", 19, 5, ragged=True, steps="last"),
        Case("lstm", "hard", 19, 5, reverse=True, ragged=True, steps="last", samples=3),
        Case("gru", "soft", 19, 5, ragged=True, reverse=True, start=True),
        Case("gru", "hard", 19, 5, ragged=True, samples=2),
    ],
    ids=str,
)
@pytest.mark.parametrize("pieces", [1 << 19, 1])
def test_many_rows_step_by_step_are_those_of_the_reference(
    case: Case, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_plan, "MANY_ROWS", 1)
    monkeypatch.setattr(triton_engine, "_PIECE_VALUES", pieces)
    assert max(disagreement(case, "triton").values()) < 1e-4


@pytest.mark.parametrize(
    "case",
    [
        Case("lstm", "soft", 19, 5, batch=5, ragged=True, peephole=True),
        Case("lstm", "hard", 35, 5, batch=3, reverse=True, ragged=True, steps="last"),
        Case("gru", "soft", 19, 5, batch=3, samples=2, ragged=True, reverse=True),
    ],
    ids=str,
)
@pytest.mark.parametrize("tiles", [(2, 8, 0, 0), (4, 4, 16, 1)], ids=str)
def test_rows_that_share_a_program_are_those_of_the_reference(
    case: Case, tiles: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ((1024, triton_plan.Tiles(*tiles)),)  # several rows of a program, of which some do not exist
    monkeypatch.setattr(triton_plan, "TABLE", dict.fromkeys(triton_plan.TABLE, one))
    assert max(disagreement(case, "triton").values()) < 1e-4


@pytest.mark.parametrize("states", [17, 33, 64, 100, 128])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_many_states_are_those_of_the_reference(cell: Cell, states: int) -> None:
    assert max(disagreement(Case(cell, "soft", states, 9, ragged=True), "triton").values()) < 1e-4


@pytest.mark.parametrize(
    "case",
    [
        Case("lstm", "soft", 19, 5, ragged=True, reverse=True, peephole=True, samples=2),
        Case("gru", "hard", 19, 5, ragged=True, steps="last"),
    ],
    ids=str,
)
def test_states_read_in_loops_are_those_of_the_reference(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_plan, "TILED_STATES", 16)
    assert max(disagreement(case, "triton").values()) < 1e-4


def test_tokens_without_gradients_are_read_from_a_table_of_projected_vectors() -> None:
    table, tokens = torch.randn(4, 3), torch.randint(4, (2, 5))
    weights = Weights(
        torch.randn(28, 3), torch.randn(28, 7), None, None, torch.randn(3, 7), torch.tensor(1.0)
    )  # fmt: skip
    noise = Noise.of(torch.arange(2))
    with torch.no_grad():
        folded = run("lstm", tokens, weights, noise=noise, embedding=table, engine="triton")
        plain = run("lstm", table[tokens], weights, noise=noise, engine="reference")
    torch.testing.assert_close(folded.output, plain.output, rtol=1e-5, atol=1e-6)


def test_bfloat16_is_only_storage() -> None:
    torch.manual_seed(1)
    drawn = Weights(
        torch.randn(28, 3), torch.randn(28, 7), torch.randn(28), torch.randn(28), torch.randn(3, 7), torch.tensor(1.0)
    )
    weights = drawn.to(torch.bfloat16)
    x, noise = torch.randn(2, 40, 3).bfloat16(), Noise.of(torch.arange(2))
    ours = run("lstm", x, weights, noise=noise, engine="triton")
    reference = run("lstm", x, weights, noise=noise, engine="reference")
    assert ours.output.dtype == ours.transitions.dtype == torch.bfloat16
    torch.testing.assert_close(ours.output.float(), reference.output.float(), rtol=0.05, atol=0.05)


def test_kernels_of_many_states_compile_for_a_gpu_that_is_not_there() -> None:
    if not (Path(triton.__file__).parent / "backends/nvidia/bin/ptxas").exists():
        pytest.skip("needs the assembler that Triton brings")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "benchmarks.kernel_resources", "8,500,256,256", "32"]
    shown = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "forward_tiled" in shown.stdout
    assert "backward_tiled" in shown.stdout
