"""The Triton engine on a real GPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sttau import STTauGRU, STTauLSTM
from sttau.engine import Cell, Noise, Weights, run, using
from sttau.engine.noise.reference import uniform
from tests.engine.agreement import Case, disagreement, large_cases, small_cases

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("case", small_cases() + large_cases(), ids=str)
def test_values_and_gradients_are_those_of_the_reference(case: Case) -> None:
    assert max(disagreement(case, "triton", device="cuda").values()) < 1e-4


@pytest.mark.parametrize("case", large_cases()[::4], ids=str)
def test_working_through_time_in_pieces_changes_nothing(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sttau.engine.recurrence.triton._PIECE_VALUES", 1)
    assert max(disagreement(case, "triton", device="cuda").values()) < 1e-4


@pytest.mark.parametrize("case", [case for case in large_cases() if case.states > 16], ids=str)
def test_many_rows_step_by_step_are_those_of_the_reference(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sttau.engine.recurrence.triton_plan.MANY_ROWS", 1)
    assert max(disagreement(case, "triton", device="cuda").values()) < 1e-4


@pytest.mark.parametrize(
    ("cell", "states", "batch"),
    [("lstm", 17, 5), ("lstm", 64, 300), ("lstm", 128, 5), ("gru", 33, 300), ("gru", 100, 5)],
)
def test_many_states_are_those_of_the_reference(cell: Cell, states: int, batch: int) -> None:
    case = Case(cell, "soft", states, 128, time=21, batch=batch, ragged=True, steps="last")
    assert max(disagreement(case, "triton", device="cuda").values()) < 1e-4


def test_more_states_than_are_unrolled_are_those_of_the_reference() -> None:
    case = Case("lstm", "soft", 150, 64, time=21, batch=5, ragged=True)
    assert max(disagreement(case, "triton", device="cuda").values()) < 1e-4


def _layer(kind: type[STTauLSTM] | type[STTauGRU] = STTauLSTM, **options: object) -> STTauLSTM | STTauGRU:
    return kind(6, 100, 5, batch_first=True, device="cuda", **options)  # type: ignore[arg-type]


def _step(layer: nn.Module, x: Tensor, noise: Noise) -> list[Tensor]:
    layer.zero_grad()
    output = layer(x, noise=noise)[0]
    output.square().mean().backward()
    return [output.detach(), *(p.grad.clone() for p in layer.parameters() if p.grad is not None)]


def test_the_same_twice_is_the_same_to_the_bit() -> None:
    layer, x = _layer(), torch.randn(64, 300, 6, device="cuda")
    noise = Noise.of(torch.arange(64, device="cuda"))
    once, twice = _step(layer, x, noise), _step(layer, x, noise)
    assert all(torch.equal(a, b) for a, b in zip(once, twice, strict=True))


def test_alpha_is_that_of_the_cpu_and_of_any_split_of_the_batch() -> None:
    layer, x = _layer(), torch.randn(50, 40, 6, device="cuda")
    names = torch.arange(50, device="cuda")
    with torch.no_grad():
        whole = layer.transitions(x, noise=Noise.of(names, samples=3))
        part = layer.transitions(x[7:9], noise=Noise.of(names[7:9], samples=3))
        here = layer.cpu().transitions(x.cpu(), noise=Noise.of(names.cpu(), samples=3))
    rows = torch.tensor([7, 8, 57, 58, 107, 108])
    torch.testing.assert_close(part, whole[rows.cuda()], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(here, whole.cpu(), rtol=1e-3, atol=1e-4)


def test_extremes_stay_finite() -> None:
    weights = Weights(
        *(torch.randn(*shape, device="cuda") for shape in ((64, 3), (64, 16), (64,), (64,))),
        1e4 * torch.randn(3, 16, device="cuda"),
        torch.tensor(1e-3, device="cuda"),
    )  # type: ignore[call-arg]  # fmt: skip
    weights = Weights(*(None if w is None else w.requires_grad_() for w in weights))  # type: ignore[arg-type]
    x, noise = torch.randn(2, 20_000, 3, device="cuda"), Noise.of(torch.arange(2, device="cuda"))
    result = run("lstm", x, weights, noise=noise, engine="triton")
    result.output.sum().backward()
    assert bool(result.output.isfinite().all())
    assert all(bool(w.grad.isfinite().all()) for w in weights if w is not None and w.grad is not None)


def test_the_rarest_draws_are_right() -> None:
    """γ is large where u is near 1; a fast logarithm loses all its digits there."""
    noise = Noise.of(torch.arange(200_000, device="cuda"))
    d, k = 4, 4
    nothing = torch.zeros(4 * d, 1, device="cuda"), torch.zeros(4 * d, d, device="cuda")
    weights = Weights(*nothing, None, None, torch.zeros(k, d, device="cuda"), torch.tensor(8.0, device="cuda"))
    alpha = run("lstm", torch.zeros(200_000, 1, 1, device="cuda"), weights, noise=noise, engine="triton").transitions
    gumbel = noise.gumbel(0, 1, k, torch.float64)
    assert float(gumbel.max()) > 12
    torch.testing.assert_close(alpha.double(), (gumbel / 8).softmax(-1), rtol=1e-5, atol=1e-6)
    assert float(uniform(torch.tensor(2**32 - 1))) < 1


@pytest.mark.parametrize("kind", [STTauLSTM, STTauGRU])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_only_storage(kind: type[STTauLSTM] | type[STTauGRU], dtype: torch.dtype) -> None:
    layer = _layer(kind).to(dtype)
    x, noise = torch.randn(5, 60, 6, device="cuda", dtype=dtype), Noise.of(torch.arange(5, device="cuda"))
    ours = _step(layer, x, noise)
    with using("reference"):
        true = _step(layer, x, noise)
    for a, b in zip(ours, true, strict=True):
        assert float((a - b).float().norm()) < 0.05 * float(b.float().norm()) + 1e-6


def test_autocast_trains_in_half_precision() -> None:
    layer, x = _layer(), torch.randn(5, 60, 6, device="cuda")
    noise = Noise.of(torch.arange(5, device="cuda"))
    true = _step(layer, x, noise)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        ours = _step(layer, x, noise)
    assert ours[0].dtype == torch.bfloat16
    for a, b in zip(ours, true, strict=True):
        assert float((a.float() - b).norm()) < 0.05 * float(b.norm()) + 1e-6


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")  # the compiler itself uses it
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores")  # are not wanted: results are compared
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"readout": "cell"}])
def test_compiled_is_eager(options: dict[str, Any]) -> None:
    layer, x = _layer(**options), torch.randn(5, 30, 6, device="cuda")
    noise = Noise.of(torch.arange(5, device="cuda"))
    compiled = torch.compile(lambda x, noise: layer(x, noise=noise)[0], fullgraph=True)
    eager = layer(x, noise=noise)[0]
    eager.square().mean().backward()
    true = [p.grad.clone() for p in layer.parameters() if p.grad is not None]
    layer.zero_grad()
    output = compiled(x, noise)
    output.square().mean().backward()
    torch.testing.assert_close(output, eager, rtol=1e-4, atol=1e-5)
    for p, gradient in zip((p for p in layer.parameters() if p.grad is not None), true, strict=True):
        torch.testing.assert_close(p.grad, gradient, rtol=1e-3, atol=1e-5)


def test_a_training_step_can_be_captured_and_draws_anew_at_every_replay() -> None:
    layer, x = _layer(), torch.randn(8, 50, 6, device="cuda")

    def step() -> Tensor:
        layer.zero_grad(set_to_none=True)
        output = layer.features(x, steps="last")
        output.square().mean().backward()
        return output

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = step()
    seen = []
    for _ in range(3):
        graph.replay()
        seen.append((output.clone(), layer.states_l0.grad.clone()))  # type: ignore[union-attr, operator]
    assert all(bool(value.isfinite().all()) for pair in seen for value in pair)
    assert not torch.equal(seen[0][0], seen[1][0])
    assert not torch.equal(seen[1][1], seen[2][1])


def test_training_keeps_little() -> None:
    """α and c, k + d floats per step, not the 5 d and more of an LSTM."""

    def peak(layer: nn.Module) -> int:
        x = torch.randn(400, 16, 64, device="cuda")
        for _ in range(2):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            layer.zero_grad(set_to_none=True)
            layer(x)[0][-1].sum().backward()
        return torch.cuda.max_memory_allocated() - before

    assert peak(STTauLSTM(64, 256, 5, readout="cell", device="cuda")) < 0.6 * peak(nn.LSTM(64, 256, device="cuda"))
