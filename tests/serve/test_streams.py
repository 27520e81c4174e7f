from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sttau
from sttau.files import MODEL_FILE
from tests.serve.conftest import series

pytest.importorskip("fastapi")


def test_a_stream_gives_the_predictions_of_stream_after_each_element(client: Any, models: Path) -> None:
    x, _ = series(1)
    stream = sttau.Stream(sttau.load(models / "series" / MODEL_FILE), samples=5, seed=1)
    with client.websocket_connect("/api/stream") as socket:
        socket.send_json({"model": "series", "samples": 5, "seed": 1})
        assert socket.receive_json()["mode"] == "soft"
        for _ in range(2):
            for number, element in enumerate(x[0], 1):
                socket.send_json({"element": element.tolist()})
                found = socket.receive_json()
                assert found["step"] == number
                assert found["p_yes"] == pytest.approx(float(stream.step(element).mean[0, 1]), rel=1e-6)
            socket.send_json({"reset": True})
            assert socket.receive_json() == {"step": 0}
            stream.reset()


def test_words_are_elements_of_a_model_of_strings(client: Any) -> None:
    with client.websocket_connect("/api/stream") as socket:
        socket.send_json({"model": "strings"})
        socket.receive_json()
        socket.send_json({"element": "^"})
        assert socket.receive_json()["step"] == 1
        socket.send_json({"element": "x"})
        assert "vocabulary" in socket.receive_json()["error"]


@pytest.mark.parametrize(
    "message",
    ["[", "[" * 100_000, "3", "{}", '{"element": 1}', '{"element": [1, "2"]}', '{"element": [1, true]}',
     '{"element": [1, 1e99]}', '{"element": [1, NaN]}', '{"element": [[1, 2]]}', '{"element": null}', '{"reset": 1}'],
)  # fmt: skip
def test_a_malformed_message_is_answered_and_the_stream_goes_on(client: Any, message: str) -> None:
    with client.websocket_connect("/api/stream") as socket:
        socket.send_json({"model": "series"})
        socket.receive_json()
        socket.send_text(message)
        assert list(socket.receive_json()) == ["error"]
        socket.send_json({"element": [0, 0]})
        assert socket.receive_json()["step"] == 1


@pytest.mark.parametrize(
    "opening", [{}, {"model": "none"}, {"model": "series", "samples": 0}, {"model": "series", "samples": 99},
                {"model": "series", "mode": "exact"}, {"model": "series", "x": 1}],
)  # fmt: skip
def test_a_malformed_opening_ends_the_stream_with_a_sentence(client: Any, opening: dict[str, Any]) -> None:
    with client.websocket_connect("/api/stream") as socket:
        socket.send_json(opening)
        assert list(socket.receive_json()) == ["error"]
        assert socket.receive()["type"] == "websocket.close"
