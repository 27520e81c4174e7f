from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import sttau
from sttau.files import MODEL_FILE
from tests.serve.conftest import series, table

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from sttau.serve import Settings, create_app


def _load(models: Path, name: str) -> Any:
    return sttau.load(models / name / MODEL_FILE)


def test_predictions_are_those_of_predict_for_series_of_any_lengths(client: TestClient, models: Path) -> None:
    x, _ = series(3)
    inputs = [x[0].tolist(), x[1, :2].tolist(), x[2, :3].tolist()]
    body = {"model": "series", "inputs": inputs, "samples": 7, "seed": 3}
    answer = client.post("/api/predict", json=body).json()
    expected = sttau.predict(_load(models, "series"), x, torch.tensor([4, 2, 3]), samples=7, seed=3)
    for row, mean, total in zip(answer["predictions"], expected.mean, expected.total, strict=True):
        assert row["p_yes"] == pytest.approx(float(mean[1]), rel=1e-6)
        assert row["total"] == pytest.approx(float(total), rel=1e-6)
        assert row["set"] in ("", "no", "yes", "no | yes")


def test_a_prediction_after_every_step_has_states_that_sum_to_one_and_attributions(client: TestClient) -> None:
    body = {"model": "strings", "inputs": ["0110", "1"], "per_step": True}
    long, short = client.post("/api/predict", json=body).json()["predictions"]
    assert (long["steps"], short["steps"]) == (5, 2)  # with the start token
    assert all(math.isclose(sum(row), 1, abs_tol=1e-4) for row in long["states"])
    assert sum(long["attribution"]) == pytest.approx(long["epistemic"][-1], abs=1e-4)
    body = {"model": "series", "inputs": series(1)[0].tolist(), "per_step": True}
    (row,) = client.post("/api/predict", json=body).json()["predictions"]
    assert all(math.isclose(sum(share), 1, abs_tol=1e-4) for share in row["states"])


def test_the_last_step_is_the_whole_prediction(client: TestClient) -> None:
    inputs = series(1)[0].tolist()
    whole = client.post("/api/predict", json={"model": "series", "inputs": inputs}).json()["predictions"][0]
    steps = client.post("/api/predict", json={"model": "series", "inputs": inputs, "per_step": True}).json()
    assert steps["predictions"][0]["mean"][-1][1] == pytest.approx(whole["p_yes"], abs=1e-5)


def test_concurrent_requests_have_the_answers_of_single_ones(client: TestClient) -> None:
    x, _ = series(40)
    bodies = [{"model": "series", "inputs": x[n : n + 1 + n % 3].tolist()} for n in range(37)]
    alone = [client.post("/api/predict", json=body).json() for body in bodies]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda body: client.post("/api/predict", json=body).json(), bodies))
    assert together == alone


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
def test_malformed_requests_get_a_sentence_and_no_path(
    client: TestClient, body: Any, status: int, sentence: str
) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    response = client.post("/api/predict", content=content, headers={"content-type": "application/json"})
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    assert sentence in response.json()["error"]
    assert "Traceback" not in response.text
    assert str(Path(__file__).parents[2]) not in response.text


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


def test_files_are_predicted_and_what_was_understood_is_returned(client: TestClient, models: Path) -> None:
    answer = client.post("/api/file?model=series&name=new.csv", content=table(5, labels=False).encode())
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert "5 series of 4 steps" in found["summary"]
    assert [row["id"] for row in found["rows"]] == [f"s{n}" for n in range(5)]
    expected = sttau.predict(_load(models, "series"), torch.tensor(series(5)[0].numpy().round(4)))
    assert found["rows"][3]["p_yes"] == pytest.approx(float(expected.mean[3, 1]), rel=1e-5)


@pytest.mark.parametrize(
    ("query", "content"),
    [
        ("name=a.exe", b"x"),
        ("name=../../a.csv", b"x"),
        ("name=a.csv", b""),
        ("name=a.csv", b"\x00\xff" * 100),
        ("name=a.csv", b"series,time,a,b\ns,0,1,x\n"),
        ("name=a.jsonl", b'{"series": 1}\n'),
        ("name=a.csv&samples=0", b"x"),
        ("name=a.csv&level=2", b"x"),
    ],
)
def test_bad_files_get_a_sentence_and_no_path(client: TestClient, query: str, content: bytes) -> None:
    response = client.post(f"/api/file?model=series&{query}", content=content)
    assert 400 <= response.status_code < 500
    assert "/tmp" not in response.text
    assert "sttau-" not in response.text
    assert response.json()["error"]


def test_evaluation_counts_labeled_examples_and_its_curves_agree_with_them(client: TestClient, models: Path) -> None:
    found = client.post("/api/evaluate?model=series").json()
    assert found["count"] == 36
    assert len(found["entropies"]["in_distribution"]) == 36
    assert len(found["entropies"]["unknown"]) == 4
    assert sum(found["reliability"]["count"]) == 36
    x, y = series(40)
    known = torch.arange(40) % 10 != 9
    p = sttau.predict(_load(models, "series"), torch.tensor(x.numpy().round(4)))
    wrong = (p.label != y)[known]
    assert found["risk_coverage"]["coverage"][-1] == 1
    assert found["risk_coverage"]["risk"][-1] == pytest.approx(float(wrong.double().mean()))
    sizes = [one["size"] for one in found["sets"]]
    assert sizes == sorted(sizes)
    assert client.post("/api/evaluate?model=values").status_code == 404


def test_the_automaton_has_stochastic_matrices_and_is_exported(client: TestClient) -> None:
    found = client.get("/api/automaton?model=strings&kind=pa").json()
    for matrix in found["matrices"]:
        assert all(math.isclose(sum(row), 1, abs_tol=1e-6) for row in matrix)
    assert len(found["places"]) == len(found["output"])
    for form, begin in (("dot", "digraph"), ("json", "{"), ("svg", "<?xml")):
        assert client.get(f"/api/automaton?model=strings&form={form}").text.startswith(begin)
    assert client.get("/api/automaton?model=series").status_code == 422


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


def test_metrics_count_requests(client: TestClient) -> None:
    def count() -> float:
        lines = client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if 'route="/healthz",status="200"' in line)

    before = count()
    client.get("/healthz")
    assert count() == before + 1


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
