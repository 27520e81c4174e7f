"""The draws of :mod:`sttau.engine.noise.reference` as one kernel each, from the same bits.

Philox in PyTorch is some two hundred operations; for the few draws that are usually needed, launching them takes longer
than the computation that uses the draws.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sttau.engine.launch import launch

_OPTIONS = {"BLOCK": 128, "num_warps": 4}  # counters, or steps of rows, per program

_ANY_ADDRESS = ["seed", "sample", "sequence"]


@triton.jit
def _uniform(word):
    return ((word >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07  # 2⁻²³


@triton.jit(
    do_not_specialize=["base", "first", "steps", "blocks", "size", "total"], do_not_specialize_on_alignment=_ANY_ADDRESS
)
def uniform_kernel(out, seed, sample, sequence, base, first, steps, blocks, size, total, BLOCK: tl.constexpr):
    """Programs run over (row, step, four values)."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on = place < total
    block = place % blocks
    line = place // blocks
    row = line // steps
    position = (base | block).to(tl.uint32)
    step = (first + line % steps).to(tl.uint32)
    samples = tl.load(sample + row, mask=on, other=0).to(tl.uint32)
    if sequence is None:
        sequences = tl.zeros([BLOCK], tl.uint32) - 1
    else:
        sequences = tl.load(sequence + row, mask=on, other=0).to(tl.uint32)
    words = tl.philox(tl.load(seed), position, step, samples, sequences, 10)
    for word in tl.static_range(4):
        column = block * 4 + word
        tl.store(out + line * size + column, _uniform(words[word]), mask=on & (column < size))


@triton.jit(do_not_specialize=["total", "rows", "first_step", "layer"], do_not_specialize_on_alignment=_ANY_ADDRESS)
def gumbel_kernel(out, seed, sequence, sample, total, rows, first_step, layer, BLOCK: tl.constexpr, K: tl.constexpr):
    """Programs run over (step, row), four states at a time."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on = place < total
    row = place % rows
    time = (place // rows + first_step).to(tl.uint32)
    sequences = tl.load(sequence + row, mask=on, other=0).to(tl.uint32)
    samples = tl.load(sample + row, mask=on, other=0).to(tl.uint32)
    key = tl.load(seed)
    for block in tl.static_range((K + 3) // 4):
        counter = (tl.zeros([BLOCK], tl.int32) + layer * 65536 + block).to(tl.uint32)
        words = tl.philox(key, counter, time, samples, sequences, 10)
        for word in tl.static_range(4):
            if block * 4 + word < K:
                gumbel = -tl.log(-tl.log(_uniform(words[word])))
                tl.store(out + place * K + (block * 4 + word), gumbel, mask=on)


def uniform(
    seed: Tensor, sample: Tensor, sequence: Tensor | None, base: int, first: int, steps: int, size: int
) -> Tensor:
    """Draws strictly inside (0, 1), (rows, steps, size) in float32.

    Args:
        seed: Scalar whose words are the key.
        sample: (rows,), third word of the counter.
        sequence: (rows,), fourth word; 2³² - 1 without it.
        base: Bits of the first word other than the position of the draw divided by four.
        first: Second word at the first step.
        steps: Number of steps per row.
        size: Number of draws per step.
    """
    out = torch.empty(len(sample), steps, size, device=sample.device)
    blocks = -(-size // 4)
    total = len(sample) * steps * blocks
    if total:
        integers = [base, first, steps, blocks, size, total]
        tensors = [out, seed, sample.contiguous(), None if sequence is None else sequence.contiguous()]
        with torch.cuda.device_of(out):
            launch(uniform_kernel, triton.cdiv(total, _OPTIONS["BLOCK"]), tensors, integers, _OPTIONS)
    return out


def write_gumbel(out: Tensor, seed: Tensor, sequence: Tensor, sample: Tensor, first_step: int, layer: int) -> None:
    """Fill (time, rows, states) with :meth:`sttau.engine.Noise.gumbel`, on the current device."""
    time, rows, states = out.shape
    integers = [time * rows, rows, first_step, layer]
    programs = triton.cdiv(time * rows, _OPTIONS["BLOCK"])
    launch(gumbel_kernel, programs, [out, seed, sequence, sample], integers, _OPTIONS | {"K": states})
