"""The settings that a method takes, and the check of those that were given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from inspect import Parameter, signature
from typing import Any

from torch import nn

from sttau.methods.registry import find_method
from sttau.models import SequenceClassifier, SequenceRegressor

#: Settings that are no arguments of the layer, with a value of their kind; see :func:`sttau.methods.build`.
_OWN: dict[str, Any] = {
    "cell": None, "embedding_size": 1, "embedding_scale": 1.0, "memory": 1.0, "gain": 1.0, "scale": True,
    "missing": None, "patch_size": 1, "scale_targets": True, "model": None,
}  # fmt: skip
_OF_MEMBERS: dict[str, Any] = {"size": 1, "joint": None}
_OPTIONAL = ("memory", "gain")  # None for none
#: Arguments that follow from the data.
_OF_LAYER = ("self", "input_size", "batch_first", "device", "dtype")
_OF_MODEL = ("layer", "num_classes", "num_outputs", "variance", "embedding", "preprocessing", "target_scaling")


def setting_names(method: str, cell: str | None = None) -> tuple[str, ...]:
    """Return the names of all settings of a method: arguments of its layer, and those of :func:`sttau.methods.build`.

    Args:
        method: Name of the method.
        cell: Name of the cell; the method's own by default.

    Example:
        >>> {"num_states", "temperature", "patch_size"} <= set(setting_names("st-tau"))
        True
        >>> "num_states" in setting_names("lstm")
        False
    """
    return tuple(_examples(method, cell))


def check_settings(method: str, given: Mapping[str, Any], more: Iterable[str] = ()) -> None:
    """Raise unless a method takes these settings: their names, the names in ``model``, and numbers where it needs them.

    Args:
        method: Name of the method.
        given: Settings that were given for it.
        more: Further names that the caller takes, which may be meant by one that is not known.

    Example:
        >>> check_settings("lstm", {"num_layers": "two"})
        Traceback (most recent call last):
        ValueError: num_layers of 'lstm' must be a number, got 'two'
    """
    layers = find_method(method).layers
    cell = given.get("cell", next(iter(layers)))
    if not isinstance(cell, str) or cell not in layers:
        raise ValueError(f"cell of {method!r} must be one of {', '.join(layers)}, got {cell!r}")
    known = _examples(method, cell)
    if not _takes_anything(layers[cell]):
        kind = getattr(layers[cell], "__name__", "its layer")
        _check_names(f"settings of {method!r} do not fit {kind}", given, known, more)
    _check_kinds(f"of {method!r}", given, known)
    if not isinstance(given.get("posterior", {}), Mapping):
        raise ValueError(f"posterior of {method!r} must map names to values, got {given['posterior']!r}")
    of_model, taken = given.get("model", {}), _of_model()
    if not isinstance(of_model, Mapping):
        raise ValueError(f"model of {method!r} must map names to values, such as {', '.join(taken)}, got {of_model!r}")
    _check_names(f"model of {method!r}", of_model, taken)
    _check_kinds(f"in model of {method!r}", of_model, taken)


def _check_kinds(where: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name, value in given.items():
        example = known.get(name)
        if not isinstance(example, bool | int | float):
            continue
        if isinstance(value, str | Mapping | list | tuple) or (value is None and name not in _OPTIONAL):
            expected = "true or false" if isinstance(example, bool) else "a number"
            raise ValueError(f"{name} {where} must be {expected}, got {value!r}")


def _check_names(where: str, given: Mapping[str, Any], known: Mapping[str, Any], more: Iterable[str] = ()) -> None:
    unknown = [name for name in given if name not in known]
    if not unknown:
        return
    names = [*known, *more]
    close = get_close_matches(str(unknown[0]), names, n=1)
    meant = f"did you mean {close[0]}? All: " if close else "choose from "
    raise ValueError(f"{where}: there is no {unknown[0]!r}; {meant}{', '.join(dict.fromkeys(names))}")


def _examples(method: str, cell: str | None) -> dict[str, Any]:
    """A value of each setting that tells what kind it is of; None where it may be of several."""
    found = find_method(method)
    kind = found.layers[cell or next(iter(found.layers))]
    arguments: dict[str, Any] = {}
    for name, parameter in _parameters(kind).items():
        if name not in _OF_LAYER and parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            arguments[name] = 1 if name in ("hidden_size", "num_states") else parameter.default
    of_members = _OF_MEMBERS if found.sampling == "members" else {}
    return arguments | of_members | ({"posterior": None} if found.posterior is not None else {}) | _OWN


def _parameters(kind: Any) -> dict[str, Parameter]:
    """The arguments of a layer; those of PyTorch's layers are hidden behind ``*args``."""
    if kind in (nn.LSTM, nn.GRU):
        found = dict(signature(nn.RNNBase.__init__).parameters)
        return {name: each for name, each in found.items() if name not in ("mode", "proj_size")}
    return dict(signature(kind).parameters)


def _takes_anything(kind: Any) -> bool:
    return any(each.kind is Parameter.VAR_KEYWORD for each in _parameters(kind).values())


def _of_model() -> dict[str, Any]:
    """Arguments of models that are settings, with their defaults."""
    both = {**signature(SequenceClassifier).parameters, **signature(SequenceRegressor).parameters}
    return {name: each.default for name, each in both.items() if name not in _OF_MODEL}
