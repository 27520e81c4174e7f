from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sttau_reproduction.classification.diagnostics.shifts import (
    class_shift,
    measure_class_shift,
    patient_intervals,
    records_of,
    weighted_metrics,
)
from sttau_reproduction.classification.evaluation import measure


def _predictions(count: int = 400, classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (count,), generator=generator)
    logits = torch.randn(count, classes, generator=generator)
    logits[torch.arange(count), labels] += 1
    return logits.softmax(-1), labels


def test_whole_weights_are_repetitions() -> None:
    p, labels = _predictions()
    weights = torch.randint(0, 4, (2, len(labels)), generator=torch.Generator().manual_seed(1))
    found = weighted_metrics(p, labels, weights)
    for round_number, counts in enumerate(weights):
        expected = measure(p.repeat_interleave(counts, 0), labels.repeat_interleave(counts))
        for name, values in found.items():
            assert float(values[round_number]) == pytest.approx(expected[name], rel=1e-5)


@pytest.mark.parametrize(("classes", "end"), [(2, [0.1, 0.9]), (4, [0.25] * 4)])
def test_class_frequencies_move_to_their_end_in_equal_steps(classes: int, end: list[float]) -> None:
    labels = torch.randint(classes, (500,), generator=torch.Generator().manual_seed(2)) % classes
    labels[:200] = 0
    begin = torch.bincount(labels, minlength=classes).double() / 500
    for severity in range(6):
        weights = class_shift(labels, classes, severity)
        share = torch.zeros(classes).double().index_add_(0, labels, weights) / weights.sum()
        expected = begin + severity / 5 * (torch.tensor(end).double() - begin)
        assert share.tolist() == pytest.approx(expected.tolist())


def test_a_network_that_is_right_about_a_class_alone_loses_with_its_frequency() -> None:
    labels = torch.arange(100) % 2
    p = torch.tensor([[0.9, 0.1]]).expand(100, 2)
    found = measure_class_shift(p, labels)
    assert [round(found[f"classes_{severity}_pe"]) for severity in (1, 5)] == [58, 90]


def test_intervals_over_patients_are_wider_where_errors_come_by_patient() -> None:
    records = torch.arange(20).repeat_interleave(30)
    labels = torch.zeros(600, dtype=torch.long)
    p = torch.where((records < 5)[:, None], torch.tensor([0.2, 0.8]), torch.tensor([0.9, 0.1]))
    found = patient_intervals(p, labels, records)
    width = {name: found[f"{name}_pe_high"] - found[f"{name}_pe_low"] for name in ("patient", "beat")}
    assert found["patients"] == 20
    assert width["patient"] > 3 * width["beat"]  # √30 times, were all errors of a patient alike
    assert found["patient_pe_low"] < 25 < found["patient_pe_high"]


def test_records_are_known_by_ids_or_from_the_compact_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = records_of("bih_inter_patient", ("208/1032", "100/18"))
    assert found is not None
    assert found.tolist() == [208, 100]
    assert records_of("imdb", ("test/pos/1", "test/neg/2")) is None
    monkeypatch.setenv("STTAU_DATA", str(tmp_path))
    assert records_of("bih", None) is None
    np.savez(tmp_path / "kachuee_heartbeat.npz", record_test=np.array([100, 234], np.uint16))
    found = records_of("bih", None)
    assert found is not None
    assert found.tolist() == [100, 234]
