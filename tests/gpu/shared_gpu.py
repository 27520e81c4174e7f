"""Two processes that train on one GPU, with gloo between them: run under torchrun."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
from torch import distributed

from tests.training.tasks import make_data, make_model, weights


def train_on(device: str, folder: Path | None) -> torch.Tensor:
    """Train a small model, and return its weights on the CPU."""
    from sttau import fit

    model = make_model("soft").to(device)
    x, y, lengths = (part.to(device) for part in make_data())
    fit(model, x, y, lengths, folder=folder, updates=14, batch_size=8, learning_rate=0.02, seed=5, progress=False)
    return weights(model).cpu()


if __name__ == "__main__":
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")  # nccl does not let two processes share a GPU
    rank = os.environ["RANK"]
    found = train_on(sys.argv[1], Path(sys.argv[2]) / "run")
    (Path(sys.argv[2]) / f"{rank}.bytes").write_bytes(found.numpy().tobytes())
    distributed.destroy_process_group()
