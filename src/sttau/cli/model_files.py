"""Model folders, which ``sttau train`` writes, languages by name, and settings given as ``name=value``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sttau.cli.common import usage_error
from sttau.files import MODEL_FILE

if TYPE_CHECKING:
    from automata.fa.dfa import DFA

    from sttau.automata import PA

ModelArgument = Annotated[Path, typer.Argument(help="Folder of sttau train, or a saved model (.safetensors).")]
SamplesOption = Annotated[int, typer.Option(min=1, max=100_000, help="Monte Carlo samples per member.")]


def load_model(path: Path, device: str) -> Any:
    """Load the model of a folder, or a model file."""
    from sttau import load

    return load(path / MODEL_FILE if path.is_dir() else path, device)


def parse_settings(given: list[str]) -> dict[str, Any]:
    """Return settings from ``name=value``; a value is JSON, or else a string.

    Example:
        >>> parse_settings(["num_states=8", "cell=gru", "bias=false"])
        {'num_states': 8, 'cell': 'gru', 'bias': False}
    """
    settings: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (equals and name):
            usage_error(f"--set must be name=value, for instance num_states=8, got {text!r}")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def language(name: str, symbols: Sequence[str]) -> DFA | PA:
    """Return a language: by its name, from a file with an automaton, or of a regular expression over the symbols.

    Example:
        >>> len(language("(ab)*", "ab").states)
        3
    """
    from sttau.automata import from_regex, read_automaton, stochastic, tomita
    from sttau.automata.exchange.files import SUFFIXES

    if known := re.fullmatch(r"tomita([1-7])|stochastic([12])", name):
        return tomita(int(known[1])) if known[1] else stochastic(int(known[2]))
    if name.endswith(SUFFIXES):
        return read_automaton(name)
    try:
        return from_regex(name, symbols)
    except ValueError as error:
        usage_error(
            f"{name!r} is not a language: tomita1 … tomita7, stochastic1, stochastic2, a file ({', '.join(SUFFIXES)}), "
            f"or a regular expression over {' '.join(symbols)} ({error})"
        )
