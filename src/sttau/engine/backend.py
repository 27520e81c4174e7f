"""Which engine runs a recurrence: chosen by device, number type, size and what is installed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import Tensor

from sttau.engine import factored, reference
from sttau.engine.noise import Noise
from sttau.engine.reference import Cell, Mode, Readout, Run, Steps, Weights

Engine = Literal["reference", "cpu", "triton"]

Function = TypeVar("Function", bound=Callable[..., Any])

_log = logging.getLogger(__name__)
_forced: ContextVar[Engine | None] = ContextVar("engine", default=None)


@contextmanager
def using(engine: Engine) -> Iterator[None]:
    """Run everything inside on one engine, or fail.

    Example:
        >>> import sttau
        >>> layer = sttau.STTauLSTM(3, 8, num_states=2)
        >>> x, noise = torch.randn(5, 1, 3), Noise.of(torch.arange(1))
        >>> with using("reference"):
        ...     slow, _ = layer(x, noise=noise)
        >>> torch.allclose(slow, layer(x, noise=noise)[0], atol=1e-5)
        True
    """
    if engine not in get_args(Engine):
        raise ValueError(f"engine must be one of {', '.join(map(repr, get_args(Engine)))}, got {engine!r}")
    token = _forced.set(engine)
    try:
        yield
    finally:
        _forced.reset(token)


def constant(function: Function) -> Function:
    """Let a compiler ask a function while it traces, and not trace the function.

    This is what ``torch.compiler.assume_constant_result`` does, without the second that loading Dynamo takes.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@constant
def forced() -> Engine | None:
    """The engine that :func:`using` asks for here."""
    return _forced.get()


def run(
    cell: Cell,
    inputs: Tensor,
    weights: Weights,
    hidden: Tensor | None = None,
    memory: Tensor | None = None,
    *,
    noise: Noise | None = None,
    mode: Mode = "soft",
    readout: Readout = "state",
    lengths: Tensor | None = None,
    reverse: bool = False,
    steps: Steps = "all",
    embedding: Tensor | None = None,
    final: bool = True,
    engine: Engine | None = None,
) -> Run:
    """Run one layer in one direction over a batch; see :func:`sttau.engine.reference.run` for the arguments.

    ``final=False`` says that nobody will read ``Run.hidden``. ``engine`` forces one of them; without it the fastest
    that can do the work is taken.
    """
    device, dtype = weights.input.device, weights.input.dtype
    states, size = weights.states.shape
    name = choose(device, dtype, states, size, engine)
    mixed = torch.is_autocast_enabled(device.type)
    with torch.autocast(device.type, enabled=False) if mixed else nullcontext():
        if name == "reference":
            return reference.run(
                cell, inputs, weights, hidden, memory, noise=noise, mode=mode, readout=readout, lengths=lengths,
                reverse=reverse, steps=steps, embedding=embedding,
            )  # fmt: skip
        return factored.run(
            name, cell, inputs, weights, hidden, memory, noise=noise, mode=mode, readout=readout, lengths=lengths,
            reverse=reverse, steps=steps, embedding=embedding, final=final,
        )  # fmt: skip


@constant
def choose(device: torch.device, dtype: torch.dtype, states: int, size: int, engine: Engine | None = None) -> Engine:
    """Return the engine for a layer of this size; where a slower one must do, say so once in the log.

    Example:
        >>> choose(torch.device("cpu"), torch.float32, states=5, size=128)
        'cpu'
    """
    engine = engine or forced()
    wanted: Engine = engine or ("triton" if device.type == "cuda" else "cpu")
    if wanted == "reference":
        return wanted
    obstacle = _obstacle(wanted, device.type, dtype, states, size)
    if obstacle is None:
        return wanted
    if engine is not None:
        raise ValueError(f"engine={engine!r} cannot run this layer: {obstacle}")
    say_once("the recurrence runs step by step in PyTorch, which is slow", obstacle)
    return "reference"


@cache
def say_once(what: str, why: str) -> None:
    """Log that a slower way is taken, the first time it is."""
    _log.warning("%s: %s", what, why)


def _obstacle(engine: Engine, device: str, dtype: torch.dtype, states: int, size: int) -> str | None:
    """Why an engine cannot do the work; None where it can."""
    absent = missing(engine)
    if absent:
        return absent
    if engine == "cpu":
        return None if device == "cpu" else f"the cpu engine has no kernels for device type {device!r}"
    if device != "cuda" and not interpreted():
        return f"the triton engine needs a CUDA device, not {device!r}"
    if dtype == torch.float64:
        return "the triton engine keeps its state in float32; float64 layers run on a CPU or on the reference"
    if size > 4096 or states > 1024:
        return f"the triton engine holds layers of up to 4096 units and 1024 states, not {size} and {states}"
    return None


@constant
@cache
def missing(engine: Engine) -> str | None:
    """Why an engine cannot be loaded; None where it can."""
    try:
        import_module(f"sttau.engine.{engine}")
    except ImportError as error:
        return f"the {engine} engine cannot be loaded ({error})"
    if engine == "triton":
        from triton import __version__

        if tuple(int(part) for part in __version__.split(".")[:2]) < (3, 4):
            return f"the triton engine needs Triton 3.4 or newer (PyTorch 2.8), not {__version__}"
    return None


@constant
def interpreted() -> bool:
    """Whether Triton's kernels are run by its interpreter (``TRITON_INTERPRET=1``), which works anywhere."""
    from triton import knobs

    return bool(knobs.runtime.interpret)
