"""``sttau data get`` from a publisher to the arrays, over HTTP."""

from __future__ import annotations

import io
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from sttau.cli import app
from sttau.data import DATASETS, customer_reviews, imdb, load
from sttau.data.source import fingerprint

REVIEWS = [
    (split, sentiment, number, 1 if sentiment == "neg" else 10, f"{split} {sentiment} word{number} it's")
    for split in ("train", "test")
    for sentiment in ("neg", "pos")
    for number in range(30)
]


def tarball() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for split, sentiment, number, rating, text in REVIEWS:
            info = tarfile.TarInfo(f"aclImdb/{split}/{sentiment}/{number}_{rating}.txt")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.fixture
def served(publisher: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A small IMDB and small customer reviews, published on this machine."""
    monkeypatch.delenv("STTAU_DATA", raising=False)
    monkeypatch.setenv("STTAU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(imdb, "VALIDATION_SIZE", 20)
    publisher.files = {
        "aclImdb_v1.tar.gz": tarball(),
        "custrev.pos": "".join(f"good word{n}\n" for n in range(300)).encode(),
        "custrev.neg": "".join(f"bad word{n}\n" for n in range(300)).encode(),
    }
    for name, module in (("imdb", imdb), ("customer_reviews", customer_reviews)):
        source = DATASETS[name].source
        form = source.forms[0]
        files = []
        for file in form.files:
            (tmp_path / file).write_bytes(publisher.files[file])
            files.append(tmp_path / file)
        form = replace(form, urls=tuple(map(publisher.url, form.files)))
        source = replace(source, forms=(form,), content=fingerprint(form.read(*files)))
        monkeypatch.setattr(module, "SOURCE", source)
        monkeypatch.setitem(DATASETS, name, DATASETS[name]._replace(source=source, needs=()))
    entry = DATASETS["customer_reviews"]
    monkeypatch.setitem(DATASETS, "customer_reviews", entry._replace(needs=(imdb.SOURCE,)))
    return publisher


def test_get_downloads_checks_prepares_and_shows_the_terms(served: Any) -> None:
    answer = CliRunner().invoke(app, ["data", "get", "imdb"])
    assert answer.exit_code == 0, answer.output
    assert "downloading aclImdb_v1.tar.gz" in answer.output
    assert "imdb is ready" in answer.output
    assert "License: none stated" in " ".join(answer.output.split())
    served.files.clear()  # from now on offline
    train = load("imdb", "train")
    assert len(train) == 40
    assert torch.equal(train.inputs, load("imdb", "train").inputs)
    assert "in the cache" in CliRunner().invoke(app, ["data", "list"], env={"COLUMNS": "120"}).output


def test_get_fetches_what_a_set_needs_besides(served: Any) -> None:
    answer = CliRunner().invoke(app, ["data", "get", "customer_reviews"])
    assert answer.exit_code == 0, answer.output
    assert all(f"downloading {name}" in answer.output for name in served.files)
    served.files.clear()
    data = load("customer_reviews", "test")
    assert data.vocabulary == load("imdb", "test").vocabulary
    assert len(data) == 500


def test_a_download_that_breaks_off_goes_on_and_ends_in_the_same_arrays(served: Any, tmp_path: Path) -> None:
    served.faults = ["truncated"]
    by_net = load("imdb", "test")
    by_path = load("imdb", "test", path=tmp_path / "aclImdb_v1.tar.gz")
    assert torch.equal(by_net.inputs, by_path.inputs)
    assert by_net.ids == by_path.ids


def test_a_corrupted_archive_is_noticed_without_a_checksum_of_the_publisher(served: Any) -> None:
    served.faults = ["corrupted"]
    answer = CliRunner().invoke(app, ["data", "get", "imdb"])
    assert answer.exit_code == 1
    assert "The download was removed; try again" in answer.output
    assert CliRunner().invoke(app, ["data", "get", "imdb"]).exit_code == 0


def test_an_archive_with_a_way_out_is_refused(served: Any, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("../../train/pos/1_10.txt", "evil")
    served.files["aclImdb_v1.tar.gz"] = buffer.getvalue()
    before = sorted(path for path in tmp_path.rglob("*") if "cache" not in path.parts)
    with pytest.raises(ValueError, match="leads out of its folder"):
        load("imdb", "test")
    assert sorted(path for path in tmp_path.rglob("*") if "cache" not in path.parts) == before
