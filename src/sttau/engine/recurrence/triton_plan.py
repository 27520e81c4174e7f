"""How the kernels of the Triton engine divide a problem: rows of a program, warps, and where U and S are held.

A pure function of the shape. ``TABLE`` is the one place for choices that were made by measuring.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

RESIDENT_STATES = 16  # more states than this are not unrolled
TILED_STATES = 128  # more states, or hidden units, than these are read in loops
TILED_SIZE = 256
RESIDENT_VALUES = 40_000  # of U, S and W_x, in the registers of one program
MANY_ROWS = 512  # rows that hide each other's latency
PROCESSORS = 132  # multiprocessors of an H100 or H200, with 256 threads on each
_REGISTERS = 1 << 16  # of a multiprocessor
_LOADS = 64  # loads of U and S that a thread of the streamed kernels issues at once
_OTHERS = 128  # registers of a thread for everything but what is kept


class Tiles(NamedTuple):
    """A choice for the tiled kernels."""

    rows: int  # rows of a program, which share what is read
    tile: int  # states of a tile
    kept: int  # registers of a thread for tiles of U that stay there
    cached: int  # KiB of U and S that stay in the L1 cache
    columns: int = 1  # columns of a thread


#: By pass and whether a program needs several rows, for up to so many states: the fastest plans of
#: benchmarks/states_of_layers.py on an H200.
TABLE: dict[tuple[str, bool], tuple[tuple[int, Tiles], ...]] = {
    ("forward", False): ((32, Tiles(1, 32, 128, 192)), (64, Tiles(1, 32, 64, 192)), (128, Tiles(1, 32, 0, 208))),
    ("forward", True): ((32, Tiles(2, 32, 128, 192)), (128, Tiles(2, 32, 0, 232))),
    ("backward", False): ((64, Tiles(1, 32, 128, 192)), (128, Tiles(1, 32, 64, 192))),
    ("backward", True): ((64, Tiles(2, 32, 64, 160)), (128, Tiles(2, 32, 0, 192))),
}


def kind(states: int, size: int, blocks: int) -> Literal["resident", "tiled", "streamed"]:
    """Which kernels run a layer, of which ``blocks`` matrices of (states, size) are read at every step.

    The tiled kernels are unrolled over tiles, and threads own one column.

    Example:
        >>> kind(10, 256, 5), kind(100, 256, 5), kind(200, 256, 5), kind(100, 1024, 5)
        ('resident', 'tiled', 'streamed', 'streamed')
    """
    if resident(states, size, blocks):
        return "resident"
    return "tiled" if states <= TILED_STATES and size <= TILED_SIZE else "streamed"


def resident(states: int, size: int, blocks: int) -> bool:
    """Whether U and S, ``blocks`` matrices of (states, size), stay in the registers of a program for each row.

    Example:
        >>> resident(16, 256, 5), resident(17, 256, 5)
        (True, False)
    """
    return states <= RESIDENT_STATES and states * power_of_2(size) * blocks <= RESIDENT_VALUES


def resident_warps(states: int, size: int, rows: int) -> int:
    """Warps of a program: with few rows, or many states, more of them, which own fewer columns each.

    Example:
        >>> resident_warps(16, 256, 8), resident_warps(16, 256, 1000), resident_warps(32, 256, 8)
        (4, 2, 8)
    """
    columns = 32 if states > 16 else 128 if rows > MANY_ROWS else 64
    return max(1, min(16, power_of_2(size) // columns))


def tiled(states: int, size: int, rows: int, gates: int, *, backward: bool) -> dict[str, int]:
    """Compile-time values of the tiled kernels.

    Args:
        states: Number of states.
        size: Hidden size.
        rows: Number of rows.
        gates: Gates of the cell.
        backward: Whether for the backward pass.

    Example:
        >>> tiled(64, 256, 8, 4, backward=False)
        {'R': 1, 'KB': 32, 'NB': 2, 'KS': 64, 'KEPT': 2, 'L1': 4, 'num_warps': 8}
    """
    block = power_of_2(size)
    narrow = max(1, min(16, block // 32))
    many = rows > PROCESSORS * max(1, 8 // narrow)
    choices = TABLE["backward" if backward else "forward", many]
    choice = next((tiles for most, tiles in choices if states <= most), choices[-1][1])
    warps = max(1, min(16, block // (32 * choice.columns)))
    columns = max(1, block // (32 * warps))
    tile = max(4, min(choice.tile // columns, power_of_2(states)))
    count = -(-states // tile)
    tiles = count * (4 if backward else gates)
    registers = max(0, min(choice.kept, _REGISTERS // (32 * warps) - _OTHERS))
    kept = min(tiles, registers // (tile * columns))
    of_states = 8 if gates == 3 and not backward else 4  # a GRU reads S twice
    cached = max(0, 1024 * choice.cached - of_states * states * size) // (4 * tile * size)
    return {
        "R": choice.rows if columns == 1 or choice.columns > 1 else 1,
        "KB": tile,
        "NB": count,
        "KS": -(-states // 4) * 4,
        "KEPT": kept,
        "L1": min(cached, tiles - kept),
        "num_warps": warps,
    }


def streamed(states: int, size: int, *, backward: bool) -> dict[str, int]:
    """Compile-time values of the streamed kernels, in which a thread owns one column or a few.

    Example:
        >>> streamed(200, 256, backward=False)
        {'N': 16, 'KB': 64, 'KP': 256, 'num_warps': 8}
    """
    block = power_of_2(size)
    warps = max(1, min(16, block // 32))
    columns = max(1, block // (32 * warps))
    tile = _LOADS // (4 if backward else 1)  # backward, one per gate
    return {
        "N": max(1, _LOADS // 4 // columns),
        "KB": max(2, min(power_of_2(states), tile // columns)),
        "KP": power_of_2(states),
        "num_warps": warps,
    }


def power_of_2(number: int) -> int:
    """The next power of two.

    Example:
        >>> power_of_2(100), power_of_2(128)
        (128, 128)
    """
    return 1 << (number - 1).bit_length()
