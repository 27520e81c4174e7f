"""Alphabets, and strings as positions in an alphabet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from sttau.padding import clear_padding, valid_steps

#: Strings, lists of symbols, or positions in the alphabet, (strings, time).
Strings = Sequence[str] | Sequence[Sequence[str]] | Tensor


def single_characters(alphabet: Iterable[str]) -> tuple[str, ...]:
    """Return the symbols of an alphabet in order; an error unless each is a single character."""
    symbols = tuple(sorted(set(alphabet)))
    if not symbols or any(len(symbol) != 1 for symbol in symbols):
        raise ValueError(f"alphabet must be single characters, at least one, got {symbols}")
    return symbols


def encode_strings(
    strings: Strings, alphabet: Sequence[str], lengths: Tensor | None = None, device: torch.device | str = "cpu"
) -> tuple[Tensor, Tensor]:
    """Return strings as positions in an alphabet, (strings, time) and zero beyond the end, and their lengths.

    Args:
        strings: Strings as for :meth:`PA.probability`.
        alphabet: Symbols.
        lengths: (strings,) lengths of the rows of a tensor.
        device: Device of the result.

    Example:
        >>> encode_strings(["ba", ""], "ab")
        (tensor([[1, 0],
                [0, 0]]), tensor([2, 0]))
    """
    if isinstance(strings, Tensor):
        return _check_ids(strings, len(alphabet), lengths, device)
    if isinstance(strings, str):
        raise TypeError(f"strings must be a list of strings; for a single one write [{strings!r}]")
    if lengths is not None:
        raise ValueError("lengths can only be given with a tensor of positions; strings have their own length")
    sizes = torch.tensor([len(string) for string in strings], dtype=torch.int64)
    ids = torch.zeros(len(strings), int(sizes.max()) if len(strings) else 0, dtype=torch.int64)
    flat = _positions(strings, alphabet)
    if bool((flat < 0).any()):
        row = int((sizes.cumsum(0) <= int((flat < 0).nonzero()[0])).sum())
        unknown = next(symbol for symbol in strings[row] if symbol not in alphabet)
        raise ValueError(
            f"strings contain the symbol {unknown!r} in string {row}, which is not in the alphabet {tuple(alphabet)}; "
            "if a symbol has several characters, pass lists of symbols"
        )
    ids[valid_steps(ids, sizes)] = flat
    return ids.to(device), sizes.to(device)


def _positions(strings: Sequence[str] | Sequence[Sequence[str]], alphabet: Sequence[str]) -> Tensor:
    """Position of each symbol of the concatenated strings in the alphabet; -1 if it is not in the alphabet."""
    place = {symbol: number for number, symbol in enumerate(alphabet)}
    if not all(isinstance(string, str) for string in strings):
        return torch.tensor([place.get(s, -1) for string in strings for s in string], dtype=torch.int64)
    codes = np.frombuffer("".join(strings).encode("utf-32-le", "surrogatepass"), np.uint32)  # type: ignore[arg-type]
    characters = {ord(symbol): number for symbol, number in place.items() if len(symbol) == 1}
    beyond = max(characters, default=0) + 1
    table = np.full(beyond + 1, -1)
    table[list(characters)] = list(characters.values())
    return torch.from_numpy(table[np.minimum(codes, beyond)])


def _check_ids(ids: Tensor, symbols: int, lengths: Tensor | None, device: torch.device | str) -> tuple[Tensor, Tensor]:
    if ids.dim() != 2 or ids.is_floating_point() or ids.dtype == torch.bool:
        raise TypeError(f"strings must be integers (strings, time), got {ids.dtype} of shape {tuple(ids.shape)}")
    ids = ids.to(device, torch.int64)
    if lengths is None:
        lengths = torch.full((len(ids),), ids.shape[1], dtype=torch.int64, device=device)
    else:
        lengths = lengths.to(device, torch.int64)
        if tuple(lengths.shape) != (len(ids),) or bool((lengths < 0).any() | (lengths > ids.shape[1]).any()):
            raise ValueError(f"lengths must be ({len(ids)},) integers from 0 to {ids.shape[1]}")
    ids = clear_padding(ids, lengths)
    if bool((ids < 0).any() | (ids >= symbols).any()):
        raise ValueError(f"strings must contain positions in the alphabet, 0 … {symbols - 1}")
    return ids, lengths
