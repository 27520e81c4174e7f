"""Tables in several files: the files of a folder, in the order of their names, are the parts of one table."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sttau.errors import DataError


def table_files(path: Path) -> tuple[Path, ...]:
    r"""Return the file at a path, or the files of the folder there; names that begin with ``.`` or ``_`` do not count.

    Raises:
        FileNotFoundError: There is neither.
        DataError: The folder holds no files, or files of several formats.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("2.csv", "1.csv", ".hidden"):
        ...         _ = (Path(folder) / name).write_text("id,mv\na,1\n")
        ...     [file.name for file in table_files(Path(folder))]
        ['1.csv', '2.csv']
    """
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise FileNotFoundError(f"no file at {path}, and no folder")
    files = sorted(file for file in path.iterdir() if file.is_file() and file.name[0] not in "._")
    if not files:
        raise DataError(f"{path.name} is a folder without files; expected the parts of one table, such as .csv files")
    endings = sorted({file.suffix.lower() for file in files})
    if len(endings) > 1:
        raise DataError(
            f"{path.name} holds files of several formats ({', '.join(end or 'no ending' for end in endings)}); "
            "keep the parts of the table, all of one format, in a folder of their own"
        )
    return tuple(files)


def size_of(files: tuple[Path, ...]) -> int:
    """Return the size of all files together."""
    return sum(file.stat().st_size for file in files)


def describe_files(path: Path, files: tuple[Path, ...], size: str) -> str:
    """Return name, size and checksum of a table, for the provenance of a data set."""
    digest = hashlib.sha256()
    for name in files:
        with name.open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    several = f", {len(files):,} files" if len(files) > 1 else ""
    return f"{path.name}{several}, {size}, SHA-256 {digest.hexdigest()}"
