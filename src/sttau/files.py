"""Writing files so that nothing is ever half written, and setting damaged ones aside."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Name of the model in the folder of ``sttau train``.
MODEL_FILE = "model.safetensors"
#: Labeled examples next to a model, which ``sttau serve`` shows and evaluates.
EXAMPLES_FILE = "examples.csv"


def write_atomically(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write a file in one step: whoever looks sees the old content or the new, never a part. Folders are made.

    The content is on the disk before the file has its name, so neither a killed process nor a power failure leaves a
    part under that name. Threads and processes may write the same file at the same time: one of them is the last.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_atomically(f"{folder}/deep/note.txt", b"done").read_bytes()
        b'done'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with naming(path):
            part.write_bytes(content)
            with part.open("r+b") as file:
                os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return path


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in errors of the operating system that name none, such as those of a full disk.

    Example:
        >>> with naming(Path("model.safetensors")):
        ...     raise OSError(28, "No space left on device")
        Traceback (most recent call last):
        OSError: [Errno 28] No space left on device: 'model.safetensors'
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise


def _sync_folder(folder: Path) -> None:
    """Put a file's new name on the disk, where the system can do that."""
    with suppress(OSError):  # Windows does not open folders, and some network file systems do not sync them
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def set_aside(path: Path) -> Path:
    """Rename a file to ``NAME.damaged``, or ``NAME.damaged-2`` and so on, and return its new path.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     set_aside(write_atomically(f"{folder}/note.txt", b"do")).name
        'note.txt.damaged'
    """
    other, number = path.with_name(f"{path.name}.damaged"), 1
    while other.exists():
        number += 1
        other = path.with_name(f"{path.name}.damaged-{number}")
    os.replace(path, other)
    return other
