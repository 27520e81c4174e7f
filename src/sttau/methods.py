"""The methods by name, each with settings that are a fair start, and how a network of each is made for some data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from sttau.data import SequenceDataset
from sttau.layers import (
    BayesLSTM,
    StateRegularizedGRU,
    StateRegularizedLSTM,
    STTauGRU,
    STTauLSTM,
    VariationalDropoutLSTM,
    remember,
    set_gain,
)
from sttau.models import DeepEnsemble, SequenceClassifier, SequenceModel, SequenceRegressor
from sttau.seeds import derive_seed

#: Makes a network for the training data; called with the seed of its initial weights.
Factory = Callable[[SequenceDataset, int], SequenceModel]


class Task(NamedTuple):
    """What a network has to read and to answer."""

    features: int | None  # None for token ids
    tokens: int  # 0 for features
    classes: int | None  # None for numbers
    outputs: int  # numbers that are predicted
    sequences: int  # to train on

    @classmethod
    def of(cls, *splits: SequenceDataset) -> Task:
        """Find out from all splits together."""
        first = splits[0]
        is_tokens = first.inputs.dim() == 2
        tokens = 0
        if is_tokens:
            tokens = len(first.vocabulary or ()) or max(int(_valid(split).max()) for split in splits) + 1
        is_numbers = first.labels.is_floating_point()
        classes = len(first.class_names) or (0 if is_numbers else max(int(s.labels.max()) for s in splits) + 1)
        return cls(
            features=None if is_tokens else first.inputs.shape[2],
            tokens=tokens,
            classes=None if is_numbers else classes,
            outputs=1 if first.labels.dim() == 1 else first.labels.shape[1],
            sequences=len(first),
        )


def _valid(data: SequenceDataset) -> Tensor:
    return data.inputs[torch.arange(data.inputs.shape[1]) < data.lengths[:, None]]


class Method(NamedTuple):
    """The layers of a method by cell, and its settings where nothing else is said."""

    layers: Mapping[str, Callable[..., Any]]
    settings: Callable[[Task, int], dict[str, Any]] = lambda task, hidden_size: {}


def _states(task: Task, hidden_size: int) -> dict[str, Any]:
    """As many states as classes, as in the paper; ten for numbers. The cell's own output is easier to train on."""
    return {"num_states": task.classes or 10, "readout": "cell"}


def _dropout(task: Task, hidden_size: int) -> dict[str, Any]:
    return {"dropout": 0.1} | ({"input_dropout": 0.0} if task.features == 1 else {})


def _bayes(task: Task, hidden_size: int) -> dict[str, Any]:
    """No wider than two weights for each training sequence: what is learned of a weight must be paid for by data."""
    size = hidden_size
    while size > 8 and 4 * size * ((task.features or hidden_size) + size + 2) > 2 * task.sequences:
        size -= 1
    return {"prior_scale": 0.5, "hidden_size": size}


_PLAIN = {"lstm": nn.LSTM, "gru": nn.GRU}

#: Every method by the name it has everywhere. A new one is one new line here.
METHODS: dict[str, Method] = {
    "lstm": Method({"lstm": nn.LSTM}),
    "gru": Method({"gru": nn.GRU}),
    "ensemble": Method(_PLAIN, lambda task, hidden_size: {"size": 5}),
    "bayes": Method({"lstm": BayesLSTM}, _bayes),
    "dropout": Method({"lstm": VariationalDropoutLSTM}, _dropout),
    "state-regularized": Method({"lstm": StateRegularizedLSTM, "gru": StateRegularizedGRU}, _states),
    "st-tau": Method({"lstm": STTauLSTM, "gru": STTauGRU}, _states),
}


def resolve(name: str, task: Task, given: Mapping[str, Any], hidden_size: int) -> dict[str, Any]:
    """Return all settings of a method: what it starts from, what all share, and what was given for it."""
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(f"methods must be among {', '.join(METHODS)}, or name a factory of a model; got {name!r}")
    method = METHODS[name]
    settings = (
        {"cell": next(iter(method.layers)), "hidden_size": hidden_size}
        | method.settings(task, hidden_size)
        | dict(given)
    )
    if task.tokens:
        settings.setdefault("embedding_size", hidden_size)
    if settings["cell"] not in method.layers:
        raise ValueError(f"cell of {name!r} must be one of {', '.join(method.layers)}, got {settings['cell']!r}")
    return settings


def build(name: str, task: Task, settings: Mapping[str, Any], data: SequenceDataset, seed: int) -> SequenceModel:
    """Make the network of a method; its initial weights follow from the seed.

    Settings are arguments of the layer, but for ``cell``, ``size`` (of an ensemble), ``embedding_size``,
    ``embedding_scale`` (standard deviation of the initial vectors), ``memory`` (steps that the cells of an LSTM begin
    with, see :func:`sttau.layers.remember`), ``gain`` (how much of itself a finite-state layer passes on at first, see
    :func:`sttau.layers.set_gain`) and ``model``, further arguments of the model.

    Example:
        >>> from sttau.data import load
        >>> digits = load("digits", "train")
        >>> task = Task.of(digits)
        >>> model = build("st-tau", task, resolve("st-tau", task, {"num_states": 4}, hidden_size=16), digits, seed=0)
        >>> model.layer
        STTauLSTM(8, 16, 4, readout='cell')
    """
    options = dict(settings)
    kind = METHODS[name].layers[options.pop("cell")]
    size, embedding_size = options.pop("size", None), options.pop("embedding_size", 0)
    scale, more = options.pop("embedding_scale", 1.0), options.pop("model", {})
    memory, gain = options.pop("memory", None), options.pop("gain", None)

    def make() -> SequenceModel:
        embedding = nn.Embedding(task.tokens, embedding_size) if task.tokens else None
        if embedding is not None and scale != 1:
            nn.init.normal_(embedding.weight, std=scale)
        width = embedding_size if task.features is None else task.features
        try:
            layer = kind(width, **options)
        except TypeError as error:
            raise ValueError(f"settings of {name!r} do not fit {kind.__name__}: {error}") from error
        if memory is not None:
            remember(layer, memory)
        if gain is not None:
            set_gain(layer, gain)
        if task.classes is None:
            return SequenceRegressor(layer, task.outputs, variance=True, embedding=embedding, **more)
        return SequenceClassifier(layer, task.classes, embedding, **more)

    start = derive_seed(seed, "weights")
    model = DeepEnsemble.of(make, size or 1, start)
    if name != "ensemble":
        model = model.members[0]  # type: ignore[assignment]
    model.remember(data)
    return model
