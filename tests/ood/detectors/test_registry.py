from __future__ import annotations

from pathlib import Path

from sttau.ood import DETECTORS
from tests.extension import copy_package, replace_once, run_copy

NEW_DETECTOR = '''"""The largest value of a sequence."""

from __future__ import annotations

from torch import Tensor

from sttau.models import Predictor
from sttau.ood.detector import Detector


class Peak(Detector):
    """How far the largest value of a sequence is above that of the training data."""

    name = "peak"

    def _fit(self, model: Predictor, inputs: Tensor, lengths: Tensor | None, labels: Tensor | None) -> None:
        self.tensors = {"largest": inputs.amax()[None]}

    def _score(self, model: Predictor, inputs: Tensor, lengths: Tensor | None) -> Tensor:
        return inputs.amax((1, 2)) - self.tensors["largest"]


DETECTOR = Peak
'''
USE = """
import sys
import torch
from torch import nn
import sttau
from sttau.ood import DETECTORS, kept_detector, make_detector
x = torch.rand(20, 3, 2)
model = sttau.SequenceClassifier(nn.GRU(2, 4), 2)
detector = make_detector("peak").fit(model, x)
detector.choose_threshold(model, x)
assert detector.is_ood(model, torch.stack([x[0], x[0] + 9])).tolist() == [False, True]
detector.keep(model)
again = sttau.load(model.save(sys.argv[1]))
assert type(kept_detector(again)) is DETECTORS["peak"]
assert torch.equal(kept_detector(again).score(again, x), detector.score(model, x))
"""


def test_names_of_detectors_are_the_keys_of_the_registry() -> None:
    assert all(name == kind.name for name, kind in DETECTORS.items())


def test_a_new_detector_is_one_file_and_one_name(tmp_path: Path) -> None:
    """It is made by its name, and saved with a model and loaded like the others."""
    package = copy_package(tmp_path)
    (package / "ood/detectors/peak.py").write_text(NEW_DETECTOR, "utf-8")
    replace_once(package / "ood/detectors/registry.py", '"length", ', '"length", "peak", ')
    run_copy(package, "-c", USE, str(tmp_path / "model.safetensors"))
