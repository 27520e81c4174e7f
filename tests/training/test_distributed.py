from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from sttau.training import read_log
from sttau.training.distributed import Processes, ProcessLostError
from tests.training.tasks import train_alike, weights

ROOT = Path(__file__).parents[2]
LAYERS = ("soft", "exact", "plain", "penalty", "laplace", "swag")


def test_two_processes_under_torchrun_train_as_one_with_the_joined_batch(tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launch, "-m", "tests.training.tasks", str(tmp_path), *LAYERS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    for layer in LAYERS:
        alone = weights(train_alike(layer, tmp_path / "alone" / layer)).numpy()
        first, second = (np.frombuffer((tmp_path / f"{layer}-{rank}.bytes").read_bytes()) for rank in (0, 1))
        assert np.array_equal(first, second)
        np.testing.assert_allclose(first, alone, rtol=0, atol=1e-9)  # float64; sums are made in another order
        ours, theirs = read_log(tmp_path / "alone" / layer / "log.jsonl"), read_log(tmp_path / layer / "log.jsonl")
        assert [update.number for update in theirs] == list(range(1, 15))  # written by one of them only
        for name in ("loss", "gradient_norm", "validation"):
            here, there = ([getattr(update, name) or 0.0 for update in log] for log in (ours, theirs))
            np.testing.assert_allclose(here, there, rtol=0, atol=1e-9)
    again = train_alike("soft", tmp_path / "soft")  # one process takes over what two have made
    assert weights(again).numpy().tobytes() == (tmp_path / "soft-0.bytes").read_bytes()


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_shards_make_up_the_batch_and_shares_add_up_to_one(size: int, count: int) -> None:
    shards = [Processes(torch.device("cpu"), rank, count).shard(size) for rank in range(count)]
    assert torch.cat([places for places, share in shards if share]).tolist() == list(range(size))
    assert sum(share for _, share in shards) == pytest.approx(1)
    assert all(len(places) for places, _ in shards)  # every process has something to compute


def test_an_error_of_the_backend_names_the_rank_and_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("Connection closed by peer\nand a long trace")

    monkeypatch.setattr(torch.distributed, "all_reduce", fail)
    monkeypatch.setattr(torch.distributed, "broadcast", fail)
    two = Processes(torch.device("cpu"), 1, 2)
    for call in (
        lambda: two.add_up([torch.ones(2)]),
        lambda: two.largest(1),
        lambda: two.broadcast(3),
        lambda: two.copy_first([torch.ones(2)]),
    ):
        with pytest.raises(ProcessLostError, match=r"rank 1 of 2 lost.*closed by peer. See .*resumes from its last"):
            call()
