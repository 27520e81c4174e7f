from __future__ import annotations

from pathlib import Path

import sttau
from sttau.data import load
from sttau.evaluation import evaluate
from sttau.report.training import write_training_report


def test_the_page_holds_everything_and_needs_nothing_else(tmp_path: Path) -> None:
    data = load("digits", "validation")
    model = sttau.create_model(data, hidden_size=8)
    log = sttau.fit(model, data, validation=data, updates=4, validate_every=2)
    sttau.calibrate(model, data, risk=0.5)
    page = write_training_report(tmp_path / "report.html", data, data, model, log, evaluate(model, data))
    text = page.read_text("utf-8")
    assert text.count('<svg role="img"') == 2 + 4  # reliability, abstention; loss, two metrics, τ
    assert "risk" in text
    assert "STTauLSTM" in text
    assert "src=" not in text
    assert "sttau evaluate" in text
