"""Automata in files, in the format of the file's suffix."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from automata.fa.dfa import DFA

from sttau.automata.compiled import CompiledModel
from sttau.automata.exchange.att import from_att, to_att
from sttau.automata.exchange.dot import from_dot, to_dot
from sttau.automata.exchange.jflap import from_jflap, to_jflap
from sttau.automata.exchange.json import from_json, to_json
from sttau.automata.exchange.prism import from_prism, to_prism
from sttau.automata.value import AutomatonLike
from sttau.errors import AutomatonError
from sttau.formats import read_text
from sttau.languages import PA

_READERS: dict[str, Any] = {
    ".json": from_json,
    ".dot": from_dot,
    ".jff": from_jflap,
    ".prism": from_prism,
    ".att": from_att,
}

#: Suffixes of files with an automaton.
SUFFIXES = (*_READERS, ".safetensors")


def read_automaton(path: str | os.PathLike[str]) -> DFA | PA:
    """Read an automaton: .json, .dot (ours and AALpy's), .jff (JFLAP), .prism, .att (AT&T), or a compiled model.

    Args:
        path: Path of the file.

    Raises:
        AutomatonError: If the file holds no automaton that can be read.

    Example:
        >>> import tempfile
        >>> from sttau.automata import compare, tomita
        >>> from sttau.plotting.automaton import write_automaton
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     compare(read_automaton(write_automaton(tomita(3), f"{folder}/three.jff")), tomita(3))
        Equivalence(equal=True, counterexample=None)
    """
    path = Path(path)
    if path.suffix == ".safetensors":
        return CompiledModel.load(path).automaton
    if path.suffix not in _READERS:
        raise AutomatonError(f"{path.name} must end in {', '.join(SUFFIXES)}, the formats of automata that are read")
    found: DFA | PA = _READERS[path.suffix](read_text(path, AutomatonError), str(path))
    return found


def to_text(automaton: AutomatonLike, suffix: str, **notes: Any) -> str:
    """Return an automaton in the format of a suffix; ``notes`` are arguments of :func:`to_dot`."""
    if suffix == ".dot":
        return to_dot(automaton, **notes)
    if suffix == ".json":
        return to_json(automaton) + "\n"
    return {".prism": to_prism, ".jff": to_jflap, ".att": to_att}[suffix](automaton)
