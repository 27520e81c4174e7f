"""The file format of models: safetensors with the configuration in the header."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sttau.formats import Format, Header, Tensors
from sttau.layers import LAYERS
from sttau.models.base import Predictor, SequenceModel
from sttau.models.classifier import SequenceClassifier
from sttau.models.ensemble import DeepEnsemble
from sttau.models.metadata import Metadata
from sttau.models.regressor import SequenceRegressor

_DTYPES = {"float16": torch.float16, "float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}

#: Every class that can be saved, by its name in files.
MODELS: dict[str, type[Predictor]] = {
    "SequenceClassifier": SequenceClassifier,
    "SequenceRegressor": SequenceRegressor,
    "DeepEnsemble": DeepEnsemble,
}


def _from_version_1(header: Header, tensors: Tensors) -> tuple[Header, Tensors]:
    """Version 1 called the mode ``hard`` ``straight_through`` and had no adapter around nn.LSTM and nn.GRU."""
    for config in header.get("members", [header]):
        arguments = config["layer"]["arguments"]
        if arguments.get("mode") == "straight_through":
            arguments["mode"] = "hard"
    return header, rename_weights_of_version_1(header, tensors)


def rename_weights_of_version_1(config: Header, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights of a model of version 1 under their present names."""
    first = config.get("members", [config])[0]
    if first["layer"]["type"] not in ("LSTM", "GRU"):
        return tensors
    return {adapted_name(name): tensor for name, tensor in tensors.items()}


def adapted_name(name: str) -> str:
    """Return the present name of a weight of ``nn.LSTM`` or ``nn.GRU`` in a model of version 1.

    Example:
        >>> adapted_name("layer.weight_ih_l0"), adapted_name("networks.1.layer.bias_hh_l0"), adapted_name("head.bias")
        ('layer.rnn.weight_ih_l0', 'networks.1.layer.rnn.bias_hh_l0', 'head.bias')
    """
    before, layer, weight = name.rpartition("layer.")
    return f"{before}layer.rnn.{weight}" if layer and (not before or before.endswith(".")) else name


MODEL_FORMAT = Format("sttau.model", 2, {1: _from_version_1})


def save(model: Predictor, path: str | os.PathLike[str]) -> Path:
    """Write a model to a file; see :meth:`Predictor.save`."""
    if MODELS.get(type(model).__name__) is not type(model):
        raise TypeError(f"a {type(model).__name__} cannot be saved: only {', '.join(MODELS)} can be named in a file")
    return MODEL_FORMAT.write(path, model.config(), model.state_dict())


def load(path: str | os.PathLike[str], device: torch.device | str = "cpu") -> Any:
    """Load a model that ``save`` wrote.

    Nothing in the file is executed. Pickles, files of other programs, newer format versions and weights that do not fit
    the configuration are refused with the reason.

    Args:
        path: Path of the file.
        device: Device of the model.

    Returns:
        A :class:`SequenceClassifier`, :class:`SequenceRegressor` or :class:`DeepEnsemble` in eval mode.

    Example:
        >>> import tempfile
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(8, 32, num_states=5), num_classes=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = load(model.save(f"{folder}/model.safetensors"))
        >>> bool((again.layer.states == model.layer.states).all())
        True
    """
    header, tensors = MODEL_FORMAT.read(path, device)
    model = build(header).to(device=device)
    expected = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in tensors.items()}
    if expected != found:
        wrong = [
            f"{name}: expected {expected.get(name, 'nothing')}, found {found.get(name, 'nothing')}"
            for name in sorted(expected.keys() | found.keys())
            if expected.get(name) != found.get(name)
        ]
        raise ValueError(f"the weights in {path} do not fit its configuration; " + "; ".join(wrong))
    model.load_state_dict(tensors)
    return model.eval()


def build(config: Header) -> Predictor:
    """Construct a predictor from its configuration, with initial weights."""
    try:
        if config["model"] == DeepEnsemble.__name__:
            return DeepEnsemble([_build_network(member) for member in config["members"]])
        return _build_network(config)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the model's configuration is not valid: {error}") from error


def _build_network(config: Header) -> SequenceModel:
    layer = LAYERS[config["layer"]["type"]](**config["layer"]["arguments"])
    embedding = None if config["embedding"] is None else nn.Embedding(**config["embedding"])
    kind: Any = MODELS[config["model"]]
    model: SequenceModel = kind(layer, embedding=embedding, **config["arguments"])
    model.set_metadata(Metadata.from_config(config.get("data", {})))
    return model.to(_DTYPES[config["dtype"]])
