"""Files that are no models, damaged, or made to harm are refused."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from sttau import load
from sttau.errors import ModelFileError
from sttau.models import saved
from tests.models.small_models import rewrite, saved_config, saved_tensors


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_is_refused_and_not_run(file: Path, protocol: int) -> None:
    mark = file.with_name("mark")
    file.write_bytes(pickle.dumps(Bomb(mark), protocol))
    with pytest.raises(ValueError, match=r"is a pickle \(torch.save\), .*any code.*model.save\(path\)"):
        load(file)
    assert not mark.exists()
    pickle.loads(file.read_bytes())
    assert mark.exists()  # it would have


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_of_torch_save_is_refused_and_not_run(file: Path, zipped: bool) -> None:
    mark = file.with_name("mark")
    torch.save(Bomb(mark), file, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"is a pickle \(torch.save\)"):
        load(file)
    assert not mark.exists()


def damaged(content: bytes) -> Iterator[bytes]:
    yield b""
    yield content[:4]
    yield content[:200]
    yield content[:-1]
    yield content + b"\0"
    yield random.Random(0).randbytes(len(content))
    yield b"\xff" * len(content)
    yield pickle.dumps({"a": 1}, protocol=0)


@pytest.mark.parametrize("number", range(8))
def test_a_damaged_file_is_refused(file: Path, number: int) -> None:
    file.write_bytes(list(damaged(file.read_bytes()))[number])
    with pytest.raises(ValueError, match=r"model.safetensors is damaged or not a safetensors file: "):
        load(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="there is no file "):
        load(tmp_path)


@pytest.mark.parametrize(
    "metadata",
    [None, {"format": "pt"}, {"sttau": "null"}, {"sttau": "[]"}, {"sttau": '{"format": "other"}'}],
    ids=str,
)
def test_a_safetensors_file_of_another_program_is_refused(file: Path, metadata: Any) -> None:
    save_file({"weight": torch.zeros(2)}, file, metadata=metadata)
    with pytest.raises(ValueError, match="is not a model: it was not written by sttau"):
        load(file)


@pytest.mark.parametrize("version", [0, 4, "1", None])
def test_another_format_version_is_refused(file: Path, version: Any) -> None:
    config = saved_config(file) | {"version": version}
    rewrite(file, config, saved_tensors(file))
    with pytest.raises(ValueError, match=f"has format version {version}; this sttau reads versions up to 3"):
        load(file)


def without(config: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != key}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: without(c, "version"), "format version"),
        (lambda c: without(c, "layer"), "configuration is not valid: .*layer"),
        (lambda c: without(c, "dtype"), "configuration is not valid: .*dtype"),
        (lambda c: c | {"dtype": "float31"}, "configuration is not valid: .*float31"),
        (lambda c: c | {"dtype": "load"}, "configuration is not valid: .*load"),
        (lambda c: c | {"model": "SequenceTagger"}, "configuration is not valid: .*SequenceTagger"),
        (lambda c: c | {"layer": c["layer"] | {"type": "RNN"}}, "configuration is not valid: .*RNN"),
        (lambda c: c | {"arguments": {"classes": 3}}, "configuration is not valid: .*classes"),
        (lambda c: c | {"arguments": {"num_classes": 1}}, "configuration is not valid: num_classes must be"),
        (lambda c: c | {"embedding": {"num_embeddings": 5}}, "configuration is not valid: .*embedding_dim"),
        (
            lambda c: c | {"layer": c["layer"] | {"arguments": c["layer"]["arguments"] | {"mode": "fast"}}},
            "configuration is not valid: mode must be one of .*got 'fast'",
        ),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(
    file: Path, edit: Callable[[dict[str, Any]], dict[str, Any]], message: str
) -> None:
    rewrite(file, edit(saved_config(file)), saved_tensors(file))
    with pytest.raises(ValueError, match=message):
        load(file)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: without(t, "head.bias"), r"head.bias: expected \(3,\), found nothing"),
        (lambda t: t | {"extra": torch.zeros(2)}, r"extra: expected nothing, found \(2,\)"),
        (lambda t: t | {"head.weight": torch.zeros(4, 3)}, r"head.weight: expected \(3, 4\), found \(4, 3\)"),
        (lambda t: t | {"head.bias": torch.zeros(3).int()}, r"head.bias: expected torch.float32, found torch.int32"),
        (lambda t: t | {"head.bias": torch.zeros(3) * 1j}, r"head.bias: expected torch.float32, found .*complex64"),
        (lambda t: t | {"head.bias": torch.zeros(3).double()}, r"head.bias: expected torch.float32, found .*float64"),
    ],
    ids=["missing", "extra", "shape", "integer", "complex", "double"],
)
def test_weights_that_do_not_fit_are_refused(
    file: Path, edit: Callable[[dict[str, Tensor]], dict[str, Tensor]], message: str
) -> None:
    rewrite(file, saved_config(file), edit(saved_tensors(file)))
    with pytest.raises(ValueError, match=f"weights in .* do not fit its configuration; {message}$"):
        load(file)


@pytest.mark.parametrize("value", [-1000.0, 1000.0])
def test_a_temperature_of_zero_or_infinity_is_not_loaded(file: Path, value: float) -> None:
    rewrite(file, saved_config(file), saved_tensors(file) | {"layer.log_temperature_l0": torch.tensor(value)})
    with pytest.raises(ModelFileError, match=r"are not finite: layer\.log_temperature_l0"):
        load(file)


def test_a_changed_bit_in_a_model_is_found(file: Path) -> None:
    content = file.read_bytes()
    for place in (*range(8, 1400, 7), *range(1400, len(content), 41)):
        file.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(ModelFileError):
            load(file)


def test_a_model_without_its_checksum_is_refused(file: Path) -> None:
    save_file(saved_tensors(file), file, metadata={"sttau": json.dumps(saved_config(file))})
    with pytest.raises(ModelFileError, match=r"model.safetensors is damaged: it has no checksum"):
        load(file)


HUGE: dict[str, Callable[[dict[str, Any]], Any]] = {
    "layers": lambda c: c["layer"]["arguments"].update(num_layers=10**6),
    "hidden size": lambda c: c["layer"]["arguments"].update(hidden_size=10**6),
    "states": lambda c: c["layer"]["arguments"].update(num_states=10**12),
    "input size": lambda c: c["layer"]["arguments"].update(input_size=10**12),
    "overflow": lambda c: c["layer"]["arguments"].update(hidden_size=10**30),
    "classes": lambda c: c["arguments"].update(num_classes=10**12),
    "labels": lambda c: (
        c["layer"]["arguments"].update(num_states=10**9),
        c["arguments"].update(num_classes=10**9, head="halves"),
    ),
    "tokens": lambda c: c["embedding"].update(num_embeddings=10**12),
    "members": lambda c: c.update(model="DeepEnsemble", members=[dict(c)] * 10**4),
    "device": lambda c: c["layer"]["arguments"].update(device="meta"),
    "a word for a size": lambda c: c["layer"]["arguments"].update(hidden_size="8"),
    "a list for a layer": lambda c: c.update(layer=["STTauGRU"]),
    "a word for members": lambda c: c.update(model="DeepEnsemble", members="two"),
    "deep": lambda c: c.update(data=json.loads("[" * 900 + "]" * 900)),
}


@pytest.mark.parametrize("kind", HUGE)
def test_a_small_file_that_claims_a_large_model_or_none_is_refused_before_memory_is_taken(
    file: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = saved_config(file)
    HUGE[kind](config)
    rewrite(file, config, saved_tensors(file))
    built: list[torch.device] = []
    usual = saved.build

    def note(header: Any) -> Any:
        built.append(torch.empty(0).device)
        return usual(header)

    monkeypatch.setattr(saved, "build", note)
    with pytest.raises(ModelFileError, match=r"model.safetensors"):
        load(file)
    assert built in ([], [torch.device("meta")])


def test_a_file_larger_than_the_limit_is_refused(file: Path) -> None:
    size = file.stat().st_size
    with pytest.raises(ModelFileError, match=rf"has {size} bytes, more than the limit max_bytes={size - 1}"):
        load(file, max_bytes=size - 1)
    load(file, max_bytes=size)
    load(file, max_bytes=None)
