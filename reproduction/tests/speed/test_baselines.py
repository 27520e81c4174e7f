from __future__ import annotations

from sttau.bench import Shape
from sttau_reproduction.speed.baselines import measure_baselines


def test_every_task_of_every_baseline_is_timed() -> None:
    results = list(measure_baselines((Shape("lstm", 2, 5, 3, 8, 2),), rounds=1, round_seconds=1e-4))
    assert [result.method for result in results] == ["lstm", "ensemble", "bayes", "dropout"]
    for result in results:
        more = {"training_one_graph_ms", "training_two_threads_ms"} if result.method == "ensemble" else set()
        assert set(result.metrics) == {"training_ms", "forward_ms", "samples_ms", *more}
        assert all(value > 0 for value in result.metrics.values())
