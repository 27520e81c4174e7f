from __future__ import annotations

from pathlib import Path

import pytest

from tests.extension import copy_package, replace_once, run_copy

NEW_LAYER = '''"""A minimal GRU that takes at most half of each candidate."""

from __future__ import annotations

import math
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from sttau.layers.base import register_layer
from sttau.layers.minimal import _log_candidate, _Minimal


@register_layer
class SlowGRU(_Minimal):
    """h_t = (1 - z_t / 2) h_{t-1} + z_t / 2 h̃_t."""

    _gates: ClassVar[int] = 2

    def _coefficients(self, gates: Tensor) -> tuple[Tensor, Tensor]:
        gate, candidate = gates.chunk(2, dim=-1)
        log_half = F.logsigmoid(gate) - math.log(2)
        return (-log_half.exp()).log1p(), log_half + _log_candidate(candidate)
'''
NEW_FORM = '''"""SlowGRU as ONNX operations."""

from __future__ import annotations

from sttau.export.graph import Value
from sttau.export.layers.minimal import _MinimalForm
from sttau.layers import SlowGRU


class SlowGRUForm(_MinimalForm[SlowGRU]):
    """A minimal GRU whose gate is halved."""

    def weight(self, gates: list[Value]) -> Value:
        return gates[0] * 0.5


FORMS = {SlowGRU: SlowGRUForm}
'''
USE = """
import sys
import numpy as np
import onnxruntime
import torch
import sttau
from sttau.export import to_onnx
from sttau.layers import SlowGRU
model = sttau.SequenceClassifier(SlowGRU(2, 4), 3)
model = sttau.load(model.save(sys.argv[1] + "/model.safetensors"))
assert type(model.layer) is SlowGRU
x, lengths = torch.randn(5, 6, 2), torch.tensor([6, 3, 1, 6, 2])
session = onnxruntime.InferenceSession(to_onnx(model, sys.argv[1] + "/model.onnx"))
names = {value.name for value in session.get_inputs()}
given = {"inputs": x.numpy(), "lengths": lengths.numpy(), "ids": np.arange(5)}
found = session.run(["mean"], {name: value for name, value in given.items() if name in names})[0]
np.testing.assert_allclose(found, sttau.predict(model, x, lengths).mean, atol=1e-6)
"""


@pytest.mark.slow
def test_a_new_layer_and_its_onnx_form_are_one_file_and_one_name_each(tmp_path: Path) -> None:
    """A model with the layer is saved, loaded and exported, and the exported one predicts alike."""
    package = copy_package(tmp_path)
    (package / "layers/slow.py").write_text(NEW_LAYER, "utf-8")
    line = "from sttau.layers.st_tau import"
    replace_once(package / "layers/__init__.py", line, f"from sttau.layers.slow import SlowGRU\n{line}")
    (package / "export/layers/slow.py").write_text(NEW_FORM, "utf-8")
    replace_once(package / "export/layers/registry.py", '"minimal", ', '"minimal", "slow", ')
    run_copy(package, "-c", USE, str(tmp_path))
