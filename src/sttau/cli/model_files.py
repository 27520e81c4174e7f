"""Model folders, which ``sttau train`` writes, languages by name, and settings given as ``name=value``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sttau.cli.common import usage_error
from sttau.files import MODEL_FILE

if TYPE_CHECKING:
    from automata.fa.dfa import DFA

    from sttau.automata import PA

#: Settings that options of ``sttau train`` set.
_OF_TRAIN = {
    "seed": "--seed", "folder": "--out", "out": "--out", "method": "--method", "device": "--device", "task": "--task",
    "data": "the argument DATA", "quick": "--quick", "threads": "--threads", "risk": "--risk", "coverage": "--coverage",
    "validation": "--validation", "target": "--target",
}  # fmt: skip
#: Options of training whose values are objects of Python.
_ONLY_PYTHON = ("optimizer", "scheduler", "callbacks", "sample_weight", "soft_labels")

ModelArgument = Annotated[Path, typer.Argument(help="Folder of sttau train, or a saved model (.safetensors).")]
SamplesOption = Annotated[int, typer.Option(min=1, max=100_000, help="Monte Carlo samples per member.")]


def model_path(path: Path) -> Path:
    """Return the model file of a folder of ``sttau train``, or the file itself."""
    return path / MODEL_FILE if path.is_dir() else path


def load_model(path: Path, device: str) -> Any:
    """Load the model of a folder, or a model file."""
    from sttau import load

    return load(model_path(path), device)


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


def train_settings(given: list[str], method: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return settings of a network and options of training from ``name=value``, checked before any work.

    Args:
        given: Texts ``name=value``.
        method: Name of the method.

    Example:
        >>> train_settings(["num_states=8", "updates=300", "mode=exact"], "st-tau")
        ({'num_states': 8, 'mode': 'exact'}, {'updates': 300})
    """
    from sttau.training import TrainOptions
    from sttau.training.options import separate_options

    network, training = separate_options(parse_settings(given))
    for name in training:
        if name in _ONLY_PYTHON:
            usage_error(f"--set {name}: this takes an object of Python; train with sttau.fit(model, data, {name}=…)")
    names = [name for name in TrainOptions.names() if name not in (*_OF_TRAIN, *_ONLY_PYTHON)]
    check_network(method, network | {name: None for name in training if name in _OF_TRAIN}, _OF_TRAIN, names)
    _check_options(training)
    return network, training


def check_network(
    method: str, settings: Mapping[str, Any], of_command: Mapping[str, str], more: Sequence[str] = ()
) -> None:
    """Exit with code 2 unless a method takes these settings.

    Args:
        method: Name of the method.
        settings: Settings of its network.
        of_command: What of the command sets something else that may be meant.
        more: Names of further settings, for the message.
    """
    from sttau.methods import find_method
    from sttau.methods.settings import check_settings, setting_names

    try:
        find_method(method)
    except ValueError as error:
        usage_error(str(error))
    for name in settings:
        if name in of_command and name not in setting_names(method):
            usage_error(f"--set {name}: {of_command[name]} of this command sets it")
    try:
        check_settings(method, settings, more)
    except ValueError as error:
        usage_error(f"--set: {error}")


def _check_options(options: dict[str, Any]) -> None:
    """Exit with code 2 unless these are options of training, one by one and together."""
    from sttau.training import TrainOptions

    known = {field.name: field for field in fields(TrainOptions)}
    for name, value in options.items():
        usual = known[name].default
        if isinstance(usual, bool) and not isinstance(value, bool):
            usage_error(f"--set {name} must be true or false, got {value!r}")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if type(usual) in (int, float) and not is_number and not (value is None and "None" in str(known[name].type)):
            usage_error(f"--set {name} must be a number, got {value!r}")
        try:
            TrainOptions(**{name: value})
        except ValueError as error:
            usage_error(f"--set {name}: {error}")
        except TypeError:
            usage_error(f"--set {name}: {value!r} is no value that it takes")
    try:
        TrainOptions(**options)
    except ValueError as error:
        usage_error(f"--set: {error}")


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
