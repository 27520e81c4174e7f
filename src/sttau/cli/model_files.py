"""Model folders, which ``sttau train`` writes, and settings given as ``name=value``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sttau.cli.common import usage_error
from sttau.files import MODEL_FILE

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
