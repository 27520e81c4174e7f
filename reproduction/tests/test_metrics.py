from __future__ import annotations

from pathlib import Path

from sttau.jobs import read_results
from sttau_reproduction.metrics import metrics_of

RESULTS = Path(__file__).parents[1] / "results"


def test_the_committed_temperature_is_that_of_scaling_in_one_experiment_and_tau_in_the_others() -> None:
    for path, name in (
        ("paper/results.jsonl.gz", "scaling_temperature"),
        ("cartpole/temperature.jsonl.gz", "tau"),
        ("automata/results.jsonl.gz", "tau"),
    ):
        found = [result for result in read_results(RESULTS / path) if "temperature" in result.metrics]
        assert found, path
        for result in found:
            metrics = metrics_of(result)
            assert metrics[name] == result.metrics["temperature"]
            assert "temperature" not in metrics
