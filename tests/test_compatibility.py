"""Files written by earlier versions load, and give what they gave: weights, settings and noise are stable."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from sttau import SequenceClassifier, STTauLSTM, load, predict
from sttau.layers import LayerMode
from sttau.training import fit, read_log
from sttau.training.checkpoints import checkpoint_path, read_checkpoint

ARTEFACTS = Path(__file__).parent / "artefacts"
V01 = ARTEFACTS / "v0.1"
EXPECTED: dict[str, Any] = json.loads((V01 / "expected.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("mode", "accept"),
    [("soft", [0.9087697, 0.6612787]), ("hard", [0.9496160, 0.6595649]), ("exact", [0.8272935, 0.7048099])],
)
def test_a_classifier_of_format_1_predicts_what_it_predicted(mode: LayerMode, accept: list[float]) -> None:
    model = load(ARTEFACTS / "classifier-v1.safetensors")
    tokens, lengths = torch.tensor([[0, 1, 2, 3, 1], [3, 2, 0, 0, 0]]), torch.tensor([5, 2])
    p = predict(model, tokens, lengths, samples=4, seed=7, mode=mode)
    torch.testing.assert_close(p.mean[:, 1], torch.tensor(accept), rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_models_of_version_0_1_predict_what_they_predicted(name: str) -> None:
    model, expected = load(V01 / f"{name}.safetensors"), EXPECTED["models"][name]
    inputs = EXPECTED["tokens"] if model.reads_tokens else EXPECTED["inputs"]
    p = predict(model, inputs, EXPECTED["lengths"], samples=4, seed=7)
    assert p.mode == expected["inference"]
    for field in ("mean", "variance", "aleatoric"):
        value = getattr(p, field).double()
        torch.testing.assert_close(value, torch.tensor(expected[field]).double(), rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", EXPECTED["models"])
def test_models_of_version_0_1_are_saved_in_the_present_format(name: str, tmp_path: Path) -> None:
    model = load(V01 / f"{name}.safetensors")
    again = load(model.save(tmp_path / "again.safetensors"))
    assert all(torch.equal(weight, again.state_dict()[key]) for key, weight in model.state_dict().items())


@pytest.mark.parametrize("kind", ["st-tau", "lstm"])
def test_a_run_of_version_0_1_is_resumed_and_ends_as_it_would_have(kind: str, tmp_path: Path) -> None:
    """The run was interrupted after 6 of 12 updates; the expected values are those of the version that wrote it."""
    expected = json.loads((V01 / "runs.json").read_text("utf-8"))[kind]
    folder = shutil.copytree(V01 / f"run-{kind}", tmp_path / "run")
    x = torch.randn(24, 5, 2, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(1)  # the weights come from the checkpoint
    model = SequenceClassifier(STTauLSTM(2, 4, 3) if kind == "st-tau" else torch.nn.LSTM(2, 4), 2)
    log = fit(
        model, x, (x[:, 0, 0] > 0).long(), torch.arange(24) % 5 + 1, updates=12, batch_size=8, learning_rate=0.01,
        weight_decay=0.01, schedule="cosine", warmup=2, ema_decay=0.9, bucket_batches=2, validate_every=3, patience=9,
        folder=folder, validation=lambda: float(model.head.weight.detach().square().sum()),
    )  # fmt: skip
    assert len(log) == len(read_log(folder / "log.jsonl")) == 12
    assert [update.loss for update in log] == pytest.approx(expected["losses"], rel=1e-5)
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    torch.testing.assert_close(weights, torch.tensor(expected["weights"]), rtol=0, atol=1e-6)
    assert read_checkpoint(checkpoint_path(folder, 12))["settings"]["ema_decay"] == 0.9
