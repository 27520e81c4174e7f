from __future__ import annotations

from typing import Any


def test_metrics_count_requests(client: Any) -> None:
    def count() -> float:
        lines = client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if 'route="/healthz",status="200"' in line)

    before = count()
    client.get("/healthz")
    assert count() == before + 1
