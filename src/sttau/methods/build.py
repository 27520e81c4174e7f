"""How the network of a method is built for some data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from torch import nn

from sttau.checks import as_integer
from sttau.data import SequenceDataset
from sttau.layers import set_gain, set_memory
from sttau.methods.defaults import reading_defaults
from sttau.methods.record import DataSpec
from sttau.methods.registry import find_method
from sttau.methods.settings import check_settings
from sttau.models import (
    DeepEnsemble,
    Posterior,
    Predictor,
    Preprocessing,
    SequenceClassifier,
    SequenceModel,
    SequenceRegressor,
    TargetScaling,
)
from sttau.seeds import derive_seed

#: Builds a network for the training data; called with the seed of its initial weights.
Factory = Callable[[SequenceDataset, int], Predictor]


def resolve(name: str, spec: DataSpec, given: Mapping[str, Any], hidden_size: int) -> dict[str, Any]:
    """Return all settings of a method: its defaults, the shared hidden size, and what was given for it.

    Arguments of the model are merged one by one: ``model={"paths": 4}`` leaves the default of ``dropout``.
    """
    method = find_method(name)
    check_settings(name, given)
    settings: dict[str, Any] = (
        {"cell": next(iter(method.layers)), "hidden_size": hidden_size}
        | reading_defaults(spec, hidden_size)
        | method.defaults(spec, hidden_size)
    )
    usual: dict[str, Any] = settings.pop("model", {})
    if given.get("mode", settings.get("mode")) == "exact":
        usual = {key: value for key, value in usual.items() if key != "dropout"}  # chosen for sampled states
    settings |= dict(given)
    if usual or "model" in given:
        settings["model"] = usual | dict(given.get("model", {}))
    return settings


def build(name: str, spec: DataSpec, settings: Mapping[str, Any], data: SequenceDataset, seed: int) -> Predictor:
    """Build the network of a method; its initial weights follow from the seed.

    Settings are arguments of the layer, except ``cell``, ``size`` (networks of an ensemble), ``joint`` (how they are
    trained; see :class:`sttau.models.DeepEnsemble`), ``posterior`` (further arguments of
    :func:`sttau.training.laplace` or :func:`sttau.training.swag`), ``embedding_size``, ``embedding_scale`` (standard
    deviation of the initial vectors), ``memory`` (see :func:`sttau.layers.set_memory`), ``gain`` (see
    :func:`sttau.layers.set_gain`), ``scale``, ``missing`` and ``patch_size`` (see
    :class:`sttau.models.Preprocessing`, which is fitted on the data), ``scale_targets`` and ``model``, further
    arguments of the model.

    Example:
        >>> from sttau.data import load
        >>> digits = load("digits", "train")
        >>> spec = DataSpec.of(digits)
        >>> settings = resolve("st-tau", spec, {"num_states": 4}, hidden_size=16)
        >>> build("st-tau", spec, settings, digits, seed=0).layer
        STTauLSTM(8, 16, num_states=4, readout='cell')
    """
    try:
        return _build(name, spec, settings, data, seed)
    except (TypeError, RuntimeError) as error:  # of PyTorch, which does not name the setting
        shown = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        raise ValueError(f"settings of {name!r} have a value that does not fit: {error} (settings: {shown})") from error


def _build(name: str, spec: DataSpec, settings: Mapping[str, Any], data: SequenceDataset, seed: int) -> Predictor:
    """The same, with the errors of PyTorch."""
    method, options = find_method(name), dict(settings)
    kind = method.layers[options.pop("cell")]
    size, embedding_size = options.pop("size", None), options.pop("embedding_size", 0)
    scale, more = options.pop("embedding_scale", 1.0), options.pop("model", {})
    memory, gain = options.pop("memory", None), options.pop("gain", None)
    joint = options.pop("joint", 0.0)
    drawn = dict(options.pop("posterior", {})) if method.posterior is not None else {}
    reading = {key: options.pop(key) for key in ("scale", "missing", "patch_size") if key in options}
    scales_targets = options.pop("scale_targets", False)
    preprocessing = Preprocessing.fitted(data, **reading) if reading and spec.features is not None else None

    def make() -> SequenceModel:
        embedding = nn.Embedding(spec.tokens, embedding_size) if spec.tokens else None
        if embedding is not None and scale != 1:
            nn.init.normal_(embedding.weight, std=scale)
        width = embedding_size if spec.features is None else spec.features
        own: dict[str, Any] = {} if preprocessing is None else {"preprocessing": deepcopy(preprocessing)}
        width = width if preprocessing is None else preprocessing.output_size
        try:
            layer = kind(width, **options)
        except TypeError as error:
            raise ValueError(f"settings of {name!r} do not fit {kind.__name__}: {error}") from error
        if memory is not None:
            try:
                set_memory(layer, memory)
            except ValueError as error:
                raise ValueError(f"memory of {name!r}: {error}") from error
        if gain is not None:
            set_gain(layer, gain)
        if spec.classes is None:
            own |= {"target_scaling": TargetScaling.fitted(data.labels)} if scales_targets else {}
            return SequenceRegressor(layer, spec.outputs, variance=True, embedding=embedding, **own, **more)
        return SequenceClassifier(layer, spec.classes, embedding, **own, **more)

    weights_seed = derive_seed(seed, "weights")
    if method.posterior is None:
        ensemble = DeepEnsemble.of(make, size or 1, weights_seed, joint)
    else:
        ensemble = DeepEnsemble.of(make, 1, weights_seed)
        ensemble.posterior = Posterior(method.posterior, as_integer("size", size, 1), drawn)
    model = ensemble if method.sampling == "members" else ensemble.members[0]
    model.set_metadata(data)
    return model
