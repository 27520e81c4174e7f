"""Archives from untrusted sources: nothing is unpacked to a path that the archive chooses."""

from __future__ import annotations

import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

_MEMBERS = 500_000
_BYTES = 2 << 30


def read_members(
    path: Path, wanted: Callable[[PurePosixPath], bool], *, max_bytes: int = _BYTES, max_members: int = _MEMBERS
) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield name and content of the wanted files of a zip or a tar, compressed or not.

    An archive is refused as a whole if any of its names would lead out of a folder, or if it unpacks to more than the
    limits, whatever its headers claim. Links and devices are never followed: they are refused where they are wanted.

    Args:
        path: Path of the archive.
        wanted: Function that returns whether the file of a name is read.
        max_bytes: Largest unpacked size.
        max_members: Largest number of members.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.zip"
        ...     with zipfile.ZipFile(path, "w") as archive:
        ...         archive.writestr("notes/one.txt", "1")
        ...     [(str(name), content) for name, content in read_members(path, lambda name: True)]
        [('notes/one.txt', b'1')]
    """
    read = _read_zip if zipfile.is_zipfile(path) else _read_tar
    yield from read(path, wanted, max_bytes, max_members)


def _read_zip(
    path: Path, wanted: Callable[[PurePosixPath], bool], max_bytes: int, max_members: int
) -> Iterator[tuple[PurePosixPath, bytes]]:
    left = max_bytes
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > max_members:
            raise _too_much(path, f"{len(members)} members, at most {max_members} are expected")
        for member in members:
            name = _safe(path, member.filename)
            if member.is_dir() or not wanted(name):
                continue
            if member.flag_bits & 1:
                raise ValueError(f"{path.name} is locked with a password")
            if stat.S_ISLNK(member.external_attr >> 16):
                raise ValueError(f"{path.name} holds a link named {name}, where a file is expected; it was not opened")
            with archive.open(member) as file:  # reads no further than the limit, even if the header understates
                content = file.read(left + 1)
            left -= len(content)
            if left < 0:
                raise _too_much(path, f"more than {max_bytes:,} bytes unpacked")
            yield name, content


def _read_tar(
    path: Path, wanted: Callable[[PurePosixPath], bool], max_bytes: int, max_members: int
) -> Iterator[tuple[PurePosixPath, bytes]]:
    left = max_bytes
    with tarfile.open(path, "r|*") as archive:  # a stream: every byte is unpacked once
        for count, member in enumerate(archive, 1):
            if count > max_members:
                raise _too_much(path, f"more than {max_members} members")
            name = _safe(path, member.name)
            left -= max(member.size, 0)
            if left < 0:
                raise _too_much(path, f"more than {max_bytes:,} bytes unpacked")
            if member.isdir() or not wanted(name):
                continue
            file = archive.extractfile(member) if member.isreg() else None
            if file is None:
                raise ValueError(f"{path.name} holds {name}, which is not a regular file; it was not opened")
            yield name, file.read()


def _safe(path: Path, name: str) -> PurePosixPath:
    """Return the name, if it stays inside any folder it is unpacked to."""
    plain = PurePosixPath(name.replace("\\", "/"))
    if plain.is_absolute() or ".." in plain.parts or ":" in name.split("/")[0] or "\0" in name:
        raise ValueError(f"{path.name} holds the name {name!r}, which leads out of its folder; nothing was unpacked")
    return plain


def _too_much(path: Path, why: str) -> ValueError:
    return ValueError(f"{path.name} is not what it should be: {why}; nothing was kept")
