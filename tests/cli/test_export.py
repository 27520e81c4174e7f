from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sttau import SequenceClassifier, STTauGRU
from sttau.data import load
from tests.cli.invocation import check_failure, invoke


@pytest.fixture
def network(tmp_path: Path) -> Path:
    model = SequenceClassifier(STTauGRU(4, 8, num_states=5), 2, torch.nn.Embedding(3, 4))
    model.set_metadata(load("tomita1", "train"))
    return model.save(tmp_path / "model.safetensors")


@pytest.mark.parametrize(
    ("form", "content"), [("c", b"sttau_read"), ("js", b"predict"), ("json", b'"matrices"'), ("npz", b"matrices.npy")]
)
def test_an_automaton_is_written_in_the_form_of_the_ending(
    network: Path, form: str, content: bytes, tmp_path: Path
) -> None:
    shown = invoke("export", network, "--out", tmp_path / f"automaton.{form}")
    assert shown.exit_code == 0, shown.output
    assert content in (tmp_path / f"automaton.{form}").read_bytes()


def test_a_model_is_written_as_onnx(network: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    shown = invoke("export", network.parent, "--to", "onnx", "--out", tmp_path / "network", "--mode", "exact")
    assert shown.exit_code == 0, shown.output
    assert [one.name for one in onnx.load(tmp_path / "network").graph.input] == ["inputs", "lengths"]


def test_the_model_is_not_overwritten(network: Path) -> None:
    for model in (network, network.parent):
        shown = invoke("export", model, "--to", "json", "--out", network)
        check_failure(shown, f"{network.name} would overwrite what is read", 2)


def test_an_unknown_form_is_refused(network: Path, tmp_path: Path) -> None:
    check_failure(invoke("export", network, "--out", tmp_path / "model.tflite"), "--to must be one of onnx, c", 2)


def test_a_folder_for_the_hub_takes_its_metrics_from_the_run(network: Path, tmp_path: Path) -> None:
    (network.parent / "run.json").write_text('{"data": "strings.csv", "validation": {"pe": 4.5}}', "utf-8")
    shown = invoke("export", network.parent, "--to", "hub", "--out", tmp_path / "share")
    assert shown.exit_code == 0, shown.output
    card = (tmp_path / "share/README.md").read_text("utf-8")
    assert "strings.csv" in card
    assert "| error % | 4.5" in card
