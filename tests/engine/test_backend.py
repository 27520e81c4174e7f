"""The right engine is chosen, a slower one never silently, and a forced one never another."""

from __future__ import annotations

import logging

import pytest
import torch

import sttau
from sttau.engine import Noise, choose, dispatch, reference, using

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_a_cpu_layer_runs_on_the_cpu_engine() -> None:
    assert choose(CPU, torch.float32, 5, 100) == "cpu"
    assert choose(CPU, torch.float64, 5, 100) == "cpu"


def test_a_gpu_layer_runs_on_the_triton_engine_unless_it_is_in_float64(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("triton")
    assert choose(CUDA, torch.bfloat16, 128, 1024) == "triton"
    dispatch.say_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert choose(CUDA, torch.float64, 5, 100) == "reference"
        assert choose(CUDA, torch.float64, 5, 100) == "reference"
    assert [record.message for record in caplog.records] == [
        "the recurrence runs step by step in PyTorch, which is slow: the triton engine keeps its state in float32; "
        "float64 layers run on a CPU or on the reference"
    ]


def test_what_is_not_installed_is_said_once_and_the_reference_does_the_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(name: str) -> None:
        raise ImportError("No module named 'numba'")

    dispatch.missing.cache_clear()
    dispatch.say_once.cache_clear()
    monkeypatch.setattr(dispatch, "import_module", missing)
    try:
        layer = sttau.STTauLSTM(3, 8, 2)
        for _ in range(3):
            layer(torch.randn(4, 1, 3))
        assert len(caplog.records) == 1
        assert "No module named 'numba'" in caplog.text
        with pytest.raises(ValueError, match="engine='cpu' cannot run this layer"), using("cpu"):
            layer(torch.randn(4, 1, 3))
    finally:
        dispatch.missing.cache_clear()
        dispatch.say_once.cache_clear()


def test_a_forced_engine_runs_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = sttau.STTauGRU(3, 8, 2), torch.randn(4, 1, 3)
    monkeypatch.setattr(reference, "run", lambda *_, **__: pytest.fail("the reference was asked"))
    layer(x)
    with pytest.raises(pytest.fail.Exception, match="the reference was asked"), using("reference"):
        layer(x)
    layer(x)
    with pytest.raises(ValueError, match="one of 'reference', 'cpu', 'triton', got 'fast'"), using("fast"):  # type: ignore[arg-type]
        layer(x)


def test_an_engine_that_has_no_kernels_for_a_device_says_so() -> None:
    with pytest.raises(ValueError, match="the cpu engine has no kernels for device type 'cuda'"):
        choose(CUDA, torch.float32, 2, 8, engine="cpu")
    pytest.importorskip("triton")
    with pytest.raises(ValueError, match="up to 4096 units and 1024 states, not 5000 and 2"):
        choose(CUDA, torch.float32, 2, 5000, engine="triton")


def test_noise_is_asked_for() -> None:
    weights = sttau.STTauLSTM(3, 8, 2)._weights(0)
    with pytest.raises(ValueError, match="needs noise; pass noise="):
        sttau.engine.run("lstm", torch.randn(2, 4, 3), weights)
    sttau.engine.run("lstm", torch.randn(2, 4, 3), weights, mode="deterministic")
    sttau.engine.run("lstm", torch.randn(2, 4, 3), weights, noise=Noise.of(torch.arange(2)))
