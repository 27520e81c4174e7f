from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b"{", 400, "JSON"),
        (b"[" * 50_000, 400, ""),
        (b"\xff\xfe", 400, ""),
        (b"null", 422, ""),
        ({"model": "series"}, 422, "inputs"),
        ({"model": "none", "inputs": [[1, 2]]}, 404, "the models are series, strings, values"),
        ({"inputs": [[1, 2]]}, 404, "name a model"),
        ({"model": "series", "inputs": []}, 422, "not empty"),
        ({"model": "series", "inputs": [[]]}, 422, ""),
        ({"model": "series", "inputs": [[1, 2, 3]]}, 422, "steps with 2 numbers"),
        ({"model": "series", "inputs": [[1, "2"]]}, 422, "steps with 2 numbers"),
        ({"model": "series", "inputs": [[1, True]]}, 422, ""),
        ({"model": "series", "inputs": [[1, None]]}, 422, "NaN"),
        ({"model": "series", "inputs": [[1, 1e300]]}, 422, "beyond 1e30"),
        ({"model": "series", "inputs": [[1, 10**400]]}, 422, ""),
        ({"model": "series", "inputs": "text"}, 422, "text"),
        ({"model": "series", "inputs": {"a": 1}}, 422, "list"),
        ({"model": "series", "inputs": [[[[1, 2]]]]}, 422, "nested"),
        ({"model": "series", "inputs": [[1, 2]], "samples": 0}, 422, "samples"),
        ({"model": "series", "inputs": [[1, 2]], "samples": 41}, 413, "at most 40"),
        ({"model": "series", "inputs": [[1, 2]], "samples": 1.5}, 422, "samples"),
        ({"model": "series", "inputs": [[1, 2]], "mode": "exact"}, 422, ""),
        ({"model": "series", "inputs": [[1, 2]], "mode": "odd"}, 422, "mode"),
        ({"model": "series", "inputs": [[1, 2]], "seed": 2**70}, 422, "seed"),
        ({"model": "series", "inputs": [[1, 2]], "extra": 1}, 422, "extra"),
        ({"model": "series", "inputs": [[1, 2]] * 201}, 413, "at most 200 steps"),
        ({"model": "series", "inputs": [[[1, 2]]] * 51}, 413, "at most 50 sequences"),
        ({"model": "strings", "inputs": "012"}, 422, ""),
        ({"model": "strings", "inputs": [0, 7]}, 422, "vocabulary"),
        ({"model": "strings", "inputs": [0.5]}, 422, "token ids"),
        ({"model": "strings", "inputs": ["0", 1]}, 422, ""),
        (b" " * (1 << 17), 413, "bytes"),
    ],
)
def test_malformed_requests_get_a_sentence_and_no_path(client: Any, body: Any, status: int, sentence: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = client.post("/api/predict", content=content, headers={"content-type": "application/json"})
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    assert sentence in response.json()["error"]
    assert "Traceback" not in response.text
    assert str(Path(__file__).parents[2]) not in response.text
