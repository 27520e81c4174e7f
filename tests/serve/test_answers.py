from __future__ import annotations

import math
from typing import Any

import pytest

from tests.serve.conftest import series


def test_a_prediction_after_every_step_has_states_that_sum_to_one_and_attributions(client: Any) -> None:
    body = {"model": "strings", "inputs": ["0110", "1"], "per_step": True}
    long, short = client.post("/api/predict", json=body).json()["predictions"]
    assert (long["steps"], short["steps"]) == (5, 2)  # with the start token
    assert all(math.isclose(sum(row), 1, abs_tol=1e-4) for row in long["states"])
    assert sum(long["attribution"]) == pytest.approx(long["epistemic"][-1], abs=1e-4)
    body = {"model": "series", "inputs": series(1)[0].tolist(), "per_step": True}
    (row,) = client.post("/api/predict", json=body).json()["predictions"]
    assert all(math.isclose(sum(share), 1, abs_tol=1e-4) for share in row["states"])


def test_the_last_step_is_the_whole_prediction(client: Any) -> None:
    inputs = series(1)[0].tolist()
    whole = client.post("/api/predict", json={"model": "series", "inputs": inputs}).json()["predictions"][0]
    steps = client.post("/api/predict", json={"model": "series", "inputs": inputs, "per_step": True}).json()
    assert steps["predictions"][0]["mean"][-1][1] == pytest.approx(whole["p_yes"], abs=1e-5)
