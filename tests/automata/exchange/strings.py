"""Short strings on which automata are compared."""

from __future__ import annotations

from itertools import product

STRINGS = ["".join(symbols) for length in range(6) for symbols in product("01", repeat=length)]


WORDS = ["".join(word) for length in range(7) for word in product("01", repeat=length)]
