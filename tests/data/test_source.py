from __future__ import annotations

import hashlib
import io
import logging
import os
import socket
import time
import zipfile
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sttau.data import DATASETS, load
from sttau.data.source import (
    Content,
    Form,
    Source,
    cache_folder,
    data_folders,
    fetch,
    fingerprint,
    load_arrays,
    prepare,
    prepared_file,
    read_content,
)

CONTENT = {"x": np.arange(6, dtype=np.int32)}


def read_npz(path: Path) -> Content:
    return load_arrays(path, ["x"])


def read_text(path: Path) -> Content:
    return {"x": np.array(path.read_text().split(), dtype=np.int32)}


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    mine, cache = tmp_path / "mine", tmp_path / "cache"
    mine.mkdir()
    monkeypatch.setenv("STTAU_DATA", str(mine))
    monkeypatch.setenv("STTAU_CACHE", str(cache))
    return mine, cache


def make_source(url: str = "http://127.0.0.1:9/numbers.npz") -> Source:
    return Source(
        name="numbers",
        title="Six numbers",
        license="free",
        citation="nobody",
        sizes={"test": 6},
        folder="numbers",
        forms=(
            Form("an archive", ("numbers.npz",), read_npz, urls=(url,)),
            Form("a text", ("numbers.txt",), read_text),
        ),
        content=fingerprint(CONTENT),
    )


def archive(values: Any = CONTENT["x"]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, x=values)
    return buffer.getvalue()


def test_files_are_looked_for_in_the_users_folder_then_in_the_cache_then_downloaded(
    folders: tuple[Path, Path], publisher: Any
) -> None:
    mine, cache = folders
    publisher.files["numbers.npz"] = archive()
    source = make_source(publisher.url("numbers.npz"))
    assert fetch(source)[1] == [cache / "numbers/numbers.npz"]
    assert fetch(source)[1] == [cache / "numbers/numbers.npz"]
    assert len(publisher.requests) == 1
    (mine / "numbers.txt").write_text("0 1 2 3 4 5")
    assert fetch(source)[1] == [mine / "numbers.txt"]
    (mine / "numbers").mkdir()
    (mine / "numbers/numbers.npz").write_bytes(archive())
    assert fetch(source)[1] == [mine / "numbers/numbers.npz"]


def test_every_form_gives_the_same_content(folders: tuple[Path, Path]) -> None:
    mine, _ = folders
    (mine / "numbers.txt").write_text("0 1 2 3 4 5")
    (mine / "numbers.npz").write_bytes(archive())
    for path in mine.iterdir():
        assert np.array_equal(read_content(make_source(), path)["x"], CONTENT["x"])


@pytest.mark.parametrize("data_set", [name for name, entry in DATASETS.items() if entry.source.forms])
def test_offline_with_nothing_cached_one_sentence_says_what_to_do(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, data_set: str
) -> None:
    def no_network(*args: object, **kwargs: object) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with pytest.raises(FileNotFoundError, match=f"{data_set} is not on this machine") as error:
        load(data_set, "test")
    message = str(error.value)
    assert "\n" not in message
    if data_set == "bih":
        assert "behind an account: download mitbih_train.csv and mitbih_test.csv" in message
        assert "sttau data get bih --path FOLDER" in message
    else:
        assert "could not be downloaded (no connection to" in message
        assert f"run `sttau data get {data_set}` with a network connection, or put" in message
        assert "set STTAU_DATA to it." in message


@pytest.mark.parametrize(
    ("served", "message"),
    [
        (archive(np.arange(7, dtype=np.int32)), "does not hold Six numbers as it was published: the SHA-256"),
        (archive()[:-30], "cannot be read as an archive"),
        (b"<html>Please log in</html>", "cannot be read as an archive"),
        (b"", "cannot be read as an archive"),
    ],
    ids=["other content", "cut", "another file", "empty"],
)
def test_a_wrong_download_is_noticed_removed_and_can_be_tried_again(
    folders: tuple[Path, Path], publisher: Any, served: bytes, message: str
) -> None:
    source = make_source(publisher.url("numbers.npz"))
    publisher.files["numbers.npz"] = served
    with pytest.raises(ValueError, match=f"{message}.* The download was removed; try again"):
        read_content(source)
    publisher.files["numbers.npz"] = archive()
    assert np.array_equal(read_content(source)["x"], CONTENT["x"])


@pytest.mark.parametrize("how", ["folder", "path", "one folder for both"])
def test_a_wrong_file_of_the_users_own_is_left_alone(
    folders: tuple[Path, Path], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folders[0] / "numbers.txt"
    path.write_text("1 2 3")
    if how == "one folder for both":
        monkeypatch.setenv("STTAU_CACHE", str(folders[0]))
    with pytest.raises(ValueError, match="Get a fresh copy"):
        read_content(make_source(), path if how == "path" else None)
    assert path.exists()


def test_a_checksum_of_the_publisher_is_checked_before_a_file_is_read(
    folders: tuple[Path, Path], publisher: Any
) -> None:
    publisher.files["numbers.npz"] = archive()
    source = make_source(publisher.url("numbers.npz"))
    right, wrong = hashlib.sha256(archive()).hexdigest(), "0" * 64
    with pytest.raises(ValueError, match="does not match the known hash"):
        fetch(replace(source, forms=(replace(source.forms[0], sha256=(wrong,)),)))
    assert not list(folders[1].rglob("numbers.npz"))
    assert fetch(replace(source, forms=(replace(source.forms[0], sha256=(right,)),)))[1][0].exists()


def test_a_pickle_in_an_archive_is_not_opened(folders: tuple[Path, Path]) -> None:
    path = folders[0] / "numbers.npz"
    np.savez(path, x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        read_content(make_source())


def test_a_path_that_holds_nothing_is_refused_with_the_names_expected(tmp_path: Path) -> None:
    (tmp_path / "other.txt").touch()
    for path in (tmp_path, tmp_path / "other.txt", tmp_path / "none"):
        with pytest.raises(FileNotFoundError, match=r"no files of numbers: expected numbers\.npz; or numbers\.txt"):
            fetch(make_source(), path)


def test_one_of_several_files_stands_for_all_that_lie_beside_it(tmp_path: Path) -> None:
    for name in ("mitbih_train.csv", "mitbih_test.csv"):
        (tmp_path / name).touch()
        with pytest.raises(FileNotFoundError) if name.endswith("train.csv") else nullcontext():
            _, files = fetch(DATASETS["bih"].source, tmp_path / name)
            assert files == [tmp_path / "mitbih_train.csv", tmp_path / "mitbih_test.csv"]


def make(content: Content) -> dict[str, Any]:
    return {"double": 2 * np.asarray(content["x"]), "vocabulary": np.array(["a", "b"])}


def test_prepared_arrays_come_from_the_cache_whatever_happens_to_the_files(folders: tuple[Path, Path]) -> None:
    file = folders[0] / "numbers.txt"
    file.write_text("0 1 2 3 4 5")
    source = make_source()
    first = prepare(source, "1", make, ("double", "vocabulary"))
    file.unlink()
    again = prepare(source, "1", _never, ("double", "vocabulary"))
    assert first["double"].tolist() == again["double"].tolist() == [0, 2, 4, 6, 8, 10]
    assert again["vocabulary"].tolist() == ["a", "b"]


def _never(content: Content) -> dict[str, Any]:
    raise AssertionError("the cache was not used")


@pytest.mark.parametrize("damage", ["cut", "empty", "one bit", "other arrays"])
def test_a_damaged_cache_is_made_again(
    folders: tuple[Path, Path], damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    (folders[0] / "numbers.txt").write_text("0 1 2 3 4 5")
    source = make_source()
    prepare(source, "1", make, ("double",))
    file = prepared_file(source, "1")
    whole = bytearray(file.read_bytes())
    if damage == "cut":
        file.write_bytes(whole[: len(whole) // 2])
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "one bit":
        whole[whole.index(np.int32(8).tobytes() + np.int32(10).tobytes())] ^= 1
        file.write_bytes(whole)
    else:
        np.savez(file, other=np.zeros(1))
    with caplog.at_level(logging.WARNING, "sttau.data"):
        assert prepare(source, "1", make, ("double",))["double"].tolist() == [0, 2, 4, 6, 8, 10]
    assert "is damaged" in caplog.text
    with zipfile.ZipFile(file) as cache:
        assert cache.testzip() is None


def test_another_recipe_or_content_has_another_cache(folders: tuple[Path, Path]) -> None:
    source = make_source()
    names = {
        prepared_file(source, "1"),
        prepared_file(source, "2"),
        prepared_file(replace(source, content="0" * 64), "1"),
    }
    assert len(names) == 3


def test_a_cache_that_cannot_be_written_costs_only_time(
    folders: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    (folders[0] / "numbers.txt").write_text("0 1 2 3 4 5")
    folders[1].write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING, "sttau.data"):
        assert prepare(make_source(), "1", make, ("double",))["double"].tolist() == [0, 2, 4, 6, 8, 10]
    assert "could not be written" in caplog.text


def test_without_settings_the_cache_is_the_platforms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("STTAU_CACHE")
    monkeypatch.delenv("STTAU_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_folders() == [cache_folder()]
    assert cache_folder().name == "sttau"
    if os.name == "posix" and os.uname().sysname == "Linux":
        assert cache_folder() == tmp_path / "sttau"


def test_a_checksum_depends_on_names_types_shapes_values_and_words_but_not_on_white_space() -> None:
    base: dict[str, Any] = {"x": np.arange(6, dtype=np.int32), "t": ["a b", "c"]}
    same: dict[str, Any] = {"t": ["a  b\r\n", "c "], "x": np.arange(6, dtype=">i4")}
    others: list[dict[str, Any]] = [
        {**base, "x": np.arange(6, dtype=np.int64)},
        {**base, "x": np.arange(6, dtype=np.int32).reshape(2, 3)},
        {**base, "x": np.array([0, 1, 2, 3, 4, 6], dtype=np.int32)},
        {**base, "t": ["a", "b c"]},
        {**base, "t": ["a b", "c", ""]},
        {"y": base["x"], "t": base["t"]},
    ]
    assert fingerprint(base) == fingerprint(same)
    assert len({fingerprint(base), *map(fingerprint, others)}) == 1 + len(others)
