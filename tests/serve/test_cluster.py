"""Replicas on Ray: the same answers, and no request is lost when one of them is killed and the client retries."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import sttau
from sttau.files import MODEL_FILE
from sttau.serve.cluster import serve_on_ray
from sttau.serve.settings import Settings
from tests.serve.conftest import series

pytest.importorskip("fastapi")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_killed_replica_loses_no_request_that_is_sent_again(models: Path) -> None:
    pytest.importorskip("ray.serve")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    stop, answers, problems = threading.Event(), list[Any](), list[BaseException]()
    body = json.dumps({"model": "series", "inputs": series(1)[0].tolist()}).encode()

    def use(address: str) -> None:
        try:
            for number in range(60):
                if number == 20:
                    os.kill(_replicas()[0], signal.SIGKILL)
                answers.append(_ask(address, body))
        except BaseException as error:
            problems.append(error)
        finally:
            stop.set()

    def ready(replicas: int, address: str) -> None:
        threading.Thread(target=use, args=(address,)).start()

    serve_on_ray([models], Settings(warmup=False), "127.0.0.1", port, 2, ready, stop)
    assert problems == []
    expected = sttau.predict(sttau.load(models / "series" / MODEL_FILE), series(1)[0])
    assert len(answers) == 60
    (value,) = {row["p_yes"] for row in answers}
    assert value == pytest.approx(float(expected.mean[0, 1]), rel=1e-6)


def _ask(address: str, body: bytes) -> Any:
    """Send a request until it is answered, at most for 30 seconds."""
    for _ in range(100):
        try:
            request = urllib.request.Request(f"{address}api/predict", body, {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=10) as response:
                return json.load(response)["predictions"][0]
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise TimeoutError("no answer")


def _replicas() -> list[int]:
    """Processes of the replicas of this test: those below this process."""
    shown = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in shown.splitlines()[1:]]
    parents = {int(row[0]): int(row[1]) for row in rows}

    def is_ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return [int(row[0]) for row in rows if len(row) > 2 and "ServeReplica:sttau" in row[2] and is_ours(int(row[0]))]
