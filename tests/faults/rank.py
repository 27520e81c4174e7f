"""One rank of a training under ``torchrun``: ``python -m tests.faults.rank FOLDER``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from tests.faults.groups import train_quietly
from tests.faults.kills import train

if __name__ == "__main__":
    torch.set_num_threads(1)
    place, rank = Path(sys.argv[1]), os.environ["RANK"]
    place.mkdir(exist_ok=True)
    (place / f"pid-{rank}").write_text(str(os.getpid()))
    train(place / "run") if rank == "0" else train_quietly(place / "run")
