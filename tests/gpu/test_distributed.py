"""Two processes that share a GPU. What several GPUs and nccl do is not tested (docs/reliability.md)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.gpu.shared_gpu import train_on

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_two_gloo_ranks_on_one_gpu_train_as_one_process(tmp_path: Path) -> None:
    device = "cuda"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launch, "-m", "tests.gpu.shared_gpu", device, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    first, second = (np.frombuffer((tmp_path / f"{rank}.bytes").read_bytes(), np.float32) for rank in (0, 1))
    assert np.array_equal(first, second)
    alone = train_on(device, tmp_path / "alone").numpy()
    np.testing.assert_allclose(first, alone, rtol=0, atol=1e-4)  # float32; sums are made in another order
