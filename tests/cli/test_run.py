from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from sttau import SequenceClassifier, STTauGRU
from sttau.data import load
from tests.cli.invocation import check_failure, invoke, invoke_in_terminal


@pytest.fixture(autouse=True)
def model(tmp_path: Path) -> None:
    torch.manual_seed(0)
    made = SequenceClassifier(STTauGRU(4, 8, num_states=5), 2, nn.Embedding(3, 4))
    made.set_metadata(load("tomita1", "train"))
    made.save(tmp_path / "model.safetensors")


def test_a_string_is_read_symbol_by_symbol(tmp_path: Path) -> None:
    shown = invoke("run", tmp_path, "1101")
    assert shown.exit_code == 0, shown.output
    rows = [line for line in shown.output.splitlines() if "reject" in line or "accept" in line]
    assert len(rows) == 6  # the start symbol, four symbols, and the verdict


def test_a_pipe_has_the_table_without_colors(tmp_path: Path) -> None:
    shown = invoke("run", tmp_path, "1101").output
    assert "\x1b" not in shown
    assert shown.lstrip().startswith("┏")


def test_symbols_are_colored_in_a_terminal(tmp_path: Path) -> None:
    shown = invoke_in_terminal("run", tmp_path, "1101", columns=40)
    first = shown.splitlines()[0]
    assert re.sub(r"\x1b\[[0-9;]*m", "", first) == "^1101"
    assert re.findall(r"\x1b\[[0-9;]*48;[0-9;]*m(.)", first) == list("^1101")


def test_a_page_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    shown = invoke("run", tmp_path, "1101", "--html", page)
    assert shown.exit_code == 0, shown.output
    assert f"Page: {page}" in shown.output
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_a_model_of_features_is_refused(tmp_path: Path) -> None:
    SequenceClassifier(nn.LSTM(2, 4), 2).save(tmp_path / "model.safetensors")
    check_failure(invoke("run", tmp_path, "abba"), "the model reads features, not text", 1)
