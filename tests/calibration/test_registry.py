from __future__ import annotations

from pathlib import Path

from sttau.calibration import SCALINGS
from tests.extension import copy_package, replace_once, run_copy

NEW_SCALING = '''"""Bias scaling: a bias per class."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sttau.calibration.scaling import Scaling, average, check_logits


class BiasScaling(Scaling):
    """Add the log ratio of label frequencies and mean probabilities."""

    def __init__(self, bias: Any = None) -> None:
        self.bias = bias

    def log_probabilities(self, logits: Any) -> Tensor:
        return average(check_logits(logits) + torch.tensor(self.bias, dtype=torch.float64))

    def state_dict(self) -> dict[str, Any]:
        return {"type": "BiasScaling", "bias": self.bias}

    def _fit(self, logits: Tensor, labels: Tensor) -> None:
        seen = torch.bincount(labels, minlength=logits.shape[-1]) + 1
        self.bias = (seen / seen.sum() / average(logits).exp().mean(0)).log().tolist()


SCALING = BiasScaling
'''
USE = """
import sttau
import torch
from sttau.calibration import SCALINGS, restore_scaling
logits, labels = torch.randn(20, 3), torch.arange(20) % 3
scaling = SCALINGS["BiasScaling"]().fit(logits, labels)
again = restore_scaling(scaling.state_dict())
assert torch.equal(again.probabilities(logits), scaling.probabilities(logits))
"""


def test_names_are_those_of_the_classes() -> None:
    assert all(name == kind.__name__ for name, kind in SCALINGS.items())


def test_a_new_scaling_method_is_one_file_and_one_name(tmp_path: Path) -> None:
    """It is restored from its state like the others."""
    package = copy_package(tmp_path)
    (package / "calibration/bias_scaling.py").write_text(NEW_SCALING, "utf-8")
    replace_once(package / "calibration/registry.py", '"isotonic_scaling",', '"isotonic_scaling", "bias_scaling",')
    run_copy(package, "-c", USE)
