"""The choice of an engine, for every operator: by device, dtype, size and installed packages.

``LIMITS`` lists what the kernels of each operator can compute on each engine, ``_RULES`` what happens by default and
where they cannot. Every operator has a reference in plain PyTorch, which runs anywhere. A new engine is a row here and
a file in the operator's folder.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args

import torch

Engine = Literal["reference", "cpu", "triton"]
#: An engine, or ``stepwise``: an operator's own backward pass around steps of plain PyTorch.
Choice = Literal["reference", "cpu", "triton", "stepwise"]
Operator = Literal["recurrence", "transition_rows", "state_distribution", "masked", "stacked", "noise"]

Function = TypeVar("Function", bound=Callable[..., Any])

_log = logging.getLogger(__name__)
_forced: ContextVar[Engine | None] = ContextVar("engine", default=None)


class Limits(NamedTuple):
    """What the kernels of an operator can compute on an engine."""

    module: str  # relative to ``sttau.engine``
    device: str  # device type; Triton's interpreter lifts this limit
    dtypes: tuple[torch.dtype, ...]
    size: int | None = None  # largest number of hidden units
    states: int | None = None  # largest number of states
    traceable: bool = True  # whether ``torch.compile`` can trace the call
    advice: str = ""  # appended to the message about a dtype


class _Rule(NamedTuple):
    """How an operator chooses."""

    elsewhere: Engine  # engine that is tried on other devices than CUDA
    fallback: Literal["reference", "stepwise"]
    warning: str | None = None  # logged once where the fallback is taken
    follows_using: bool = True  # whether :func:`using` applies


_FLOAT32 = (torch.float32,)
_DOUBLE = (torch.float32, torch.float64)
_MIXED = (torch.float16, torch.bfloat16, torch.float32)
_ANY = (*_MIXED, torch.float64)

LIMITS: dict[tuple[Operator, Engine], Limits] = {
    ("recurrence", "cpu"): Limits("recurrence.cpu", "cpu", _ANY),
    ("recurrence", "triton"): Limits(
        "recurrence.triton", "cuda", _MIXED, size=4096, states=1024,
        advice="; float64 layers run on a CPU or on the reference",
    ),
    ("transition_rows", "cpu"): Limits("path_sum.cpu", "cpu", _DOUBLE, traceable=False),
    ("transition_rows", "triton"): Limits("path_sum.triton_rows", "cuda", _MIXED),
    ("state_distribution", "cpu"): Limits("path_sum.cpu", "cpu", _DOUBLE, traceable=False),
    ("state_distribution", "triton"): Limits("path_sum.triton_scan", "cuda", _MIXED, states=128),
    ("masked", "cpu"): Limits("masked.cpu", "cpu", _ANY, traceable=False),
    ("masked", "triton"): Limits("masked.triton", "cuda", _FLOAT32, size=512),
    ("stacked", "triton"): Limits("stacked.triton", "cuda", _FLOAT32),
    ("noise", "triton"): Limits("noise.triton", "cuda", _DOUBLE, traceable=False),
}  # fmt: skip

_PATH_SUM = _Rule("cpu", "reference", "the path sum runs in PyTorch, not on the kernels of engine {engine!r}")
_RULES: dict[Operator, _Rule] = {
    "recurrence": _Rule("cpu", "reference", "the recurrence runs step by step in PyTorch, which is slow"),
    "transition_rows": _PATH_SUM,
    "state_distribution": _PATH_SUM,
    "masked": _Rule(
        "cpu", "stepwise", "variational dropout runs step by step, not on the kernels of engine {engine!r}"
    ),
    "stacked": _Rule("triton", "reference", follows_using=False),
    "noise": _Rule("reference", "reference", follows_using=False),
}


@contextmanager
def using(engine: Engine) -> Iterator[None]:
    """Run every recurrence and path sum inside on one engine, or fail.

    Sampling noise, which is the same on every engine, and stacked networks are not affected.

    Example:
        >>> import sttau
        >>> from sttau.engine import Noise
        >>> layer = sttau.STTauLSTM(3, 8, num_states=2)
        >>> x, noise = torch.randn(5, 1, 3), Noise.of(torch.arange(1))
        >>> with using("reference"):
        ...     slow, _ = layer(x, noise=noise)
        >>> torch.allclose(slow, layer(x, noise=noise)[0], atol=1e-5)
        True
    """
    _check_name(engine, get_args(Engine))
    token = _forced.set(engine)
    try:
        yield
    finally:
        _forced.reset(token)


def forced() -> Engine | None:
    """The engine that the enclosing :func:`using` selects."""
    return _forced.get()


def is_mixed(device: torch.device) -> bool:
    """Whether autocast is enabled for a device; never for the meta device, which knows no autocast."""
    return device.type != "meta" and torch.is_autocast_enabled(device.type)


def full_precision(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context without autocast; on the meta device, which knows none, one that does nothing."""
    return torch.autocast(device.type, enabled=False) if is_mixed(device) else nullcontext()


def is_transformed(device: torch.device) -> bool:
    """Whether only plain PyTorch can be run: on the meta device, or inside a transform of ``torch.func``."""
    return device.type == "meta" or torch._C._are_functorch_transforms_active()


def constant(function: Function) -> Function:
    """Let a compiler evaluate a function while it traces, instead of tracing it.

    This is what ``torch.compiler.assume_constant_result`` does, without the second that loading Dynamo takes.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


@constant
def choose(
    operator: Operator,
    device: torch.device,
    dtype: torch.dtype,
    *,
    size: int = 1,
    states: int = 1,
    traced: bool = False,
    engine: Engine | None = None,
    obstacle: str | None = None,
) -> Choice:
    """Choose the engine of an operator; where a fallback is taken, log the reason once.

    Args:
        operator: Name of the operator.
        device: Device of its tensors.
        dtype: Their dtype.
        size: Number of hidden units.
        states: Number of states.
        traced: Whether a compiler is tracing the call.
        engine: Engine to use instead of the default; the call fails where it cannot run.
        obstacle: Reason, known to the caller, why no kernel can run.

    Example:
        >>> choose("recurrence", torch.device("cpu"), torch.float32, size=128, states=5)
        'cpu'
    """
    rule, available = _RULES[operator], engines(operator)
    if engine is not None:
        _check_name(engine, available)
    elif rule.follows_using:
        engine = forced()
        if engine not in (None, *available):
            engine = "reference"
    wanted: Engine = engine or ("triton" if device.type == "cuda" else rule.elsewhere)
    if wanted == "reference":
        return wanted
    obstacle = obstacle or _obstacle(operator, wanted, device.type, dtype, size, states, traced)
    if obstacle is None:
        return wanted
    if engine is not None:
        raise ValueError(f"engine={engine!r} cannot run this layer: {obstacle}")
    if rule.warning is not None:
        warn_once(rule.warning.format(engine=wanted), obstacle)
    return rule.fallback


@cache
def engines(operator: Operator) -> tuple[Engine, ...]:
    """The engines of an operator.

    Example:
        >>> engines("masked"), engines("stacked")
        (('reference', 'cpu', 'triton'), ('reference', 'triton'))
    """
    return tuple(engine for engine in get_args(Engine) if engine == "reference" or (operator, engine) in LIMITS)


def kernels(operator: Operator, engine: str) -> Any:
    """The module that holds an operator's kernels."""
    return import_module(f"sttau.engine.{LIMITS[operator, cast(Engine, engine)].module}")


@cache
def warn_once(message: str, reason: str) -> None:
    """Log that a fallback is taken, the first time it is."""
    _log.warning("%s: %s", message, reason)


def _check_name(engine: str, available: tuple[str, ...]) -> None:
    if engine not in available:
        raise ValueError(f"engine must be one of {', '.join(map(repr, available))}, got {engine!r}")


def _obstacle(
    operator: Operator, engine: Engine, device: str, dtype: torch.dtype, size: int, states: int, traced: bool
) -> str | None:
    """Why an engine cannot run an operator; None where it can."""
    limits = LIMITS[operator, engine]
    absent = missing(operator, engine)
    if absent:
        return absent
    if device != limits.device and not (engine == "triton" and interpreted()):
        if engine == "triton":
            return f"the triton engine needs a CUDA device, not {device!r}"
        return f"the {engine} engine has no kernels for device type {device!r}"
    if traced and not limits.traceable:
        return f"the kernels of the {engine} engine cannot be traced"
    if dtype not in limits.dtypes:
        return f"the {engine} engine computes in float32, not {str(dtype).removeprefix('torch.')}{limits.advice}"
    return _too_large(engine, limits, size, states)


def _too_large(engine: Engine, limits: Limits, size: int, states: int) -> str | None:
    if size <= (limits.size or size) and states <= (limits.states or states):
        return None
    given = {"units": (size, limits.size), "states": (states, limits.states)}
    limited = {name: (value, most) for name, (value, most) in given.items() if most is not None}
    most = " and ".join(f"{most} {name}" for name, (_, most) in limited.items())
    values = " and ".join(str(value) for value, _ in limited.values())
    return f"the {engine} engine holds layers of up to {most}, not {values}"


@cache
def missing(operator: Operator, engine: Engine) -> str | None:
    """Why an operator's kernels cannot be loaded; None where they can."""
    try:
        kernels(operator, engine)
    except ImportError as error:
        return f"the {engine} engine cannot be loaded ({error})"
    if engine == "triton":
        from triton import __version__

        if tuple(int(part) for part in __version__.split(".")[:2]) < (3, 4):
            return f"the triton engine needs Triton 3.4 or newer (PyTorch 2.8), not {__version__}"
    return None


def interpreted() -> bool:
    """Whether Triton's kernels are run by its interpreter (``TRITON_INTERPRET=1``), which works anywhere."""
    from triton import knobs

    return bool(knobs.runtime.interpret)
