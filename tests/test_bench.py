from __future__ import annotations

from sttau.bench import Shape, measure


def test_every_task_of_both_layers_is_timed() -> None:
    shapes = (
        Shape("lstm", 2, 5, 3, 8, 2),
        Shape("lstm", 2, 5, 3, 8, 2, vocabulary=20),
        Shape("gru", 2, 5, 3, 8, 2, exact=True),
    )
    reported: list[str] = []
    results = list(measure(shapes, "cpu", rounds=1, round_seconds=1e-4, progress=reported.append))
    by_name = {(result.data, result.method): set(result.metrics) for result in results}
    sampled = {"training_ms", "forward_ms", "samples_ms"}
    assert by_name == {
        ("LSTM B2 T5 F3 d8 k2", "nn.LSTM"): sampled,
        ("LSTM B2 T5 F3 d8 k2", "st-tau"): sampled,
        ("LSTM B2 T5 F3 d8 k2", "reference"): {"training_ms"},
        ("LSTM B2 T5 tokens of 20 d8 k2", "nn.LSTM"): sampled,
        ("LSTM B2 T5 tokens of 20 d8 k2", "st-tau"): sampled,
        ("LSTM B2 T5 tokens of 20 d8 k2", "reference"): {"training_ms"},
        ("GRU B2 T5 F3 d8 k2, exact", "nn.GRU"): {"training_ms", "forward_ms"},
        ("GRU B2 T5 F3 d8 k2, exact", "st-tau exact"): {"training_ms", "forward_ms"},
    }
    assert all(value > 0 for result in results for value in result.metrics.values())
    assert "LSTM B2 T5 F3 d8 k2, float32: forward" in reported
