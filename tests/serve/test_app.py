from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import sttau
from tests.serve.conftest import load_model, series

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from sttau.serve import Settings, create_app


def test_predictions_are_those_of_predict_for_series_of_any_lengths(client: TestClient, models: Path) -> None:
    x, _ = series(3)
    inputs = [x[0].tolist(), x[1, :2].tolist(), x[2, :3].tolist()]
    body = {"model": "series", "inputs": inputs, "samples": 7, "seed": 3}
    answer = client.post("/api/predict", json=body).json()
    expected = sttau.predict(load_model(models, "series"), x, torch.tensor([4, 2, 3]), samples=7, seed=3)
    for row, mean, total in zip(answer["predictions"], expected.mean, expected.total, strict=True):
        assert row["p_yes"] == pytest.approx(float(mean[1]), rel=1e-6)
        assert row["total"] == pytest.approx(float(total), rel=1e-6)
        assert row["set"] in ("", "no", "yes", "no | yes")


def test_concurrent_requests_have_the_answers_of_single_ones(client: TestClient) -> None:
    x, _ = series(40)
    bodies = [{"model": "series", "inputs": x[n : n + 1 + n % 3].tolist()} for n in range(37)]
    alone = [client.post("/api/predict", json=body).json() for body in bodies]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda body: client.post("/api/predict", json=body).json(), bodies))
    assert together == alone


def test_every_response_has_the_security_headers_and_none_allows_other_sites(client: TestClient) -> None:
    for path in ("/", "/docs", "/api/models", "/nothing", "/static/app.js"):
        response = client.get(path)
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in response.headers
    assert client.get("/api/models", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.get("/api/models", headers={"origin": "http://testserver"}).status_code == 200


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/..%2f"])
def test_no_file_outside_of_the_page_is_served(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_examples_are_listed_and_one_can_be_read(client: TestClient) -> None:
    found = client.get("/api/examples?model=series").json()
    assert len(found["names"]) == 40
    assert found["targets"][9] is None
    one = client.get("/api/examples?model=series&index=2").json()
    assert torch.allclose(torch.tensor(one["inputs"]), series(40)[0][2], atol=1e-4)
    assert client.get("/api/examples?model=strings&index=0").json()["inputs"] == "0110"
    assert client.get("/api/examples?model=series&index=40").status_code == 404
    assert client.get("/api/examples?model=values").status_code == 404


def test_a_token_is_needed_where_one_is_set(models: Path) -> None:
    with TestClient(create_app([models / "series"], Settings(token="long secret", warmup=False))) as client:
        assert client.get("/api/models").status_code == 401
        assert client.get("/api/models", headers={"authorization": "Bearer wrong"}).status_code == 401
        assert client.get("/api/models", headers={"authorization": "Bearer long secret"}).status_code == 200
        for path in ("/healthz", "/v2/health/ready", "/"):
            assert client.get(path).status_code == 200
        with client.websocket_connect("/api/stream") as socket:
            socket.send_json({"model": "series"})
            assert "token" in socket.receive_json()["error"]


def test_a_server_on_loopback_answers_to_its_own_names_only(models: Path) -> None:
    settings = Settings(hosts=("localhost",), warmup=False)
    with TestClient(create_app([models / "series"], settings), base_url="http://localhost:8000") as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/healthz", headers={"host": "rebound.example"}).status_code == 421


def test_bodies_together_are_bounded_and_released(models: Path) -> None:
    settings = Settings(max_held_bytes=200, warmup=False)
    with TestClient(create_app([models / "series"], settings)) as client:
        assert client.post("/api/predict", content=b" " * 300).status_code == 429
        for _ in range(5):
            assert client.post("/api/predict", json={"inputs": [[0, 1]]}).status_code == 200


def test_too_many_requests_at_a_time_are_refused(models: Path) -> None:
    with TestClient(create_app([models / "series"], Settings(max_waiting=0, warmup=False))) as client:
        response = client.get("/api/models")
        assert response.status_code == 429
        assert response.headers["retry-after"] == "1"
        assert client.get("/healthz").status_code == 200
