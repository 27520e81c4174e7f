"""Limits of a body's time, against a real server: the test client of Starlette sends bodies whole."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

import uvicorn

from sttau.serve import Settings, create_app

SLOW = 6
TIMEOUT = 2.0


@pytest.fixture
def port(models: Path) -> Iterator[int]:
    """The port of a server that waits two seconds for a body, and answers few requests at a time."""
    settings = Settings(timeout=TIMEOUT, max_waiting=SLOW + 2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(create_app([models], settings), log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(10)


def _begin(port: int, length: int) -> socket.socket:
    """Announce a body, and send only its beginning."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    head = f"POST /api/predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n"
    connection.sendall(f'{head}Content-Type: application/json\r\n\r\n{{"mod'.encode())
    return connection


def _predict(port: int) -> int:
    body = json.dumps({"model": "series", "inputs": [[1.0, 2.0]]}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/predict", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return int(response.status)


def test_clients_that_send_slowly_do_not_hold_up_others_and_are_ended_in_time(port: int) -> None:
    slow = [_begin(port, 1000) for _ in range(SLOW)]
    ended = threading.Event()

    def drip() -> None:
        while not ended.wait(0.2):
            answered = select.select(slow, [], [], 0)[0]
            for connection in slow:
                with contextlib.suppress(OSError):
                    connection.sendall(b"" if connection in answered else b" ")

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        assert [_predict(port) for _ in range(5)] == [200] * 5
        for connection in slow:  # a byte now and then does not extend the time
            assert connection.recv(64).startswith(b"HTTP/1.1 408")
    finally:
        ended.set()
        thread.join(5)
        for connection in slow:
            connection.close()
    assert _predict(port) == 200


def test_a_client_that_leaves_in_the_middle_of_its_body_frees_its_place(port: int) -> None:
    for _ in range(3 * SLOW):
        _begin(port, 1000).close()
    time.sleep(0.2)
    assert _predict(port) == 200
