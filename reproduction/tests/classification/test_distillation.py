"""Networks that learn from the predictions of others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from reproduction.tests.classification.small_networks import PART, network
from sttau.models import load
from sttau_reproduction.classification import trained
from sttau_reproduction.classification.augmentation import add_parts
from sttau_reproduction.classification.cells import cells_of
from sttau_reproduction.classification.distillation import soft_labels, teachers_of
from sttau_reproduction.classification.splits import fold_rows, load_splits, predict_probabilities


@pytest.mark.parametrize("parts", [0, 1])
def test_a_fold_is_predicted_by_the_teacher_that_did_not_train_on_it(parts: int, tmp_path: Path) -> None:
    taught = network("lstm", updates=4)
    teacher: dict[str, Any] = {
        "method": "lstm", "settings": taught.settings, "training": taught.training, "members": 2, "folds": True,
        "share": 0.75,
    }  # fmt: skip
    student = network("st-tau-classes", updates=4)
    student = replace(student, training={**student.training, "teacher": teacher, "parts": parts})
    (cell,) = cells_of([student])
    (training,) = trained.trainings_of(cell)
    settled = list(trained.train([training], tmp_path, "cpu"))
    assert [(one.training, one.error) for one in settled] == [(training, None)]

    whole = load_splits("digits", PART, "cpu").train
    data = add_parts(whole, parts)
    teachers = teachers_of(training, trained.VERSION)
    paths = [trained.network_path(tmp_path, one) for one in teachers]
    found = soft_labels(training, paths, "cpu")
    assert found is not None
    assert found.shape == (len(whole) * (1 + parts), 10)
    for number, path in enumerate(paths):
        own = load_splits("digits", {**PART, "folds": 2, "fold": number}, "cpu").train
        rows = fold_rows(len(whole), 2, number)
        assert len(own) == len(whole) - len(rows)
        rows = torch.cat([rows + part * len(whole) for part in range(1 + parts)])
        said = predict_probabilities(load(path), data.select(rows)).mean(0).double()
        labels = torch.nn.functional.one_hot(data.labels[rows], 10)
        torch.testing.assert_close(found[rows], 0.75 * said + 0.25 * labels)

    plain = replace(student, training=dict(network("st-tau-classes", updates=4).training))
    (alone,) = trained.trainings_of(cells_of([plain])[0])
    list(trained.train([alone], tmp_path, "cpu"))
    one, other = (dict(load(trained.network_path(tmp_path, each)).named_parameters()) for each in (training, alone))
    assert any(not torch.equal(one[name], other[name]) for name in one)
