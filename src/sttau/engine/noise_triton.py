"""The draws of ``noise.py`` as one kernel, the same to the last bit.

Philox in PyTorch is some two hundred operations; for the few numbers that are mostly wanted, starting them takes longer
than all that the numbers are drawn for.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sttau.engine.launch import launch

_BLOCK = 128  # counters of a program

_ANY_NUMBER = ["base", "first", "steps", "blocks", "size", "total"]


@triton.jit(do_not_specialize=_ANY_NUMBER, do_not_specialize_on_alignment=["sample", "sequence"])
def write_uniform(out, seed, sample, sequence, base, first, steps, blocks, size, total, BLOCK: tl.constexpr):
    """Programs run over (row, step, four numbers)."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    on = place < total
    block = place % blocks
    line = place // blocks
    row = line // steps
    number = (base | block).to(tl.uint32)
    step = (first + line % steps).to(tl.uint32)
    which = tl.load(sample + row, mask=on, other=0).to(tl.uint32)
    if sequence is None:
        who = tl.zeros([BLOCK], tl.uint32) - 1
    else:
        who = tl.load(sequence + row, mask=on, other=0).to(tl.uint32)
    words = tl.philox(tl.load(seed), number, step, which, who, 10)
    for word in tl.static_range(4):
        u = ((words[word] >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07  # 2⁻²³
        column = block * 4 + word
        tl.store(out + line * size + column, u, mask=on & (column < size))


def uniform(
    seed: Tensor, sample: Tensor, sequence: Tensor | None, base: int, first: int, steps: int, size: int
) -> Tensor:
    """Draws strictly inside (0, 1), (rows, steps, size) in float32.

    Args:
        seed: scalar; its words are the key.
        sample: (rows,), the third word of the counter.
        sequence: (rows,), the fourth; 2³² - 1 without it.
        base: the bits that the first word has beside the number of the draw, divided by four.
        first: the second word, in the first step.
        steps: of each row.
        size: of each step.
    """
    out = torch.empty(len(sample), steps, size, device=sample.device)
    blocks = -(-size // 4)
    total = len(sample) * steps * blocks
    if total:
        numbers = [base, first, steps, blocks, size, total]
        tensors = [out, seed, sample.contiguous(), None if sequence is None else sequence.contiguous()]
        with torch.cuda.device_of(out):
            launch(write_uniform, triton.cdiv(total, _BLOCK), tensors, numbers, {"BLOCK": _BLOCK, "num_warps": 4})
    return out
