"""Readers of files, each with a file that it reads: a new reader is one line in ``READERS``.

A server that reads requests is registered in the same way: ``write`` makes the body of a request, ``read`` answers it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save as serialize
from torch import nn

import sttau
from sttau.automata import CompiledModel, from_json, read_automaton, read_strings, tomita
from sttau.automata import compile as compile_model
from sttau.automata.exchange import to_json
from sttau.automata.generative import read_pautomac
from sttau.data import from_arrays
from sttau.data.chunks import read_chunks
from sttau.errors import ResultsError
from sttau.files import write_atomically
from sttau.formats import _as_text, _checksum
from sttau.jobs import Cell, Result, Store, earlier_results, read_results, write_results
from sttau.languages import PA, stochastic
from sttau.models.metadata import Metadata
from sttau.plotting.automaton import write_automaton
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
        name: Name of the file.
    """

    write: Callable[[Path], object]
    read: Callable[[Path], Any]
    damage: Callable[[bytes, random.Random], bytes] = damage
    finds_all: bool = False
    name: str = "checkpoint-00000001.safetensors"


def _model(path: Path) -> object:
    torch.manual_seed(0)
    model = sttau.SequenceClassifier(sttau.STTauGRU(2, 3, 4), 2, nn.Embedding(3, 2))
    model.set_metadata(Metadata(("no", "yes"), (), ("^", "0", "1")))
    return model.save(path)


def _regressor(path: Path) -> object:
    torch.manual_seed(0)
    model = sttau.SequenceRegressor(sttau.STTauLSTM(2, 3, 4), 1)
    model.set_metadata(Metadata((), ("a", "b"), ()))
    x = torch.randn(40, 3, 2)
    sttau.calibrate(model, from_arrays(x.numpy(), x.sum((1, 2)).numpy(), task="regression"), samples=2)
    return model.save(path)


def _ensemble(path: Path) -> object:
    torch.manual_seed(0)
    members = [sttau.SequenceClassifier(nn.GRU(2, 3, batch_first=True), 2) for _ in range(2)]
    return sttau.DeepEnsemble(members).save(path)


def _decisions(model: Any) -> Any:
    return _weights(model), model.decisions


LONG = "series,time,mv,kind,label\n" + "".join(
    f"{name},{time},{number / 7 + time:.4f},{'ab'[time % 2]},{'yes' if number % 2 else 'no'}\n"
    for number, name in enumerate("stuvw")
    for time in range(4)
)
WIDE = "id,t1,t2,t3,label\n" + "".join(f"{n},{n / 3:.3f},{n},{2.5 * n},{n % 3}\n" for n in range(1, 9))
TEXTS = 'text,label\n"a fine, fine film",True\n"a dull film",False\n"a good, good film",True\n"a bad film",False\n'


def _long_rows() -> list[dict[str, Any]]:
    header, *rows = [line.split(",") for line in LONG.splitlines()]
    return [dict(zip(header, (a, int(b), float(c), *rest), strict=True)) for a, b, c, *rest in rows]


def _parquet(path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(_long_rows()), path)


def _npz(path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(
        path, inputs=rng.normal(size=(5, 3, 2)), lengths=[3, 1, 2, 3, 3], labels=[0, 1, 1, 0, 1],
        class_names=["no", "yes"], feature_names=["a", "b"],
    )  # fmt: skip


def _data(data: Any) -> Any:
    tensors = [None if part is None else part.tolist() for part in (data.inputs, data.lengths, data.labels)]
    return tensors, data.class_names, data.feature_names, data.vocabulary, data.ids


def _read(path: Path) -> Any:
    return _data(sttau.data.read(path, missing="keep"))


@cache
def _like(content: str, **options: Any) -> Any:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "train.csv"
        path.write_text(content)
        return sttau.data.read(path, **options)


def _read_chunks(path: Path) -> Any:
    return [_data(chunk) for chunk in read_chunks(path, like=_like(LONG), rows=6)]


def _read_strings(path: Path) -> Any:
    return _data(sttau.data.read(path, like=_like("text,label\n01,a\n1,b\n", layout="strings")))


CELL = Cell("e", "d", "m", 3, {"updates": 3})


def _cell(path: Path) -> None:
    store = Store(path.parent / "store")
    store.write(CELL, Result("e", "d", "m", 3, 3, {"pe": 1.5}, {"updates": 3}, 0.1))
    path.write_bytes(store.path(CELL).read_bytes())


def _read_cell(path: Path) -> Any:
    store = Store(path.parent / "store")
    write_atomically(store.path(CELL), path.read_bytes())
    found = store.read(CELL)
    if found is None:
        raise ResultsError("renamed, and computed again")
    return asdict(found)


def _earlier(path: Path) -> Any:
    try:
        return [asdict(result) for result in earlier_results(path)]
    finally:
        for damaged in path.parent.glob("*.damaged*"):
            damaged.unlink()


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
    "automaton, DOT": Reader(lambda p: write_automaton(tomita(3), p), read_automaton, name="automaton.dot"),
    "automaton, JFLAP": Reader(lambda p: write_automaton(tomita(3), p), read_automaton, name="automaton.jff"),
    "automaton, PRISM": Reader(lambda p: write_automaton(stochastic(2), p), read_automaton, name="automaton.prism"),
    "automaton, AT&T": Reader(lambda p: write_automaton(tomita(3), p), read_automaton, name="automaton.att"),
    "labeled strings": Reader(lambda p: p.write_text("1 ab\n0 ba\n1\n0 bb\n"), lambda p: _data(read_strings(p))),
    "PAutomaC": Reader(lambda p: p.write_text("3 2\n2 0 1\n0\n1 1\n"), read_pautomac),
    "results": Reader(_results, lambda path: [asdict(result) for result in read_results(path)]),
    "results, compressed": Reader(_results, lambda path: read_results(path), finds_all=True, name="results.jsonl.gz"),
    "earlier results": Reader(_results, _earlier),
    "cell": Reader(_cell, _read_cell),
    "training log": Reader(_log, read_log),
    "regressor with thresholds": Reader(_regressor, lambda path: _decisions(sttau.load(path)), finds_all=True),
    "regressor with thresholds, hostile": Reader(_regressor, lambda path: _decisions(sttau.load(path)), with_checksum),
    "ensemble, hostile": Reader(_ensemble, lambda path: _weights(sttau.load(path)), with_checksum),
    "long CSV": Reader(lambda path: path.write_text(LONG), _read, name="long.csv"),
    "long CSV, mapped": Reader(
        lambda path: path.write_text(LONG),
        lambda path: _data(sttau.data.read(path, memory_map=path.parent / "mapped")),
        name="long.csv",
    ),
    "wide CSV": Reader(lambda path: path.write_text(WIDE), _read, name="wide.csv"),
    "texts in CSV": Reader(lambda path: path.write_text(TEXTS), _read, name="texts.csv"),
    "JSON lines": Reader(
        lambda path: path.write_text("\n".join(map(json.dumps, _long_rows()))), _read, name="long.jsonl"
    ),
    "Parquet": Reader(_parquet, _read, name="long.parquet"),
    "long CSV, in chunks": Reader(lambda path: path.write_text(LONG), _read_chunks, name="long.csv"),
    "strings": Reader(lambda path: path.write_text("010\n11\n0\n1\n001\n"), _read_strings, name="strings.txt"),
    "NumPy archive": Reader(_npz, _read, name="arrays.npz"),
}
