"""A small training run, the same wherever it is made: in the tests, in a process to be killed, under torchrun."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sttau import DeepEnsemble, SequenceClassifier, STTauGRU, STTauLSTM
from sttau.models import Posterior, Predictor, SequenceModel
from sttau.training import Update, fit, focal_loss, validation


class Weighty(nn.LSTM):
    """An LSTM with a penalty on its weights, as if it had distributions over them."""

    def kl_divergence(self) -> Tensor:
        return 5 * sum((weight.square().sum() for weight in self.parameters()), torch.zeros(()))


LAYERS: dict[str, Any] = {
    "soft": lambda: STTauLSTM(2, 8, 3, num_layers=2),
    "exact": lambda: STTauGRU(2, 8, 3, mode="exact"),  # τ gets no gradient
    "plain": lambda: nn.GRU(2, 8, bidirectional=True),
    "penalty": lambda: Weighty(2, 8),
    "laplace": lambda: nn.GRU(2, 8),  # members are drawn at the end
    "swag": lambda: nn.GRU(2, 8),
    "dropout": lambda: STTauLSTM(2, 8, 3, num_layers=2, dropout=0.3),  # draws from PyTorch's generator too
}


def make_model(layer: str) -> SequenceClassifier:
    torch.manual_seed(0)
    return SequenceClassifier(LAYERS[layer](), 2)


def make_data() -> tuple[Tensor, Tensor, Tensor]:
    """36 sequences: a batch of 7 or 8 does not come out even, and the last batch of 7 has a single sequence."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(36, 4, 2, generator=generator)
    return x, (x[:, 0, 0] > 0).long(), torch.randint(1, 5, (36,), generator=generator)


def train(model: SequenceModel, folder: Path | None, **options: Any) -> list[Update]:
    """Train for 40 updates, with everything a run can have."""
    x, y, lengths = make_data()
    settings: dict[str, Any] = {"updates": 40, "batch_size": 8, "learning_rate": 0.02, "seed": 5, "bucket_batches": 2}
    settings |= {"validate_every": 7, "metric": "nll", "checkpoint_every": 2}
    settings |= {"schedule": "cosine", "warmup": 3, "ema_decay": 0.9}
    measure = validation(model, x, y, lengths, samples=2)
    return fit(model, x, y, lengths, folder=folder, validation=measure, **settings | options)


def train_alike(layer: str, folder: Path | None) -> Predictor:
    """Train in float64, where one process and two differ by so little that nothing else can hide in it."""
    model: Predictor = make_model(layer).double()
    if layer == "laplace":
        model = DeepEnsemble(model.members, Posterior("laplace", 2))
    elif layer == "swag":
        model = DeepEnsemble(model.members, Posterior("swag", 2, {"snapshots": 3, "every": 2}))
    x, y, lengths = make_data()
    measure = validation(model, x.double(), y, lengths, samples=2)
    options: dict[str, Any] = {"updates": 14, "batch_size": 7, "learning_rate": 0.02, "weight_decay": 0.1}
    if layer == "plain":
        plateau = partial(torch.optim.lr_scheduler.ReduceLROnPlateau, patience=0, threshold=0.5)
        options |= {"class_weight": "balanced", "sample_weight": torch.linspace(0, 1, 36), "scheduler": plateau}
    fit(model, x.double(), y, lengths, folder=folder, validation=measure, metric="nll", validate_every=5, **options)
    return model


def weighted_options() -> dict[str, Any]:
    """Weights, a loss and a scheduler, as options of :func:`train`."""
    scheduler = partial(torch.optim.lr_scheduler.MultiStepLR, milestones=[9, 9, 21], gamma=0.5)
    options = {"schedule": "constant", "warmup": 0, "scheduler": scheduler, "loss": partial(focal_loss, gamma=1.5)}
    return options | {"class_weight": "balanced", "sample_weight": torch.linspace(0, 1, 36)}


def weights(model: Predictor) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


if __name__ == "__main__":  # under torchrun
    torch.set_num_threads(1)
    for name in sys.argv[2:]:
        trained = train_alike(name, Path(sys.argv[1]) / name)
        rank = os.environ["RANK"]
        (Path(sys.argv[1]) / f"{name}-{rank}.bytes").write_bytes(weights(trained).numpy().tobytes())
