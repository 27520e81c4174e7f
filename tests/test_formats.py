"""The file format: tags, versions, migrations and checksums."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sttau import SequenceClassifier, STTauGRU, load
from sttau.automata import PA, stochastic, to_json, tomita
from sttau.errors import SttauError
from sttau.formats import Format, Header, Tensors
from sttau.training.checkpoints import CHECKPOINT_FORMAT


def _rename(header: Header, tensors: Tensors) -> tuple[Header, Tensors]:
    return {"format": header["format"], "title": header["name"]}, {"weight": tensors["w"]}


OLD = Format("sttau.notes", 1)
NEW = Format("sttau.notes", 2, {1: _rename})


def test_an_older_version_is_migrated(tmp_path: Path) -> None:
    path = OLD.write(tmp_path / "a.safetensors", {"name": "first"}, {"w": torch.ones(2)})
    header, tensors = NEW.read(path)
    assert (header["title"], header["version"]) == ("first", 2)
    assert tensors["weight"].tolist() == [1.0, 1.0]


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = NEW.write(tmp_path / "a.safetensors", {"title": "first"}, {})
    with pytest.raises(ValueError, match=r"has format version 2; this sttau reads versions up to 1. Update sttau"):
        OLD.read(path)


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    files = [NEW.write(tmp_path / name, {"title": "é", "size": 0.1}, {"w": torch.ones(2)}) for name in "abcdef"]
    assert len({file.read_bytes() for file in files}) == 1


def test_a_changed_bit_is_found(tmp_path: Path) -> None:
    path = NEW.write(tmp_path / "a.safetensors", {"title": "first"}, {"w": torch.ones(2)})
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(SttauError, match="its checksum is wrong"):
        NEW.read(path)


def test_a_file_of_another_kind_says_what_it_is(tmp_path: Path) -> None:
    model = SequenceClassifier(STTauGRU(2, 4, 3), 2).save(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"is not a checkpoint: it is a model; read it with sttau.load\(path\)"):
        CHECKPOINT_FORMAT.read(model)
    state = CHECKPOINT_FORMAT.write(tmp_path / "state.safetensors", {"value": None}, {})
    with pytest.raises(ValueError, match="is not a model: it is a checkpoint"):
        load(state)


def test_a_model_and_an_automaton_are_told_apart_whichever_is_read_as_the_other(tmp_path: Path) -> None:
    for automaton, name in ((tomita(3), "DFA"), (stochastic(1), "PA")):
        path = tmp_path / "automaton.json"
        path.write_text(to_json(automaton))
        with pytest.raises(SttauError, match=rf"is not a model: it is a {name}; read it with sttau.*read_automaton"):
            load(path)
    model = SequenceClassifier(STTauGRU(2, 4, 3), 2).save(tmp_path / "model.safetensors")
    with pytest.raises(SttauError, match=r"is not text in UTF-8: it is a model; read it with sttau.load\(path\)"):
        PA.load(model)
    for content in (b"\xff\xfe", model.read_bytes()[:20]):
        path.write_bytes(content)
        with pytest.raises(SttauError, match=r"is not text in UTF-8$"):
            PA.load(path)
