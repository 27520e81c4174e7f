"""Small tables of series and of texts, written in every format."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import torch

from sttau.data import SequenceDataset

LONG: list[dict[str, Any]] = [
    {"sequence": "b", "time": 2, "temperature": 20.5, "label": "well", "pulse": 60},
    {"sequence": "a", "time": 10, "temperature": 39.5, "label": "ill", "pulse": 100},
    {"sequence": "b", "time": 1, "temperature": 20.0, "label": "well", "pulse": 61},
    {"sequence": "a", "time": 9, "temperature": 39.0, "label": "ill", "pulse": 99},
    {"sequence": "b", "time": 3, "temperature": 21.0, "label": "well", "pulse": 62},
]
TEXTS: list[dict[str, Any]] = [
    {"text": "A fine, fine film", "label": "good"},
    {"text": 'dull, "very" dull\nfilm', "label": "bad"},
    {"text": "fine", "label": "good"},
]
FORMS = [".csv", ".tsv", ".jsonl", ".parquet"]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            table.writeheader()
            table.writerows(rows)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    else:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def same(one: SequenceDataset, two: SequenceDataset) -> bool:
    return (
        torch.equal(one.inputs, two.inputs)
        and torch.equal(one.lengths, two.lengths)
        and torch.equal(one.labels, two.labels)
        and (one.class_names, one.feature_names, one.vocabulary, one.ids)
        == (two.class_names, two.feature_names, two.vocabulary, two.ids)
    )
