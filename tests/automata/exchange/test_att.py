from __future__ import annotations

from sttau.automata import accepts, from_att
from tests.automata.exchange.strings import WORDS


def test_acceptors_of_openfst_are_read() -> None:
    assert accepts(from_att("0 1 1\n1 1 1\n1 0 0 0.0\n0 0 0\n1\n"), WORDS).tolist() == [w.endswith("1") for w in WORDS]
