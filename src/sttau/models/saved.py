"""The file format of models: safetensors with the configuration in the header."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sttau.checks import check_device
from sttau.errors import ModelFileError
from sttau.formats import MAX_BYTES, Format, Header, Tensors
from sttau.layers import LAYERS
from sttau.models.base import SequenceModel
from sttau.models.classifier import SequenceClassifier
from sttau.models.decisions import Decisions
from sttau.models.ensemble import DeepEnsemble, Posterior, with_own_head
from sttau.models.kept import KeptTensors
from sttau.models.metadata import Metadata
from sttau.models.predictor import Predictor
from sttau.models.preprocessing import Preprocessing, TargetScaling
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


MODEL_FORMAT = Format(
    "sttau.model",
    3,
    {1: _from_version_1, 2: lambda header, tensors: (header, tensors)},
    checksum_since=2,
    error=ModelFileError,
)


def save(model: Predictor, path: str | os.PathLike[str]) -> Path:
    """Write a model to a file; see :meth:`Predictor.save`."""
    if MODELS.get(type(model).__name__) is not type(model):
        raise TypeError(f"a {type(model).__name__} cannot be saved: only {', '.join(MODELS)} can be named in a file")
    weights = _weights(model)
    bad = _not_finite(weights)
    if bad:
        raise ValueError(f"the model cannot be saved: it has weights that are not finite, {bad}. Train it again.")
    kept: dict[str, Any] = {} if model.decisions is None else {"decisions": model.decisions.config()}
    kept |= {} if model.detector is None else {"detector": model.detector.config()}
    return MODEL_FORMAT.write(path, model.config() | kept, weights)


def load(path: str | os.PathLike[str], device: torch.device | str = "cpu", *, max_bytes: int | None = MAX_BYTES) -> Any:
    """Load a model written by ``save``.

    Nothing in the file is executed. Pickles, files of other programs, newer format versions, files with a wrong
    checksum, and weights that do not fit the configuration or are not finite are refused with the reason. The sizes in
    the configuration are compared with the weights before memory is taken for them, so that a small file never makes a
    large model.

    Args:
        path: Path of the file.
        device: Device of the model.
        max_bytes: Size of the largest file to read, 16 GiB by default; None for no limit.

    Returns:
        A :class:`SequenceClassifier`, :class:`SequenceRegressor` or :class:`DeepEnsemble` in eval mode.

    Raises:
        ModelFileError: If the file is not a model that can be loaded.

    Example:
        >>> import tempfile
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> model = SequenceClassifier(STTauLSTM(8, 32, num_states=5), num_classes=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = load(model.save(f"{folder}/model.safetensors"))
        >>> bool((again.layer.states == model.layer.states).all())
        True
    """
    chosen = check_device(device)
    header, tensors = MODEL_FORMAT.read(path, max_bytes)
    try:
        _check_layers(header, len(tensors))
        with torch.device("meta"), _Unfilled():
            shape = build(header)
        _check_weights(path, shape, tensors)
        with torch.device("cpu"):
            model = build(header)
    except ModelFileError:
        raise
    except Exception as error:  # whatever a constructor raises for arguments that make no sense
        raise ModelFileError(f"{path}: the model's configuration is not valid: {error}") from error
    model.load_state_dict(tensors, strict=False)  # all that is in the file was compared; what is shared is there once
    return model.to(chosen).eval()


def _weights(model: Predictor) -> Tensors:
    """The weights of a model as they are saved: what members of an ensemble share is there once."""
    return model.distinct_weights() if isinstance(model, DeepEnsemble) else dict(model.state_dict())


class _Unfilled(TorchFunctionMode):
    """Leaves out what fills tensors: those of the meta device have no values, but PyTorch would load its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in ("normal_", "uniform_", "fill_", "zero_", "constant_", "zeros_", "ones_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def _check_layers(header: Header, tensors: int) -> None:
    """Refuse a configuration with more layers than there are tensors: even to describe them would take forever."""
    members = header.get("members", [header])[: 1 if header.get("differs_in_heads") else None]
    layers = sum(member["layer"]["arguments"].get("num_layers", 1) for member in members)
    if layers > tensors:
        raise ValueError(f"it has {layers} layers, but there are only {tensors} tensors")


def _check_weights(path: str | os.PathLike[str], model: Predictor, tensors: Tensors) -> None:
    """Compare the weights in a file with those of a model that was built on the meta device, without any memory."""
    expected = {name: (tuple(value.shape), value.dtype) for name, value in _weights(model).items()}
    found = {name: (tuple(value.shape), value.dtype) for name, value in tensors.items()}
    wrong = [
        f"{name}: expected {_describe(expected.get(name), found.get(name))}, "
        f"found {_describe(found.get(name), expected.get(name))}"
        for name in sorted(expected.keys() | found.keys())
        if expected.get(name) != found.get(name)
    ]
    if wrong:
        raise ModelFileError(f"the weights in {path} do not fit its configuration; " + "; ".join(wrong[:20]))
    temperatures = {name: value.exp().log() for name, value in tensors.items() if "log_temperature" in name}
    bad = _not_finite(tensors | temperatures)  # τ must be neither 0 nor infinite
    if bad:
        raise ModelFileError(f"the weights in {path} are not finite: {bad}. The model cannot predict; train it again.")


def _describe(weight: tuple[tuple[int, ...], torch.dtype] | None, other: object) -> str:
    """A weight's shape, or its dtype where that is what differs."""
    if weight is None:
        return "nothing"
    return str(weight[1] if isinstance(other, tuple) and other[0] == weight[0] else weight[0])


def _not_finite(tensors: Tensors) -> str:
    return ", ".join(name for name, tensor in tensors.items() if not bool(tensor.isfinite().all()))


def build(config: Header) -> Predictor:
    """Construct a predictor from its configuration, with initial weights."""
    model: Predictor
    if config["model"] == DeepEnsemble.__name__:
        posterior = Posterior(**config["posterior"]) if "posterior" in config else None
        if config.get("differs_in_heads"):
            described, *others = config["members"]
            if any(other != described for other in others):
                raise ValueError("its members differ in more than their heads")
            first = _build_network(described)
            members = [first, *(with_own_head(first) for _ in others)]
        else:
            members = [_build_network(member) for member in config["members"]]
        model = DeepEnsemble(members, posterior, joint=config.get("joint", 0.0))
    else:
        model = _build_network(config)
    if "decisions" in config:
        model.decisions = Decisions(**config["decisions"])
    if "detector" in config:
        model.detector = KeptTensors(**config["detector"])
    return model


def _build_network(config: Header) -> SequenceModel:
    for arguments in (config["layer"]["arguments"], config["arguments"], config["embedding"] or {}):
        if {"device", "dtype", "_weight"} & set(arguments):
            raise ValueError("it names a device, a dtype or weights as an argument")
    layer = LAYERS[config["layer"]["type"]](**config["layer"]["arguments"])
    embedding = None if config["embedding"] is None else nn.Embedding(**config["embedding"])
    own = dict(config["arguments"])
    if "preprocessing" in config:
        own["preprocessing"] = Preprocessing(**config["preprocessing"])
    if own.get("target_scaling"):
        own["target_scaling"] = TargetScaling(own["num_outputs"])
    kind: Any = MODELS[config["model"]]
    model: SequenceModel = kind(layer, embedding=embedding, **own)
    model.set_metadata(Metadata.from_config(config.get("data", {})))
    return model.to(_DTYPES[config["dtype"]])
