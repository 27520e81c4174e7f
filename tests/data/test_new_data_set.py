"""A data set is added to a copy of the package."""

from __future__ import annotations

from pathlib import Path

from tests.extension import copy_package, replace_once, run_copy

NEW_DATA = '''"""Rising and falling lines."""

from __future__ import annotations

import torch

from sttau.data.dataset import SequenceDataset
from sttau.data.entry import Entry
from sttau.data.source import Source

SOURCE = Source(
    name="lines", title="Rising and falling lines", license="generated, free", citation="none",
    sizes={"train": 20, "validation": 10, "test": 10},
)


def load_lines(split: str) -> SequenceDataset:
    """Return lines of five steps."""
    count = SOURCE.sizes[split]
    labels = torch.arange(count) % 2
    inputs = torch.arange(5.0)[None, :, None] * (2 * labels - 1)[:, None, None]
    return SequenceDataset(
        "lines", split, inputs, torch.full((count,), 5), labels, ("down", "up"), SOURCE.provenance("generated")
    )


DATASETS = {"lines": Entry(load_lines, SOURCE)}
'''
USE = """
import sttau
assert "lines" in sttau.data.DATASETS
assert len(sttau.data.load("lines", "test")) == 10
comparison = sttau.compare(["lstm"], "lines", seeds=1, hidden_size=4, updates=2)
assert comparison.row("lstm", "nll")["value"] > 0
"""


def test_a_new_data_set_is_one_file_and_one_name(tmp_path: Path) -> None:
    """It is loaded and compared by its name."""
    package = copy_package(tmp_path)
    (package / "data/lines.py").write_text(NEW_DATA, "utf-8")
    replace_once(package / "data/registry.py", '"stochastic",', '"stochastic", "lines",')
    run_copy(package, "-c", USE)
