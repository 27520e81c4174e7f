"""Compiled automata as JSON and NumPy files, which any language can read."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sttau.files import write_atomically

if TYPE_CHECKING:
    from sttau.automata import CompiledModel

_TABLES = ("first", "matrices", "outcome")


def to_json(automaton: CompiledModel, path: str | os.PathLike[str]) -> Path:
    """Write the tables of a compiled network as JSON.

    ``first`` holds the distribution of the state after each first token, ``matrices`` the transition matrix of each
    further token, and ``outcome`` the class probabilities in each state. Floats are written so that they are read back
    exactly.

    Args:
        automaton: Result of :func:`sttau.automata.compile`.
        path: File to write.

    Returns:
        The path written.

    Example:
        >>> import tempfile
        >>> from torch import nn
        >>> from sttau import SequenceClassifier, STTauGRU
        >>> from sttau.automata import compile
        >>> network = SequenceClassifier(STTauGRU(4, 8, num_states=3), 2, nn.Embedding(3, 4))
        >>> automaton = compile(network, ("^", "0", "1"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sorted(json.loads(to_json(automaton, f"{folder}/automaton.json").read_text()))
        ['class_names', 'first', 'format', 'matrices', 'outcome', 'start', 'version', 'vocabulary']
    """
    content: dict[str, Any] = {
        "format": "sttau.automaton",
        "version": 1,
        "vocabulary": automaton.vocabulary,
        "start": automaton.start,
        "class_names": automaton.class_names,
    }
    content |= {name: getattr(automaton, name).tolist() for name in _TABLES}
    return write_atomically(path, json.dumps(content).encode())


def to_numpy(automaton: CompiledModel, path: str | os.PathLike[str]) -> Path:
    """Write the tables of a compiled network as an ``.npz`` file; ``start`` is the number of the token, or -1.

    Args:
        automaton: Result of :func:`sttau.automata.compile`.
        path: File to write.

    Returns:
        The path written.
    """
    start = -1 if automaton.start is None else automaton.vocabulary.index(automaton.start)
    arrays = {name: getattr(automaton, name).numpy() for name in _TABLES}
    names = {name: np.array(getattr(automaton, name), dtype=str) for name in ("vocabulary", "class_names")}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, start=np.array(start), **names, **arrays)
    return write_atomically(path, buffer.getvalue())
