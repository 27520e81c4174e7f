"""The choice of an engine: defaults, forced engines, limits, and what is logged."""

from __future__ import annotations

import logging
from typing import Any, get_args

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import sttau
from sttau.engine import Noise, backend, choose, using
from sttau.engine.backend import Operator
from sttau.engine.recurrence import reference
from sttau.layers import FiniteStateRNN

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_a_cpu_layer_runs_on_the_cpu_engine() -> None:
    assert choose("recurrence", CPU, torch.float32, states=5, size=100) == "cpu"
    assert choose("recurrence", CPU, torch.float64, states=5, size=100) == "cpu"


def test_a_gpu_layer_runs_on_the_triton_engine_unless_it_is_in_float64(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("triton")
    assert choose("recurrence", CUDA, torch.bfloat16, states=128, size=1024) == "triton"
    backend.warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert choose("recurrence", CUDA, torch.float64, states=5, size=100) == "reference"
        assert choose("recurrence", CUDA, torch.float64, states=5, size=100) == "reference"
    assert [record.message for record in caplog.records] == [
        "the recurrence runs step by step in PyTorch, which is slow: the triton engine computes in float32, not "
        "float64; float64 layers run on a CPU or on the reference"
    ]


def test_a_missing_package_is_logged_once_and_the_reference_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(name: str) -> None:
        raise ImportError("No module named 'numba'")

    backend.missing.cache_clear()
    backend.warn_once.cache_clear()
    monkeypatch.setattr(backend, "import_module", missing)
    try:
        layer = sttau.STTauLSTM(3, 8, 2)
        for _ in range(3):
            layer(torch.randn(4, 1, 3))
        assert len(caplog.records) == 1
        assert "No module named 'numba'" in caplog.text
        with pytest.raises(ValueError, match="engine='cpu' cannot run this layer"), using("cpu"):
            layer(torch.randn(4, 1, 3))
    finally:
        backend.missing.cache_clear()
        backend.warn_once.cache_clear()


def test_a_forced_engine_runs_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = sttau.STTauGRU(3, 8, 2), torch.randn(4, 1, 3)
    monkeypatch.setattr(reference, "run", lambda *_, **__: pytest.fail("the reference was called"))
    layer(x)
    with pytest.raises(pytest.fail.Exception, match="the reference was called"), using("reference"):
        layer(x)
    layer(x)
    with pytest.raises(ValueError, match="one of 'reference', 'cpu', 'triton', got 'fast'"), using("fast"):  # type: ignore[arg-type]
        layer(x)


def test_an_engine_without_kernels_for_a_device_raises() -> None:
    with pytest.raises(ValueError, match="the cpu engine has no kernels for device type 'cuda'"):
        choose("recurrence", CUDA, torch.float32, states=2, size=8, engine="cpu")
    pytest.importorskip("triton")
    with pytest.raises(ValueError, match="up to 4096 units and 1024 states, not 5000 and 2"):
        choose("recurrence", CUDA, torch.float32, states=2, size=5000, engine="triton")


FLOAT32, FLOAT64, HALF = torch.float32, torch.float64, torch.float16


@pytest.mark.parametrize(
    ("operator", "device", "dtype", "options", "expected"),
    [
        ("recurrence", CPU, torch.bfloat16, {"size": 10**5, "states": 10**4}, "cpu"),
        ("recurrence", CUDA, HALF, {"size": 4096, "states": 1024}, "triton"),
        ("recurrence", CUDA, FLOAT32, {"size": 4097}, "reference"),
        ("recurrence", CUDA, FLOAT32, {"states": 1025}, "reference"),
        ("recurrence", torch.device("meta"), FLOAT32, {}, "reference"),
        ("transition_rows", CPU, FLOAT32, {}, "cpu"),
        ("transition_rows", CPU, FLOAT64, {"traced": True}, "reference"),
        ("transition_rows", CUDA, torch.bfloat16, {}, "triton"),
        ("transition_rows", CUDA, FLOAT64, {}, "reference"),
        ("transition_rows", CUDA, FLOAT32, {"obstacle": "known to the caller"}, "reference"),
        ("state_distribution", CPU, FLOAT32, {"states": 200}, "cpu"),
        ("state_distribution", CUDA, FLOAT32, {"states": 128}, "triton"),
        ("state_distribution", CUDA, FLOAT32, {"states": 129}, "reference"),
        ("masked", CPU, FLOAT64, {"size": 10**5}, "cpu"),
        ("masked", CPU, FLOAT32, {"traced": True}, "stepwise"),
        ("masked", CUDA, FLOAT32, {"size": 512, "traced": True}, "triton"),
        ("masked", CUDA, FLOAT32, {"size": 513}, "stepwise"),
        ("masked", CUDA, HALF, {}, "stepwise"),
        ("stacked", CUDA, FLOAT32, {}, "triton"),
        ("stacked", CUDA, FLOAT64, {}, "reference"),
        ("noise", CPU, FLOAT32, {}, "reference"),
        ("noise", CUDA, FLOAT64, {}, "triton"),
        ("noise", CUDA, HALF, {}, "reference"),
        ("noise", CUDA, FLOAT32, {"traced": True}, "reference"),
    ],
)
def test_the_default_engine_of_an_operator(
    operator: Operator, device: torch.device, dtype: torch.dtype, options: dict[str, Any], expected: str
) -> None:
    pytest.importorskip("triton")
    assert choose(operator, device, dtype, **options) == expected


@pytest.mark.parametrize("interpreted", [False, True])
def test_only_stacked_networks_use_tritons_interpreter_by_default(
    interpreted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("triton")
    monkeypatch.setattr(backend, "interpreted", lambda: interpreted)
    on_cpu = {operator: choose(operator, CPU, FLOAT32) for operator in get_args(Operator)}
    assert [operator for operator, engine in on_cpu.items() if engine == "triton"] == ["stacked"] * interpreted


def test_using_applies_to_recurrences_and_path_sums_alone() -> None:
    pytest.importorskip("triton")
    with using("reference"):
        chosen = {operator: choose(operator, CUDA, FLOAT32) for operator in get_args(Operator)}
    assert {operator for operator, engine in chosen.items() if engine == "triton"} == {"stacked", "noise"}
    with using("cpu"):
        assert choose("transition_rows", CPU, FLOAT32) == "cpu"
        with pytest.raises(ValueError, match="the cpu engine has no kernels for device type 'cuda'"):
            choose("masked", CUDA, FLOAT32)


@pytest.mark.parametrize("operator", ["stacked", "noise"])
def test_operators_without_a_slow_fallback_log_nothing(operator: Operator, caplog: pytest.LogCaptureFixture) -> None:
    backend.warn_once.cache_clear()
    assert choose(operator, CUDA, HALF) == "reference"
    assert not caplog.records


def test_every_row_of_the_table_names_a_module() -> None:
    pytest.importorskip("triton")
    assert [backend.missing(*row) for row in backend.LIMITS] == [None] * len(backend.LIMITS)


def test_noise_is_required() -> None:
    weights = sttau.STTauLSTM(3, 8, 2)._weights(0)
    with pytest.raises(ValueError, match="needs noise; pass noise="):
        sttau.engine.run("lstm", torch.randn(2, 4, 3), weights)
    sttau.engine.run("lstm", torch.randn(2, 4, 3), weights, mode="deterministic")
    sttau.engine.run("lstm", torch.randn(2, 4, 3), weights, noise=Noise.of(torch.arange(2)))


@pytest.mark.parametrize("kind", [sttau.STTauGRU, sttau.STTauLSTM, sttau.layers.VariationalDropoutLSTM])
@pytest.mark.parametrize("before", [False, True], ids=["fake first", "real first"])
def test_constants_are_not_shared_between_real_and_fake_tensors(kind: Any, before: bool) -> None:
    batch = 50 + 2 * before  # a size of which no other test has made constants

    def run() -> torch.Size:
        layer = kind(3, 8, 4) if issubclass(kind, FiniteStateRNN) else kind(3, 8)
        return layer(torch.randn(5, batch, 3))[0].shape  # type: ignore[no-any-return]

    if before:
        run()
    with FakeTensorMode(), using("reference"):
        assert run() == (5, batch, 8)
    assert run() == (5, batch, 8)
