from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from sttau.data import download as room
from sttau.data.download import _BLOCK, ResumingDownload, download

BODY = bytes(range(256)) * 2000
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same downloader, with less patience."""
    monkeypatch.setattr(room, "ResumingDownload", Impatient)


class Impatient(ResumingDownload):
    def __init__(self, part: Path, progress: Any) -> None:
        super().__init__(part, progress, attempts=3, timeout=0.5, pause=0.01)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "file.bin"


def resumed_at(publisher: Any) -> int:
    return int(publisher.requests[-1].removeprefix("bytes=").removesuffix("-"))


def left(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())


@pytest.mark.parametrize("sha256", [SHA256, None])
def test_a_file_arrives_whole_with_progress_and_is_not_fetched_twice(
    publisher: Any, target: Path, sha256: str | None
) -> None:
    publisher.files["file.bin"] = BODY
    seen: list[tuple[str, int, int | None]] = []
    for _ in range(2):
        assert download(publisher.url("file.bin"), target, sha256, lambda *step: seen.append(step)) == target
    assert target.read_bytes() == BODY
    assert publisher.requests == ["all"]
    assert seen[0] == ("file.bin", 0, len(BODY))
    assert seen[-1] == ("file.bin", len(BODY), len(BODY))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert left(target) == ["file.bin"]


@pytest.mark.parametrize("fault", ["truncated", "stalled"])
def test_a_download_that_breaks_off_goes_on_where_it_stopped(publisher: Any, target: Path, fault: str) -> None:
    publisher.files["file.bin"] = BODY
    publisher.faults = [fault]
    download(publisher.url("file.bin"), target, SHA256)
    assert target.read_bytes() == BODY
    assert publisher.requests[0] == "all"
    assert 0 <= len(BODY) // 2 - resumed_at(publisher) < _BLOCK
    assert publisher.sent - len(BODY) < _BLOCK  # hardly anything twice
    assert left(target) == ["file.bin"]


def test_a_download_given_up_goes_on_the_next_time(publisher: Any, target: Path) -> None:
    publisher.files["file.bin"] = BODY
    publisher.faults = ["truncated", "503", "503"]
    with pytest.raises(OSError, match="answers 503 Service Unavailable"):
        download(publisher.url("file.bin"), target, SHA256)
    assert left(target) == [".file.bin.part", ".file.bin.part.version"]  # not under its own name
    download(publisher.url("file.bin"), target, SHA256)
    assert target.read_bytes() == BODY
    assert 0 <= len(BODY) // 2 - resumed_at(publisher) < _BLOCK


def test_a_file_that_changed_meanwhile_is_not_joined_to_the_old_part(publisher: Any, target: Path) -> None:
    publisher.files["file.bin"] = BODY
    publisher.faults = ["truncated", "503", "503"]
    with pytest.raises(OSError, match="503"):
        download(publisher.url("file.bin"), target)
    publisher.files["file.bin"], publisher.etag = BODY[::-1], '"2"'
    download(publisher.url("file.bin"), target)
    assert target.read_bytes() == BODY[::-1]


@pytest.mark.parametrize("etag", [None, 'W/"1"'])
def test_without_a_version_of_the_file_a_download_starts_again(publisher: Any, target: Path, etag: str | None) -> None:
    publisher.files["file.bin"], publisher.etag = BODY, etag
    publisher.faults = ["truncated"]
    download(publisher.url("file.bin"), target, SHA256)
    assert publisher.requests == ["all", "all"]
    assert target.read_bytes() == BODY


def test_servers_without_ranges_or_sizes_and_slow_ones_are_fine(publisher: Any, target: Path) -> None:
    publisher.files["file.bin"] = BODY
    publisher.faults = ["truncated", "no ranges"]
    download(publisher.url("file.bin"), target, SHA256)
    assert target.read_bytes() == BODY
    for fault in ("no size", "slow"):
        publisher.faults = [fault]
        other = target.with_name(fault)
        download(publisher.url("file.bin"), other, SHA256)
        assert other.read_bytes() == BODY


@pytest.mark.parametrize("fault", ["wrong range", "416"])
def test_a_server_that_sends_another_part_is_asked_for_all(publisher: Any, target: Path, fault: str) -> None:
    publisher.files["file.bin"] = BODY
    publisher.faults = ["truncated", fault]
    if fault == "416":  # the part that is there is longer than the file
        target.parent.mkdir()
        target.with_name(".file.bin.part").write_bytes(BODY + b"more")
        target.with_name(".file.bin.part.version").write_text('"1"')
        publisher.faults = []
    download(publisher.url("file.bin"), target, SHA256)
    assert target.read_bytes() == BODY
    assert publisher.requests[-1] == "all"


def test_a_corrupted_file_is_refused_and_not_kept(publisher: Any, target: Path) -> None:
    publisher.files["file.bin"] = BODY
    publisher.faults = ["corrupted"]
    with pytest.raises(ValueError, match="does not match the known hash"):
        download(publisher.url("file.bin"), target, SHA256)
    assert left(target) == []
    download(publisher.url("file.bin"), target, SHA256)
    assert target.read_bytes() == BODY


def test_what_is_not_there_is_asked_for_once_and_named(publisher: Any, target: Path) -> None:
    with pytest.raises(OSError, match=r"127\.0\.0\.1:\d+ answers 404 Not Found"):
        download(publisher.url("file.bin"), target)
    assert publisher.requests == ["all"]


def test_a_server_that_never_answers_is_given_up(publisher: Any, target: Path) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/file.bin"
        with pytest.raises(OSError, match="does not answer in time"):
            download(url, target)
    with pytest.raises(OSError, match="no connection to"):  # and one that is gone
        download(url, target)


def test_a_full_disk_is_told_from_a_bad_connection(
    publisher: Any, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher.files["file.bin"] = BODY

    def full(source: object, to: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        download(publisher.url("file.bin"), target)


def test_nothing_is_said_and_the_loggers_are_left_as_they_were(
    publisher: Any, target: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import pooch

    publisher.files["file.bin"] = BODY
    level = pooch.get_logger().level
    download(publisher.url("file.bin"), target)
    assert capfd.readouterr() == ("", "")
    assert pooch.get_logger().level == level
