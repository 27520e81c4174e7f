from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from sttau.data.archive import read_members

ESCAPES = ["../evil", "a/../../evil", "/etc/evil", "..\\evil", "C:/evil", "C:\\evil"]


def everything(name: object) -> bool:
    return True


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo("placeholder")
            info.filename = name  # as it is: the library would clean it
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return path


def make_tar(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize("kind", ["zip", "w", "w:gz", "w:xz", "w:bz2"])
def test_wanted_files_are_read_from_every_kind(tmp_path: Path, kind: str) -> None:
    members = {"a/one.txt": b"1", "a/two.dat": b"2", "three.txt": b"3"}
    path = tmp_path / "archive"
    _ = make_zip(path, members) if kind == "zip" else make_tar(path, members, kind)
    found = dict(read_members(path, lambda name: name.suffix == ".txt"))
    assert {str(name): content for name, content in found.items()} == {"a/one.txt": b"1", "three.txt": b"3"}


@pytest.mark.parametrize("name", ESCAPES)
@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_a_name_that_leads_out_of_the_folder_is_refused_even_if_nobody_wants_it(
    tmp_path: Path, name: str, make: object
) -> None:
    path = (make_zip if make is make_zip else make_tar)(tmp_path / "archive", {name: b"evil", "good": b"good"})
    with pytest.raises(ValueError, match="leads out of its folder; nothing was unpacked"):
        list(read_members(path, lambda name: name.name == "good"))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_in_a_tar_are_not_opened(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "archive.tar"
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("secret.txt")
        info.type, info.linkname = kind, "/etc/passwd"
        archive.addfile(info)
    assert list(read_members(path, lambda name: False)) == []
    with pytest.raises(ValueError, match="not a regular file"):
        list(read_members(path, everything))


def test_links_in_a_zip_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("secret.txt")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(ValueError, match="holds a link named"):
        list(read_members(path, everything))


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path, make: object) -> None:
    build = make_zip if make is make_zip else make_tar
    path = build(tmp_path / "bomb", {"a": bytes(5_000_000), "b": bytes(5_000_000)})
    assert path.stat().st_size < 100_000
    with pytest.raises(ValueError, match="more than 9,000,000 bytes unpacked"):
        list(read_members(path, everything, max_bytes=9_000_000))
    assert len(list(read_members(path, everything, max_bytes=10_000_000))) == 2
    with pytest.raises(ValueError, match="members"):
        list(read_members(path, everything, max_members=1))


def test_a_zip_whose_header_understates_its_size_is_read_no_further(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "bomb.zip", {"a": bytes(1_000_000)})
    content = path.read_bytes()
    path.write_bytes(content.replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises((ValueError, zipfile.BadZipFile)):
        list(read_members(path, everything, max_bytes=1000))


def test_a_locked_zip_is_refused(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "locked.zip", {"a": b"1"})
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flag in the local header, then in the directory
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="locked with a password"):
        list(read_members(path, everything))
