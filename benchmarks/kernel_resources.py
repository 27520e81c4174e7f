"""Compiles kernels of the Triton engine for sm_90 without a GPU, and lists registers, spills and shared memory.

    python -m benchmarks.kernel_resources 8,500,256,256 32 64 128

Arguments are a shape (batch, time, features, hidden size) and numbers of states. The engine runs on tensors on the CPU
whose values mean nothing; where it would launch a kernel, that kernel is compiled, with the same arguments. Compiled
kernels stay in Triton's cache, where a process with a GPU finds them. The exit status says whether all fit.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from sttau.bench import Shape, _Ours
from sttau.engine import backend, using
from sttau.engine.noise import triton as noise
from sttau.engine.recurrence import triton as engine

SHARED_MEMORY = 227 * 1024  # bytes that a program can use
_STEPS = 6


class Resources(NamedTuple):
    """What a compiled kernel takes."""

    kernel: str
    options: dict[str, Any]
    programs: int
    registers: int  # of a thread
    spilled: int  # bytes of stack of a thread
    shared: int  # bytes of a program

    @property
    def fits(self) -> bool:
        """Whether nothing is spilled, but for a few values, and the shared memory exists."""
        return self.spilled <= 64 and self.shared <= SHARED_MEMORY


class _Target:
    """A driver that knows the target and cannot launch."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return device


def compile_kernels(shape: Shape) -> list[Resources]:
    """Compile what a training step and a forward pass launch. This process can then launch nothing."""
    driver.set_active(_Target())
    key: Any = ("recurrence", "triton")
    backend.LIMITS[key] = backend.LIMITS[key]._replace(device="cpu")
    found: list[Resources] = []

    def record(
        kernel: Any,
        programs: int,
        tensors: Sequence[Tensor | None],
        integers: Sequence[int],
        options: Mapping[str, Any],
    ) -> None:
        compiled = kernel.warmup(*tensors, *integers, grid=(programs,), **options)
        registers, spilled = _usage(compiled.asm["cubin"])
        chosen = {name: options[name] for name in ("R", "KB", "KEPT", "L1", "num_warps") if name in options}
        found.append(Resources(kernel.__name__, chosen, programs, registers, spilled, compiled.metadata.shared))

    vars(engine)["launch"] = record
    vars(noise)["launch"] = lambda *_: None
    vars(engine)["_PIECE_VALUES"] = 1  # several pieces, as for long sequences
    ours = _Ours(_short(shape), "cpu", torch.float32)
    with using("triton"):
        ours.work("forward")()
        ours.work("training")()
    return list({(r.kernel, r.registers, r.shared): r for r in found}.values())


def _short(shape: Shape) -> Shape:
    return Shape(shape.cell, shape.batch, _STEPS, shape.features, shape.hidden, shape.states)


def _usage(cubin: bytes) -> tuple[int, int]:
    """Registers and bytes of stack, by the tool that Triton brings; -1 where it is missing."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        try:
            text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            return -1, -1
    registers, stack = re.search(r"REG:(\d+)", text), re.search(r"STACK:(\d+)", text)
    return int(registers[1]) if registers else -1, int(stack[1]) if stack else -1


def main(shape: str, states: Sequence[str]) -> bool:
    """Compile and print; return whether all fit."""
    fit = True
    batch, time, features, hidden = map(int, shape.split(","))
    for k in map(int, states):
        for r in compile_kernels(Shape("lstm", batch, time, features, hidden, k)):
            fit &= r.fits
            size = f"{r.registers} registers, {r.spilled} B spilled, {r.shared} B shared"
            print(f"k{k} {r.kernel} {r.options}: {r.programs} programs, {size}", flush=True)
    return fit


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1], sys.argv[2:]))
