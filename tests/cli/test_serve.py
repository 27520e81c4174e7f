from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.invocation import invoke
from tests.serve.conftest import make_series_model, series


def test_without_a_model_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke("serve")
    assert result.exit_code == 2
    assert "sttau quickstart" in result.output
    assert "sttau serve quickstart/models" in result.output


def test_a_folder_without_models_is_an_error_of_one_line(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    result = invoke("serve", str(tmp_path))
    assert result.exit_code == 1
    assert "no model found" in result.output


@pytest.mark.slow
def test_the_command_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    path = make_series_model().save(tmp_path / "small.safetensors")
    command = [sys.executable, "-m", "sttau", "serve", str(path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"}) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(2)]
            found = re.search(r"http://127\.0\.0\.1:\d+/", lines[1])
            assert found, lines
            body = json.dumps({"inputs": series(2)[0].tolist()}).encode()
            request = urllib.request.Request(
                found[0] + "api/predict", body, {"content-type": "application/json"}, method="POST"
            )
            with urllib.request.urlopen(request, timeout=30) as response:
                assert len(json.load(response)["predictions"]) == 2
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=30) in (0, 130, -2)
