from __future__ import annotations

from pathlib import Path

import torch

from sttau.data import from_arrays, load, read


def test_a_summary_says_what_was_understood(tmp_path: Path) -> None:
    path = tmp_path / "fever.csv"
    rows = ["anna;1;36,5;;well", "anna;2;37;60;well", "ben;1;39;90;ill"]
    path.write_text("\n".join(["who;t;temperature;pulse;state", *rows]), "utf-8")
    data = read(path, id="who", target="state", missing="keep")
    assert data.summary().splitlines() == [
        "fever, train: 2 series of 1 to 2 steps (median 1.5), 3 rows",
        "  layout: long; id: who; time: t",
        "  features: temperature 36.5 to 39, pulse 60 to 90 (33.3% missing)",
        "  missing: 16.7% of the values",
        "  target: state, 2 classes: ill 1, well 1",
        "  separator: semicolon, decimal comma",
        "  classification: targets are text",
    ]
    new = read(path, like=data)
    assert "ill 1, well 1" in new.summary()


def test_regression_many_features_and_unknown_labels() -> None:
    data = from_arrays(torch.rand(3, 4, 20), [0.5, 1.25, 2.0])
    assert "feature 1 " in data.summary()
    assert "and 12 more" in data.summary()
    assert "target: regression, 0.5 to 2" in data.summary()
    unknown = from_arrays(torch.rand(3, 4, 20), like=data)
    assert "target: regression, not known" in unknown.summary()
    digits = load("digits", "test")[:5]
    assert "5 series of 8 steps" in digits.summary()
    assert len(digits.summary().splitlines()) == 3
