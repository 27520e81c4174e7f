"""Random damage to the content of a file."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

#: Replacements for a value in JSON.
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**63, 10**30, 0.5, -0.0, 1e39, 1e300, "", "x", "é", [], {}, [[]], {"a": 1}, "9" * 400,
)  # fmt: skip


def damage(content: bytes, chance: random.Random) -> bytes:
    """Return the content with one random fault, as disks, transfers and editors make them."""
    if not content:
        return b"\0"
    return chance.choice(FAULTS)(content, chance)


def _flip(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content))
    return content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]


def _truncate(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def _erase(content: bytes, chance: random.Random) -> bytes:
    first = chance.randrange(len(content))
    size = min(1 << chance.randrange(10), len(content) - first)
    return content[:first] + bytes(size) + content[first + size :]


def _remove(content: bytes, chance: random.Random) -> bytes:
    first = chance.randrange(len(content))
    return content[:first] + content[first + 1 + chance.randrange(64) :]


def _repeat(content: bytes, chance: random.Random) -> bytes:
    first = chance.randrange(len(content))
    part = content[first : first + 1 + chance.randrange(64)]
    return content[: first + len(part)] + part + content[first + len(part) :]


def _insert(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content) + 1)
    return content[:place] + chance.randbytes(1 + chance.randrange(8)) + content[place:]


def _replace_number(content: bytes, chance: random.Random) -> bytes:
    """Put another value where a number or a word stands in text."""
    found = list(re.finditer(rb'-?\d+(\.\d+)?(e-?\d+)?|"[^"\\]*"|true|false|null', content))
    if not found:
        return _flip(content, chance)
    match = chance.choice(found)
    return content[: match.start()] + json.dumps(chance.choice(VALUES)).encode() + content[match.end() :]


FAULTS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip, _flip, _truncate, _erase, _remove, _repeat, _insert, _replace_number, _replace_number,
)  # fmt: skip


def change_value(value: Any, chance: random.Random) -> Any:
    """Return JSON content with one value, at any depth, changed or left out."""
    if isinstance(value, (dict, list)) and value and chance.random() < 0.9:
        place: Any = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
        copy: Any = value.copy()
        if chance.random() < 0.1:
            del copy[place]
        else:
            copy[place] = change_value(value[place], chance)
        return copy
    return chance.choice(VALUES)
