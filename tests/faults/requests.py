"""Requests to the server, damaged as files are: each is answered, or refused with one sentence."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from sttau.errors import DataError
from sttau.files import MODEL_FILE
from tests.faults.readers import Reader
from tests.serve.conftest import make_language_model, make_series_model, series, table

_LEAK = re.compile(r"Traceback|File \"|/(tmp|home|root|usr|opt)/|site-packages")


@cache
def _client() -> Any:
    """A client of a server with two models, which lives as long as the process."""
    from starlette.testclient import TestClient

    from sttau.serve import Settings, create_app

    folder = Path(mkdtemp(prefix="sttau-requests-"))
    make_series_model().save(folder / "series" / MODEL_FILE)
    make_language_model().save(folder / "strings" / MODEL_FILE)
    client = TestClient(create_app([folder], Settings(reload_seconds=0)), raise_server_exceptions=False)
    return client.__enter__()


def _post(route: str, kind: str = "application/json") -> Any:
    def read(path: Path) -> Any:
        response = _client().post(route, content=path.read_bytes(), headers={"content-type": kind})
        if _LEAK.search(response.text) or response.status_code >= 500:
            raise RuntimeError(f"status {response.status_code}: {response.text[:200]}")
        if response.status_code != 200:
            raise DataError(response.json()["error"])
        return response.json()

    return read


def _stream(path: Path) -> Any:
    with _client().websocket_connect("/api/stream") as socket:
        socket.send_json({"model": "series", "samples": 4})
        socket.receive_json()
        socket.send_text(path.read_bytes().decode("utf-8", "replace"))
        answer = socket.receive_json()
    if _LEAK.search(str(answer)):
        raise RuntimeError(str(answer)[:200])
    if "error" in answer:
        raise DataError(answer["error"])
    return answer


def _write(value: Any) -> Any:
    return lambda path: path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())


def _tensor() -> dict[str, Any]:
    x = series(1)[0]
    return {"name": "input", "shape": list(x.shape), "datatype": "FP32", "data": x.flatten().tolist()}


#: Requests by name; damaged by the harness in the same way as files.
REQUESTS: dict[str, Reader] = {
    "POST /api/predict, series": Reader(
        _write({"model": "series", "inputs": series(2)[0].tolist(), "samples": 4, "seed": 1}), _post("/api/predict")
    ),
    "POST /api/predict, strings": Reader(
        _write({"model": "strings", "inputs": ["0110", "1"], "per_step": True}), _post("/api/predict")
    ),
    "POST /v2/models/series/infer": Reader(
        _write({"id": "a", "inputs": [_tensor()], "parameters": {"samples": 4}, "outputs": [{"name": "mean"}]}),
        _post("/v2/models/series/infer"),
    ),
    "POST /api/file": Reader(
        _write(table(4, labels=False).encode()), _post("/api/file?model=series&name=a.csv&samples=4", "text/csv")
    ),
    "WebSocket /api/stream": Reader(_write({"element": series(1)[0][0, 0].tolist()}), _stream),
}
