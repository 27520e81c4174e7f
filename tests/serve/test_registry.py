from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sttau.files import MODEL_FILE
from sttau.serve.registry import Registry
from tests.serve.conftest import make_series_model


def _touch(path: Path) -> None:
    """Make sure that the time of a file differs, however coarse the clock of the file system is."""
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 10_000_000))


def test_models_are_found_in_folders_and_files_and_have_their_names(models: Path, tmp_path: Path) -> None:
    single = make_series_model().save(tmp_path / "alone.safetensors")
    registry = Registry([models, single, models / "series"], warmup=False)
    assert registry.names == ["alone", "series", "series-2", "strings", "values"]
    with pytest.raises(FileNotFoundError, match="no model found"):
        Registry([tmp_path / "nothing"])


def test_a_changed_file_is_loaded_and_a_damaged_one_keeps_the_old_model(tmp_path: Path) -> None:
    path = make_series_model(0).save(tmp_path / "m" / MODEL_FILE)
    registry = Registry([tmp_path], warmup=False)
    first = registry.get("m")
    assert registry.refresh() == []

    make_series_model(1).save(path)
    _touch(path)
    assert registry.refresh() == ["m"]
    second = registry.get("m")
    assert second.version != first.version

    content = path.read_bytes()
    path.write_bytes(content[:-7])
    _touch(path)
    assert registry.refresh() == []
    assert registry.get("m") is second
    assert "damaged" in second.error
    assert registry.failures == 1
    assert registry.refresh() == []
    assert registry.failures == 1, "the same damaged file is not read again"

    path.write_bytes(content)
    _touch(path)
    assert registry.refresh() == ["m"]
    assert registry.get("m").version == second.version
    assert not registry.get("m").error


def test_a_removed_file_keeps_its_model_and_a_new_one_is_added(tmp_path: Path) -> None:
    make_series_model().save(tmp_path / "a" / MODEL_FILE)
    registry = Registry([tmp_path], warmup=False)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    assert registry.refresh() == ["b"]
    shutil.rmtree(tmp_path / "a")
    assert registry.refresh() == []
    assert registry.names == ["a", "b"]


def test_a_name_may_be_left_out_only_where_there_is_one_model(models: Path) -> None:
    with pytest.raises(LookupError, match="name a model; the models are series, strings, values"):
        Registry([models], warmup=False).get(None)
    assert Registry([models / "series"], warmup=False).get(None).name == "series"
