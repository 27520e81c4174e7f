"""Real files where they are, generated stand-ins of the same shape where they are not."""

from __future__ import annotations

import io
import json
import lzma
import os
import tarfile
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from sttau.data import customer_reviews, heartbeats, household_power, imdb, movie_reviews
from sttau.data.heartbeats import RECORDS, use_wfdb
from sttau.data.household_power import COLUMNS
from sttau.data.registry import DATASETS
from sttau.data.source import Source, find, fingerprint

HOLDERS: dict[str, tuple[object, str]] = {
    "bih": (heartbeats, "PUBLISHED"),
    "bih_inter_patient": (heartbeats, "INTER_PATIENT"),
    "imdb": (imdb, "SOURCE"),
    "customer_reviews": (customer_reviews, "SOURCE"),
    "product_reviews": (customer_reviews, "PRODUCTS"),
    "movie_reviews": (movie_reviews, "SENTENCES"),
    "movie_review_documents": (movie_reviews, "DOCUMENTS"),
    "household_power": (household_power, "SOURCE"),
}


def _real() -> bool:
    folder = os.environ.get("STTAU_DATA")
    sources: list[Source] = [getattr(*holder) for holder in HOLDERS.values()]
    return bool(folder) and all(find(source, [Path(folder or "")]) for source in sources)


class Files(NamedTuple):
    """Where the files are that a test reads, and whether they are the real ones."""

    folder: Path
    real: bool

    def path(self, name: str) -> Path:
        return self.folder / name


@pytest.fixture(scope="session", params=["real" if _real() else "stand-in"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    """All data sets' files; ``load`` finds them."""
    if request.param == "real":
        yield Files(Path(os.environ["STTAU_DATA"]), True)
        return
    folder = tmp_path_factory.mktemp("standins")
    _write_all(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STTAU_DATA", str(folder))
        for name in HOLDERS:
            found = find(DATASETS[name].source, [folder])
            assert found is not None
            pretend(patch, name, fingerprint(found[0].read(*found[1])))
        yield Files(folder, False)


@pytest.fixture(scope="session")
def imdb_ready(files: Files) -> None:
    """IMDB tokenized, once for all workers: whoever comes second waits for the first."""
    lock = Path(os.environ["STTAU_CACHE"]) / "imdb.lock"
    while True:
        try:
            lock.mkdir()
            break
        except FileExistsError:
            time.sleep(0.1)
    try:
        imdb.load_vocabulary()
    finally:
        lock.rmdir()


def pretend(patch: pytest.MonkeyPatch, name: str, content: str) -> None:
    """Let the content with this checksum be the published one."""
    module, attribute = HOLDERS[name]
    source = replace(getattr(module, attribute), content=content)
    patch.setattr(module, attribute, source)
    patch.setitem(DATASETS, name, DATASETS[name]._replace(source=source))


# -- stand-ins: generated files in the forms and shapes of the real ones ---------------------------------------------

TRAIN_BEATS = (72_471, 2_223, 5_788, 641, 6_431)
TEST_BEATS = (18_118, 556, 1_448, 162, 1_608)
WORDS = [f"word{number}" for number in range(6000)]


def _write_all(folder: Path) -> None:
    for write in (_heartbeats, _records, _imdb, _reviews, _products, _power):
        write(folder)


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(map(json.dumps, rows)) + "\n"
    path.write_bytes(lzma.compress(text.encode(), preset=0))


def _heartbeats(folder: Path) -> None:
    source = np.random.default_rng(0)
    arrays = {}
    for part, counts in (("train", TRAIN_BEATS), ("test", TEST_BEATS)):
        arrays[f"x_{part}"] = source.random((sum(counts), 187), dtype=np.float32)
        arrays[f"y_{part}"] = np.repeat(np.arange(5, dtype=np.uint8), counts)
    (folder / "mitbih").mkdir(parents=True)
    np.savez(folder / "mitbih/kachuee_heartbeat.npz", **arrays)  # type: ignore[arg-type]


def _records(folder: Path) -> None:
    """48 records of a few seconds, with beats of all classes and annotations that are no beats."""
    source = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as place, use_wfdb() as wfdb:
        for record in RECORDS:
            signal = source.integers(0, 2047, (3000, 2))
            settings = {"fmt": ["212"] * 2, "adc_gain": [200.0] * 2, "baseline": [1024] * 2, "write_dir": place}
            wfdb.wrsamp(str(record), 360, ["mV"] * 2, ["MLII", "V5"], d_signal=signal, **settings)
            positions = np.sort(source.choice(np.arange(20, 2900), 20, replace=False))
            wfdb.wrann(str(record), "atr", positions, list("NLR+AVF/~NfQaJEeNSjN"), write_dir=place)
        with tarfile.open(folder / "mitbih/mitdb_raw.tar.xz", "w:xz", preset=0) as archive:
            for file in sorted(Path(place).iterdir()):
                archive.add(file, file.name)


def _imdb(folder: Path) -> None:
    """50,000 short reviews with repeats like the real ones: 123 in both parts, and some twice in the training part."""
    source = np.random.default_rng(2)
    picks = np.minimum(source.geometric(0.002, (50_000, 12)), len(WORDS)) - 1
    rows = []
    for row, words in enumerate(picks):
        test, label, number = row // 25_000, row % 25_000 // 12_500, row % 12_500
        text = " ".join(WORDS[word] for word in words) + f"<br />Number {row}, it's 'fine'."
        rows.append(
            {"split": ("train", "test")[test], "label": label, "rating": 1 + 8 * label, "id": number, "text": text}
        )
    for number in range(123):  # in the test part as well
        rows[25_000 + number]["text"] = rows[number]["text"]
    for number in range(200, 260):  # twice in the training part
        rows[number + 1000]["text"] = rows[number]["text"]
    _write_lines(folder / "imdb/imdb.jsonl.xz", rows)


def _reviews(folder: Path) -> None:
    sizes = {
        "customer_reviews/cr_sentences": (2405, 1366),
        "movie_reviews/rt_polarity_sentences": (5331, 5331),
        "movie_reviews/polarity_v2_documents": (1000, 1000),
    }
    for name, counts in sizes.items():
        rows = [
            {
                "label": label,
                "id": f"cv{row:05}",
                "text": f"{WORDS[row % 999]} is , not {WORDS[row % 777]} {row} {label} .",
            }
            for label, count in zip((1, 0), counts, strict=True)
            for row in range(count)
        ]
        _write_lines(folder / f"{name}.jsonl.xz", rows)


def _products(folder: Path) -> None:
    lines = ["*** product", "[t]title", "##no remark", "size[+2], price[-1]##both"]
    lines += [f"size[{'+-'[row % 2]}2][u]##it is {WORDS[row]} ." for row in range(800)]
    with zipfile.ZipFile(folder / "customer_reviews/hu_liu_5_products.zip", "w") as archive:
        archive.writestr("product_reviews_1/README.txt", "size[+2]##not a sentence")
        archive.writestr("product_reviews_1/Nokia_6610.txt", "\r\n".join(lines))


def _power(folder: Path) -> None:
    source = np.random.default_rng(3)
    minutes = 2_075_259
    missing = np.zeros(minutes, dtype=bool)
    missing[100_000 : 100_000 + 25_000] = True  # whole hours
    missing[source.choice(np.arange(200_000, minutes), 979, replace=False)] = True
    arrays: dict[str, Any] = {"start": np.datetime64("2006-12-16T17:24", "m")}
    for name, high in zip(COLUMNS, (11_000, 1_000, 25_000, 480, 80, 80, 30), strict=True):
        values = source.integers(0, high, minutes).astype(np.int16)
        arrays[name] = np.where(missing, -1, values).astype(np.int16)
    (folder / "household_power").mkdir()
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    (folder / "household_power/household_power_minutes.npz").write_bytes(buffer.getvalue())


# -- a publisher on this machine that can be made to misbehave ---------------------------------------------------------


@dataclass
class Publisher:
    """Serves files over HTTP; ``faults`` says what goes wrong with the next answers, one after the other."""

    address: str
    files: dict[str, bytes] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    etag: str | None = '"1"'
    requests: list[str] = field(default_factory=list)  # the Range asked for, or "all"
    sent: int = 0  # bytes of bodies

    def url(self, name: str) -> str:
        return f"{self.address}/{name}"


class _Handler(BaseHTTPRequestHandler):
    publisher: Publisher

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        publisher = self.publisher
        body = publisher.files.get(self.path.lstrip("/"))
        fault = publisher.faults.pop(0) if publisher.faults else ""
        publisher.requests.append(self.headers.get("Range", "all"))
        if body is None or fault in ("404", "503"):
            self.send_error(int(fault or 404))
            return
        start = 0
        wanted = self.headers.get("Range")
        if wanted and publisher.etag and self.headers.get("If-Range") == publisher.etag and fault != "no ranges":
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_error(416)
                return
            self.send_response(206)
            shown = start + 1 if fault == "wrong range" else start
            self.send_header("Content-Range", f"bytes {shown}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        if publisher.etag:
            self.send_header("ETag", publisher.etag)
        rest = body[start:]
        if fault != "no size":
            self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if fault == "corrupted":
            rest = rest[:100] + bytes([rest[100] ^ 1]) + rest[101:]
        if fault in ("truncated", "stalled"):
            rest = rest[: len(rest) // 2]
        self._send(rest, slowly=fault == "slow")
        if fault == "stalled":
            time.sleep(1.5)
        self.close_connection = True

    def _send(self, body: bytes, slowly: bool) -> None:
        pieces = [body[start : start + 50_000] for start in range(0, len(body), 50_000)] if slowly else [body]
        try:
            for piece in pieces:
                self.wfile.write(piece)
                self.wfile.flush()
                self.publisher.sent += len(piece)
                if slowly:
                    time.sleep(0.05)
        except OSError:  # the reader went away
            pass


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    handler = type("Handler", (_Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    handler.publisher = Publisher(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield handler.publisher  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()
