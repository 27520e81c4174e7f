"""A data set is added to a copy of the package."""

from __future__ import annotations

from pathlib import Path

from tests import extension

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
assert "lines" in sttau.data.DATASETS
assert len(sttau.data.load("lines", "test")) == 10
comparison = sttau.compare(["lstm"], "lines", seeds=1, hidden_size=4, updates=2)
assert comparison.row("lstm", "nll")["value"] > 0
"""


def test_a_new_data_set_is_one_file_and_one_name(tmp_path: Path) -> None:
    """It is loaded and compared by its name."""
    extension.extend(tmp_path, "data/lines.py", NEW_DATA, "data/registry.py", "stochastic", "lines")
    extension.run(tmp_path, USE)
