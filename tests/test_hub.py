"""Models travel through a hub and back; its HTTP API is played by a server of this machine."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

import sttau
from sttau import SequenceClassifier, STTauLSTM
from sttau.hub import from_pretrained, model_card, push_to_hub, write_hub_folder

RUN = {"data": "machines.csv", "method": "st-tau", "seed": 3, "updates": 200, "validation": {"pe": 2.5, "ece": 1.25}}


def calibrated() -> Any:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauLSTM(2, 8, num_states=4), num_classes=2)
    sttau.calibrate(model, torch.randn(60, 5, 2), torch.arange(60) % 2)
    return model


class _Hub(BaseHTTPRequestHandler):
    """As much of the hub as an upload and a download need. Files of commits are kept in the server."""

    protocol_version = "HTTP/1.1"
    server: Any

    def do_POST(self) -> None:
        chunked = self.headers.get("Transfer-Encoding") == "chunked"
        body = b"".join(self._chunks()) if chunked else self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Authorization") != "Bearer secret":
            return self._answer({"error": "no token"}, 401)
        if self.path == "/api/repos/create":
            self.server.made.append(json.loads(body)["name"])
            return self._answer({"url": f"{self.server.address}/me/digits", "name": "me/digits"})
        if "/preupload/" in self.path:
            files = [{**one, "uploadMode": "regular", "shouldIgnore": False} for one in json.loads(body)["files"]]
            return self._answer({"files": files})
        if "/commit/" in self.path:
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.server.files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            return self._answer(
                {"commitUrl": f"{self.server.address}/me/digits/commit/{'a' * 40}", "commitOid": "a" * 40}
            )
        return self._answer({"errors": [], "warnings": []})  # validation of the card's header

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        name = self.path.split("?")[0].rsplit("/", 1)[-1]
        content = self.server.files.get(name)
        if "/resolve/" not in self.path or content is None:
            return self._answer({"sha": "a" * 40, "id": "me/digits", "siblings": []})
        etag = hashlib.sha256(content).hexdigest()
        return self._send(content, {"ETag": f'"{etag}"', "X-Repo-Commit": "a" * 40})

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _answer(self, content: dict[str, Any], status: int = 200) -> None:
        self._send(json.dumps(content).encode(), {"Content-Type": "application/json"}, status)

    def _send(self, content: bytes, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def hub() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Hub)
    server.files, server.made = {}, []
    server.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.filterwarnings("ignore")
def test_a_model_goes_to_the_hub_and_back(hub: Any, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    model, x = calibrated(), torch.randn(6, 5, 2)
    url = push_to_hub(model, "me/digits", run=RUN, token="secret", endpoint=hub.address)
    assert url.endswith("/me/digits/commit/" + "a" * 40)
    assert hub.made == ["digits"]
    assert sorted(hub.files) == ["README.md", "config.json", "model.safetensors"]
    again = from_pretrained("me/digits", endpoint=hub.address, cache=tmp_path, token="secret")
    expected, found = sttau.predict(model, x), sttau.predict(again, x)
    assert torch.equal(found.mean, expected.mean)
    assert torch.equal(found.abstain, expected.abstain)


def test_the_folder_describes_the_model(tmp_path: Path) -> None:
    model = calibrated()
    folder = write_hub_folder(model, tmp_path / "share", run=RUN, license="apache-2.0")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    assert config["library_name"] == "sttau"
    assert config["layer"]["arguments"]["num_states"] == 4
    card = (folder / "README.md").read_text("utf-8")
    assert card.startswith("---\nlibrary_name: sttau\n")
    for text in (
        "license: apache-2.0",
        "machines.csv",
        "| error % | 2.5",
        "coverage 0.9",
        "60 validation",
        "## Limits",
    ):
        assert text in card, text
    assert torch.equal(from_pretrained(folder).layer.states, model.layer.states)


def test_a_card_says_what_is_not_known() -> None:
    card = model_card(SequenceClassifier(STTauLSTM(2, 8, num_states=4), num_classes=2))
    assert "not calibrated" in card
    assert "not recorded" in card
    assert "None were recorded." in card
