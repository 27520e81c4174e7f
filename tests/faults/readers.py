"""Readers of files, each with a file that it reads: a new reader is one line in ``READERS``."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import save as serialize
from torch import nn

import sttau
from sttau.automata import CompiledModel, from_json, tomita
from sttau.automata import compile as compile_model
from sttau.automata.exchange import to_json
from sttau.formats import _as_text, _checksum
from sttau.jobs import Result, read_results, write_results
from sttau.languages import PA, stochastic
from sttau.models.metadata import Metadata
from sttau.sklearn import STTauClassifier
from sttau.training.checkpoints import read_checkpoint, write_checkpoint
from sttau.training.log import JsonLines, Update, read_log
from tests.faults.mutations import change_value, damage


class Reader(NamedTuple):
    """A reader and how it is tested.

    Attributes:
        write: Writes a file that can be read.
        read: Reads it; the result is compared by ``repr``.
        damage: Damages the content of the file.
        finds_all: Whether every change of the content must be found: the file has a checksum.
    """

    write: Callable[[Path], object]
    read: Callable[[Path], Any]
    damage: Callable[[bytes, random.Random], bytes] = damage
    finds_all: bool = False


def _model(path: Path) -> object:
    torch.manual_seed(0)
    model = sttau.SequenceClassifier(sttau.STTauGRU(2, 3, 4), 2, nn.Embedding(3, 2))
    model.set_metadata(Metadata(("no", "yes"), (), ("^", "0", "1")))
    return model.save(path)


def _estimator(path: Path) -> object:
    X = torch.arange(36.0).reshape(12, 3).numpy()
    fitted = STTauClassifier(
        hidden_size=2, updates=1, random_state=0, class_weight={3: 2.0}, settings={"num_states": 2}
    )
    return fitted.fit(X, [3, 7] * 6).save(path)


def _parts(estimator: STTauClassifier) -> Any:
    return _weights(estimator.model_), estimator.get_params(), estimator.classes_, estimator.n_features_in_


def _compiled(path: Path) -> object:
    torch.manual_seed(0)
    model = sttau.SequenceClassifier(sttau.STTauGRU(2, 3, 4), 2, nn.Embedding(3, 2))
    return compile_model(model, ("^", "0", "1")).save(path)


def _checkpoint(path: Path) -> None:
    write_checkpoint(path, {"number": 3, "settings": {"seed": 0}, "model": {"w": torch.arange(6.0)}, "best": None})


def _results(path: Path) -> object:
    return write_results([Result("e", "d", "m", 3, n, {"pe": 1.5}, {"updates": 3}, 0.1) for n in range(3)], path)


def _log(path: Path) -> object:
    with JsonLines(path) as log:
        for number in (1, 2, 3):
            log(Update(number, 3, 0.5, (1.0,), metrics={"nll": 0.3}))
    return path


def _weights(model: Any) -> Any:
    return model, {name: value.tolist() for name, value in model.state_dict().items()}, model.vocabulary


def with_checksum(content: bytes, chance: random.Random) -> bytes:
    """Change a value in the header, or the name or shape of a tensor, and make the checksum right: a hostile file."""
    path = Path("/dev/shm" if Path("/dev/shm").exists() else ".") / f"sttau-fault-{chance.getrandbits(64):x}"
    try:
        path.write_bytes(content)
        with safe_open(path, framework="pt") as file:
            header = json.loads(file.metadata()["sttau"])
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a dict)
    finally:
        path.unlink(missing_ok=True)
    header.pop("sha256")
    if tensors and chance.random() < 0.3:
        name = chance.choice(sorted(tensors))
        tensor = tensors.pop(name)
        kinds = (
            tensor.half,
            tensor.int,
            lambda: tensor[None],
            lambda: tensor * torch.nan,
            lambda: tensor.flatten()[:0],
        )
        tensors[chance.choice([name, "other"])] = chance.choice(kinds)()
    else:
        for _ in range(1 + chance.randrange(2)):
            header = change_value(header, chance)
    text = _as_text(header)
    signed = header | {"sha256": _checksum(text, tensors)} if isinstance(header, dict) else header
    return serialize({name: tensor.contiguous() for name, tensor in tensors.items()}, {"sttau": _as_text(signed)})


READERS: dict[str, Reader] = {
    "model": Reader(_model, lambda path: _weights(sttau.load(path)), finds_all=True),
    "model, hostile": Reader(_model, lambda path: _weights(sttau.load(path)), with_checksum),
    "checkpoint": Reader(_checkpoint, read_checkpoint, finds_all=True),
    "checkpoint, hostile": Reader(_checkpoint, read_checkpoint, with_checksum),
    "estimator, hostile": Reader(_estimator, lambda path: _parts(STTauClassifier.load(path)), with_checksum),
    "compiled model": Reader(_compiled, CompiledModel.load),
    "compiled model, hostile": Reader(_compiled, CompiledModel.load, with_checksum),
    "DFA": Reader(
        lambda p: p.write_text(to_json(tomita(3)), "utf-8"), lambda p: from_json(p.read_text("latin-1"), p.name)
    ),
    "PA": Reader(lambda path: stochastic(1).save(path), PA.load),
    "results": Reader(_results, lambda path: [asdict(result) for result in read_results(path)]),
    "training log": Reader(_log, read_log),
}
