from __future__ import annotations

from pathlib import Path

from tests.extension import copy_package, replace_once, run_copy

NEW_SCORE = '''"""The margin between the two largest class probabilities as an OOD score."""

from typing import Any

from torch import Tensor

from sttau.inference import Prediction
from sttau.ood.scores.samples import as_samples


def margin_score(prediction: Any) -> Tensor:
    """1 - difference of the two largest probabilities of the mean over samples."""
    mean = prediction.mean if isinstance(prediction, Prediction) else as_samples(prediction).mean(0)
    top = mean.topk(2, dim=-1).values
    return 1 - (top[:, 0] - top[:, 1])


SCORES = {"margin": margin_score}
'''
USE = """
import sttau
from sttau.ood import SCORES
assert list(SCORES)[-1] == "margin"
assert SCORES["margin"]([[0.5, 0.5], [1.0, 0.0]]).tolist() == [1.0, 0.0]
"""


def test_a_new_score_is_one_file_and_one_name(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    (package / "ood/scores/margin.py").write_text(NEW_SCORE, "utf-8")
    replace_once(package / "ood/scores/registry.py", '"mutual_information",', '"mutual_information", "margin",')
    run_copy(package, "-c", USE)
