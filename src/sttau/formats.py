"""The file format of everything that is saved: tensors in safetensors, a JSON header with a tag and a version.

A header is a dictionary with ``format`` (the tag, such as ``sttau.model``) and ``version``. A :class:`Format` knows the
current version of its tag and the migrations that bring an older header and its tensors to that version, so files
written by earlier versions of the library still load. Nothing in a file is executed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import Tensor

from sttau.errors import SttauError, reading
from sttau.files import write_atomically

Header = dict[str, Any]
Tensors = dict[str, Tensor]

#: Largest file that is read unless a caller names another limit, in bytes.
MAX_BYTES = 1 << 34

#: What each tag is, in words, and how such a file is read.
KINDS = {
    "sttau.model": "a model; read it with sttau.load(path)",
    "sttau.checkpoint": "a checkpoint; pass its folder to sttau.fit(folder=...)",
    "sttau.compiled": "a compiled model; read it with sttau.automata.CompiledModel.load(path)",
    "sttau.dfa": "a DFA; read it with sttau.automata.read_automaton(path), or from_json(text)",
    "sttau.pa": "a PA; read it with sttau.automata.read_automaton(path), or PA.load(path)",
}


class Tagged(NamedTuple):
    """The content of a file in the current version of its format."""

    header: Header
    tensors: Tensors


#: Brings a header and its tensors from one version to the next.
Migration = Callable[[Header, Tensors], tuple[Header, Tensors]]


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Attributes:
        tag: Name of the format, written into every file.
        version: Version that is written.
        migrations: Migration from each older version to the next one.
        checksum_since: First version whose files must have a checksum; None where they need none.
        error: Class of the errors of reading.
        damaged: Class of the error where the content is not what was written; ``error`` by default.

    Example:
        >>> import tempfile
        >>> notes = Format("sttau.notes", 2, {1: lambda header, tensors: (header | {"title": "none"}, tensors)})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = notes.write(f"{folder}/a.safetensors", {"title": "weights"}, {"w": torch.ones(2)})
        ...     notes.read(path).header["title"]
        'weights'
    """

    tag: str
    version: int = 1
    migrations: Mapping[int, Migration] = field(default_factory=dict)
    checksum_since: int | None = None
    error: type[SttauError] = SttauError
    damaged: type[SttauError] | None = None

    def write(self, path: str | os.PathLike[str], header: Header, tensors: Tensors) -> Path:
        """Write a safetensors file atomically, with a checksum of header and tensors.

        Args:
            path: Path of the file.
            header: Plain values; tag and version are added.
            tensors: Tensors by name.
        """
        tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        stamped = self.stamp(header)
        text = _as_text(stamped | {"sha256": _checksum(_as_text(stamped), tensors)})
        return write_atomically(path, serialize(tensors, {"sttau": text}))  # one key: their order is not deterministic

    def read(self, path: str | os.PathLike[str], max_bytes: int | None = MAX_BYTES) -> Tagged:
        """Read a file that :meth:`write` wrote, in this or an older version of the format, to the CPU.

        The tag is checked before any tensor is read, and the checksum before anything is made of the content.

        Args:
            path: Path of the file.
            max_bytes: Largest file to read; None for no limit.
        """
        path = Path(path)
        _check_file(path, max_bytes, self.error)
        with reading(path, self._damaged):
            try:
                with safe_open(path, framework="pt") as opened:
                    metadata = opened.metadata() or {}
                    text = metadata.get("sttau", "null")
                    header = json.loads(text)
                    self._check_tag(header, str(path))
                    tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
            except (SafetensorError, json.JSONDecodeError) as error:
                if found := _describe(path):
                    raise self.error(f"{path} is not {self._what}: it is {found}") from error
                raise self._damaged(f"{path} is damaged or not a safetensors file: {error}") from error
            self._verify(path, header, text, metadata.get("sha256"), tensors)
        with reading(path, self.error):
            return self.migrate(header, tensors, str(path))

    def _verify(self, path: Path, header: Header, text: str, checksum: str | None, tensors: Tensors) -> None:
        """Compare the content with its checksum, which the first version of checkpoints had outside the header."""
        if checksum is None and "sha256" in header:
            checksum = header.pop("sha256")
            text = _as_text(header)
        version, since = header.get("version"), self.checksum_since
        if checksum is None and since is not None and not (isinstance(version, int) and version < since):
            raise self._damaged(f"{path} is damaged: it has no checksum")
        if checksum is not None and checksum != _checksum(text, tensors):
            raise self._damaged(f"{path} is damaged: its checksum is wrong")

    @property
    def _damaged(self) -> type[SttauError]:
        return self.damaged or self.error

    def to_json(self, header: Header) -> str:
        """Return a header without tensors as JSON text, with tag and version."""
        return json.dumps(self.stamp(header), ensure_ascii=False)

    def from_json(self, text: str, source: str = "the JSON text") -> Header:
        """Read text that :meth:`to_json` wrote, in this or an older version of the format."""
        with reading(source, self.error):
            return self.migrate(parse_json(text, source, self.error), {}, source).header

    def stamp(self, header: Header) -> Header:
        """Return the header with tag and version."""
        return {"format": self.tag, "version": self.version, **header}

    def migrate(self, header: Any, tensors: Tensors, source: str) -> Tagged:
        """Check the tag and bring the content to the current version.

        Args:
            header: Header as it was read.
            tensors: Tensors as they were read.
            source: Name of the file for error messages.
        """
        self._check_tag(header, source)
        version = header.get("version")
        if type(version) is not int or not 1 <= version <= self.version:
            raise self.error(
                f"{source} has format version {version}; this sttau reads versions up to {self.version}. Update sttau."
            )
        for number in range(version, self.version):
            header, tensors = self.migrations[number](dict(header), dict(tensors))
        return Tagged(header | {"version": self.version}, tensors)

    def _check_tag(self, header: Any, source: str) -> None:
        """Raise an error where a header has another tag."""
        tag = header.get("format") if isinstance(header, dict) else None
        if tag != self.tag:
            if isinstance(tag, str) and tag in KINDS:
                raise self.error(f"{source} is not {self._what}: it is {KINDS[tag]}")
            raise self._damaged(f"{source} is not {self._what}: it was not written by sttau")

    @property
    def _what(self) -> str:
        """Files of this format in words, with the article."""
        return KINDS.get(self.tag, self.tag).split(";")[0]


def _check_file(path: Path, max_bytes: int | None, error: type[SttauError]) -> None:
    """Raise an error where there is no file that can be opened, or where it is too large or a pickle."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}" + (": it is a folder" if path.is_dir() else ""))
    with path.open("rb") as file:
        start = file.read(9)
        size = file.seek(0, os.SEEK_END)
    if start[8:] != b"{" and (start[:2] == b"PK" or start[:1] == b"\x80"):  # safetensors: 8 bytes of size, then JSON
        raise error(
            f"{path} is a pickle (torch.save), which can run any code when it is loaded. "
            "sttau reads only files that it wrote, such as those of model.save(path)."
        )
    if max_bytes is not None and size > max_bytes:
        raise error(f"{path} has {size} bytes, more than the limit max_bytes={max_bytes}; pass a larger one to read it")


def read_text(path: str | os.PathLike[str], error: type[SttauError], max_bytes: int | None = MAX_BYTES) -> str:
    """Return the text of a file; an error that names it if it is not text or too large."""
    path = Path(path)
    _check_file(path, max_bytes, error)
    with reading(path, error):
        try:
            return path.read_text("utf-8")
        except UnicodeDecodeError as problem:
            found = _describe(path)
            raise error(f"{path} is not text in UTF-8" + (f": it is {found}" if found else "")) from problem


def _describe(path: Path) -> str | None:
    """Say what a file of the library is, and how it is read; None for any other file."""
    try:
        with path.open("rb") as file:
            is_json = file.read(1) == b"{"
        if is_json:
            text = path.read_text("utf-8")
        else:
            with safe_open(path, framework="pt") as opened:
                text = (opened.metadata() or {}).get("sttau", "null")
        header = json.loads(text)
    except (SafetensorError, ValueError, RecursionError):
        return None
    return KINDS.get(str(header.get("format"))) if isinstance(header, dict) else None


def parse_json(text: str, source: str = "the JSON text", error: type[SttauError] = SttauError) -> Any:
    """Parse JSON text; an error that names its source if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise error(f"{source} is not JSON: {problem}") from problem


def _as_text(header: Header) -> str:
    return json.dumps(header, sort_keys=True)


def _checksum(text: str, tensors: Tensors) -> str:
    whole = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        whole.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        whole.update(tensor.cpu().reshape(-1).view(torch.uint8).numpy().data)
    return whole.hexdigest()
