"""Sources of data sets: publisher, terms, file formats and checksums.

A data set is distributed in several forms: the publisher's archive, or compact files made from it. Each form has a
reader; all readers return the same content, and its SHA-256 is checked. So it does not matter where the files come
from, and a wrong, damaged or altered copy is noticed even where a publisher gives no checksum for an archive.
"""

from __future__ import annotations

import hashlib
import io
import logging
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sttau.data.download import Progress, download
from sttau.files import write_atomically

Array = npt.NDArray[Any]
#: What a reader returns: arrays, and lists of texts.
Content = Mapping[str, "Array | list[str]"]

_LOG = logging.getLogger("sttau.data")
_UNREADABLE = (
    ValueError,
    KeyError,
    EOFError,
    zipfile.BadZipFile,
    tarfile.TarError,
    lzma.LZMAError,
    zlib.error,
    OSError,
)


@dataclass(frozen=True)
class Form:
    """Files that together hold a data set, and how they are read.

    Attributes:
        about: Short description of the form.
        files: Names of the files, all of them required.
        read: Function from their paths to the content.
        urls: Address of each file at the publisher; empty where an account is required.
        sha256: Checksum of each file, where the publisher gives one.
        check: Function that raises an error for wrong content, for a form that could not be compared with the others
            in full. A wrong checksum of the content is then only a warning.
    """

    about: str
    files: tuple[str, ...]
    read: Callable[..., Content]
    urls: tuple[str, ...] = ()
    sha256: tuple[str | None, ...] = ()
    check: Callable[[Content], None] | None = None


@dataclass(frozen=True)
class Source:
    """The description of a data set.

    Attributes:
        name: Name of the data set.
        title: Title given by its publisher.
        license: Terms of use, or that none are stated.
        citation: Reference to cite.
        sizes: Number of sequences in each split.
        homepage: Address of its home page.
        folder: Name of the folder of its files; empty for data without files.
        forms: Forms it is read from, the one to download first.
        content: SHA-256 of the content, the same for all forms.
        by_hand: Instructions where no form can be downloaded.
    """

    name: str
    title: str
    license: str
    citation: str
    sizes: dict[str, int]
    homepage: str = ""
    folder: str = ""
    forms: tuple[Form, ...] = field(default=(), repr=False)
    content: str = ""
    by_hand: str = ""

    def provenance(self, how: str) -> str:
        """Title, terms and citation in one string, with how the split was made."""
        where = f" ({self.homepage})" if self.homepage else ""
        return f"{self.title}{where}. {how}. License: {self.license}. Cite: {self.citation}"


def data_folders() -> list[Path]:
    """Return the folders that are searched for files: ``$STTAU_DATA``, where it is set, then the user's cache."""
    mine = os.environ.get("STTAU_DATA")
    return [*([Path(mine).expanduser()] if mine else []), cache_folder()]


def cache_folder() -> Path:
    """Return the folder for downloads and prepared data: ``$STTAU_CACHE``, or the platform's place for caches."""
    mine = os.environ.get("STTAU_CACHE")
    if mine:
        return Path(mine).expanduser()
    import pooch

    return Path(pooch.os_cache("sttau"))


def find(source: Source, folders: Iterable[Path]) -> tuple[Form, list[Path]] | None:
    """Return the first form whose files are all there, in a folder or in its subfolder of the data set's name."""
    for folder in folders:
        for form in source.forms:
            for place in (folder / source.folder, folder):
                files = [place / name for name in form.files]
                if all(file.is_file() for file in files):
                    return form, files
    return None


def fetch(
    source: Source, path: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> tuple[Form, list[Path]]:
    """Return the files of a data set, and download them if they are nowhere.

    Args:
        source: Source of the data set.
        path: Folder that holds the files, or one of them; nothing else is then searched.
        progress: Function called while bytes arrive.

    Raises:
        FileNotFoundError: The files do not exist and cannot be downloaded; the message names the remedy.
    """
    if path is not None:
        return _find_at(source, Path(path).expanduser())
    found = find(source, data_folders())
    if found is not None:
        return found
    form = next((form for form in source.forms if form.urls), None)
    if form is None:
        raise FileNotFoundError(f"{source.name} is not on this machine. {source.by_hand}")
    files = [cache_folder() / source.folder / name for name in form.files]
    checksums = form.sha256 or (None,) * len(files)
    try:
        for url, file, sha256 in zip(form.urls, files, checksums, strict=True):
            _LOG.info("downloading %s", url)
            download(url, file, sha256, progress)
    except OSError as error:
        raise FileNotFoundError(
            f"{source.name} is not on this machine and could not be downloaded ({error}): "
            f"run `sttau data get {source.name}` with a network connection, or put {' and '.join(form.files)} "
            "into a folder and set STTAU_DATA to it."
        ) from error
    return form, files


def _find_at(source: Source, path: Path) -> tuple[Form, list[Path]]:
    if path.is_file():  # one of the files stands for all in its folder
        forms = [form for form in source.forms if path.name in form.files]
        found = find(replace(source, forms=tuple(forms), folder=""), [path.parent])
    else:
        found = find(source, [path])
    if found is None:
        known = "; or ".join(", ".join(form.files[:4]) for form in source.forms)
        raise FileNotFoundError(f"path={str(path)!r} holds no files of {source.name}: expected {known}")
    return found


def read_content(
    source: Source, path: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> Content:
    """Find or download a data set, read it and check that it is the published one.

    Raises:
        FileNotFoundError: It was not found.
        ValueError: The files cannot be read, or have other content. Downloaded files are then removed.
    """
    form, files = fetch(source, path, progress)
    names = " and ".join(str(file) for file in files[:2]) + (" and others" if len(files) > 2 else "")
    try:
        content = form.read(*files)
    except _UNREADABLE as error:
        raise ValueError(f"{names} cannot be read as {form.about}: {error}. {_discard(files, path)}") from error
    found = fingerprint(content)
    if found != source.content and form.check is not None:
        try:
            form.check(content)
        except ValueError as error:
            raise ValueError(f"{names} does not hold {source.title}: {error}. {_discard(files, path)}") from error
        _LOG.warning("%s passed all checks that are possible, but differs from other forms in some values", names)
    elif found != source.content:
        raise ValueError(
            f"{names} can be read, but does not hold {source.title} as it was published: the SHA-256 of the content is "
            f"{found}, expected {source.content}. {_discard(files, path)}"
        )
    return content


def _discard(files: list[Path], path: str | os.PathLike[str] | None) -> str:
    """Remove files that were downloaded, not those of the user; return the remedy."""
    mine = data_folders()[:-1]
    owned = path is not None or any(file.is_relative_to(folder) for file in files for folder in mine)
    if not owned:
        for file in files:
            file.unlink(missing_ok=True)
        return "The download was removed; try again."
    return "Get a fresh copy, or remove it to have it downloaded where that is possible."


def fingerprint(content: Content) -> str:
    """Return the SHA-256 of arrays and texts. White space in texts does not count: copies differ in their line ends.

    Example:
        >>> one = fingerprint({"label": np.array([1, 0], dtype=np.uint8), "text": ["a fine   film ", "bad"]})
        >>> one == fingerprint({"text": ["a fine film", "bad"], "label": np.array([1, 0], dtype=np.uint8)})
        True
    """
    digest = hashlib.sha256()
    for name in sorted(content):
        value = content[name]
        if isinstance(value, list):
            digest.update(f"{name}:text:{len(value)}\n".encode())
            for text in value:
                digest.update(" ".join(text.split()).encode() + b"\n")
        else:
            little = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
            digest.update(f"{name}:{little.dtype.str}:{little.shape}\n".encode())
            digest.update(little.view(np.uint8).data if little.size else b"")
    return digest.hexdigest()


def load_arrays(path: Path, names: Iterable[str] | None = None) -> dict[str, Array]:
    """Return arrays of an ``.npz``, all of them or those named. Pickles are refused."""
    # opened here, since NumPy leaves the file open when it turns out to be damaged
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in (arrays.files if names is None else names)}


def prepare(
    source: Source,
    recipe: str,
    make: Callable[[Content], dict[str, Array]],
    names: Iterable[str],
    path: str | os.PathLike[str] | None = None,
) -> dict[str, Array]:
    """Return prepared arrays of a data set, from the cache where they are in it.

    The cache is found by the content's checksum and the recipe's version, so it never has to be emptied by hand. A
    cache that is damaged, or cannot be written, costs time and nothing else.

    Args:
        source: Source of the data set.
        recipe: Version of ``make``; change it with every change of the result.
        make: Function from the content to arrays.
        names: Names of the arrays to return.
        path: Path of the files; the cache is then written again.
    """
    file = prepared_file(source, recipe)
    if path is None:
        try:
            return load_arrays(file, names)
        except FileNotFoundError:
            pass
        except _UNREADABLE as error:
            _LOG.warning("%s is damaged (%s) and is created again", file, error)
    arrays = make(read_content(source, path))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]  # a dictionary of arrays
    try:
        write_atomically(file, buffer.getvalue())
    except OSError as error:
        _LOG.warning("%s could not be written (%s); the work will be done again next time", file, error)
    return {name: arrays[name] for name in names}


def is_prepared(source: Source) -> bool:
    """Whether the cache holds the data set ready to load."""
    return any((cache_folder() / "prepared").glob(f"{source.name}-{source.content[:16]}-*.npz"))


def prepared_file(source: Source, recipe: str) -> Path:
    """Return the name of the cache file for a data set and a recipe."""
    return cache_folder() / "prepared" / f"{source.name}-{source.content[:16]}-{recipe}.npz"
