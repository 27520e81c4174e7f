from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from sttau import SequenceClassifier, STTauGRU
from sttau.data import load
from tests.cli.invocation import check_failure, invoke


def test_a_string_is_read_symbol_by_symbol(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(4, 8, num_states=5), 2, nn.Embedding(3, 4))
    model.set_metadata(load("tomita1", "train"))
    model.save(tmp_path / "model.safetensors")
    shown = invoke("run", tmp_path, "1101")
    assert shown.exit_code == 0, shown.output
    rows = [line for line in shown.output.splitlines() if "reject" in line or "accept" in line]
    assert len(rows) == 6  # the start symbol, four symbols, and the verdict


def test_a_model_of_features_is_refused(tmp_path: Path) -> None:
    SequenceClassifier(nn.LSTM(2, 4), 2).save(tmp_path / "model.safetensors")
    check_failure(invoke("run", tmp_path, "abba"), "the model reads features, not text", 1)
