from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from sttau.formats import DamagedError, Format, Header, Tensors

OLD = Format("sttau.notes", 1)


def _second(header: Header, tensors: Tensors) -> tuple[Header, Tensors]:
    return header | {"title": header["name"]}, tensors


def _third(header: Header, tensors: Tensors) -> tuple[Header, Tensors]:
    return header, {f"layer.{name}": value for name, value in tensors.items()}


NEW = Format("sttau.notes", 3, {1: _second, 2: _third})


def _write(folder: Path, notes: Format = OLD) -> Path:
    return notes.write(folder / "a.safetensors", {"name": "weights"}, {"w": torch.arange(3.0)})


def test_an_old_file_is_migrated_version_by_version(tmp_path: Path) -> None:
    header, tensors = NEW.read(_write(tmp_path))
    assert (header["version"], header["title"]) == (3, "weights")
    assert list(tensors) == ["layer.w"]
    assert torch.equal(tensors["layer.w"], torch.arange(3.0))


def test_a_newer_file_and_another_format_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"format version 3; this sttau reads versions up to 1. Update sttau"):
        OLD.read(_write(tmp_path, NEW))
    model = Format("sttau.model").write(tmp_path / "m.safetensors", {}, {})
    with pytest.raises(ValueError, match=r"is not sttau.notes: it is a model; read it with sttau.load"):
        OLD.read(model)


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    first = _write(tmp_path).read_bytes()
    assert _write(tmp_path).read_bytes() == first


@pytest.mark.parametrize("place", [-1, -7, 60])
def test_a_changed_byte_is_detected(tmp_path: Path, place: int) -> None:
    path = _write(tmp_path)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises((DamagedError, ValueError)):
        OLD.read(path)


def test_a_missing_checksum_is_accepted_only_where_the_format_allows_it(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path, tensors = tmp_path / "plain.safetensors", {"w": torch.zeros(2)}
    save_file(tensors, path, {"sttau": '{"format": "sttau.notes", "version": 1}'})
    loaded: Tensor = OLD.read(path).tensors["w"]
    assert torch.equal(loaded, tensors["w"])
    with pytest.raises(DamagedError, match="it has no checksum"):
        Format("sttau.notes", checksum=True).read(path)
