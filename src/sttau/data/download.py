"""Downloads that resume, report their progress, and appear only when they are complete."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

#: Called with a file's name, the bytes downloaded, and its size (None where the server does not send it).
Progress = Callable[[str, int, int | None], None]

_BLOCK = 1 << 14  # the last incomplete block is lost when the connection breaks


def _silent(name: str, done: int, of: int | None) -> None:
    """Show nothing."""


def download(url: str, target: Path, sha256: str | None = None, progress: Progress | None = None) -> Path:
    """Download a file with pooch, unless it is there.

    An interrupted download is resumed, now or the next time, if the server still has the same file. The file appears
    under its name only when it is complete and, where it is known, its SHA-256 is right.

    Args:
        url: Address of the file.
        target: Path of the file.
        sha256: Expected checksum; None where the publisher gives none.
        progress: Function called while bytes arrive.

    Raises:
        OSError: The download failed. The part that arrived is kept.
        ValueError: The checksum is wrong. Nothing is kept.
    """
    import pooch

    target.parent.mkdir(parents=True, exist_ok=True)
    fetch = ResumingDownload(target.with_name(f".{target.name}.part"), progress or _silent)
    with _quiet(pooch.get_logger()):  # pooch logs to stderr; progress is reported here
        pooch.retrieve(
            url,
            known_hash=None if sha256 is None else f"sha256:{sha256}",
            fname=target.name,
            path=target.parent,
            downloader=fetch,
        )
    return target


@dataclass(frozen=True)
class ResumingDownload:
    """The ``downloader`` of a :func:`pooch.retrieve` that keeps the part that arrived and requests only the rest."""

    part: Path
    progress: Progress
    attempts: int = 4
    timeout: float = 20.0  # seconds without a byte
    pause: float = 0.5  # before the second attempt; twice as long before each next one

    def __call__(self, url: str, output_file: str, pooch: Any, check_only: bool = False) -> None:
        """Download ``url`` to ``output_file``."""
        import requests

        for attempt in range(1, self.attempts + 1):
            try:
                self._take(url)
                break
            except (requests.RequestException, OSError) as error:
                answer = getattr(error, "response", None)
                refused = answer is not None and 400 <= answer.status_code < 500
                if refused or attempt == self.attempts:
                    raise OSError(_reason(url, error)) from error
                time.sleep(self.pause * 2 ** (attempt - 1))
        os.replace(self.part, output_file)
        self._stamp.unlink(missing_ok=True)

    @property
    def _stamp(self) -> Path:
        """File with the server's identifier of the version that the part belongs to."""
        return self.part.with_name(f"{self.part.name}.version")

    def _take(self, url: str) -> None:
        """Request the missing part and append it; raise if the connection ends before the file does."""
        import requests

        version = self._stamp.read_text("utf-8") if self._stamp.exists() and self.part.exists() else ""
        have = self.part.stat().st_size if version else 0
        headers = {"Accept-Encoding": "identity"}
        if have:  # without a version two different files could be joined
            headers |= {"Range": f"bytes={have}-", "If-Range": version}
        with requests.get(url, headers=headers, stream=True, timeout=self.timeout) as answer:
            if answer.status_code == requests.codes.requested_range_not_satisfiable:  # no rest: start again
                self.part.unlink(missing_ok=True)
                raise OSError("the server does not have the rest of the file")
            answer.raise_for_status()
            if answer.status_code != requests.codes.partial_content:
                have = 0
            elif not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                self.part.unlink(missing_ok=True)
                raise OSError("the server sent another part of the file than requested")
            size = answer.headers.get("Content-Length")
            total = None if size is None else have + int(size)
            self._write_version(answer.headers)
            with self.part.open("ab" if have else "wb") as file:
                name = url.rsplit("/", 1)[-1]
                self.progress(name, have, total)
                for block in answer.iter_content(_BLOCK):
                    file.write(block)
                    have += len(block)
                    self.progress(name, have, total)
        have = self.part.stat().st_size  # not what was counted: another process may have written too
        if total is not None and have != total:
            raise OSError(f"the connection ended after {have:,} of {total:,} bytes")

    def _write_version(self, headers: Any) -> None:
        tag = headers.get("ETag", "")
        version = tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")
        if version:
            self._stamp.write_text(version, "utf-8")
        else:
            self._stamp.unlink(missing_ok=True)


def _reason(url: str, error: Exception) -> str:
    """Return a short reason for a failed download, instead of the libraries' long messages."""
    import requests

    host = urlsplit(url).netloc
    answer = getattr(error, "response", None)
    if answer is not None:
        return f"{host} answers {answer.status_code} {answer.reason}"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return f"the connection to {host} broke off again and again"
    if isinstance(error, requests.Timeout):
        return f"{host} does not answer in time"
    if isinstance(error, requests.RequestException):
        return f"no connection to {host}"
    return f"{host}: {error}"


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
