"""Tables for the tests of the commands that read people's files."""

from __future__ import annotations

import csv
from pathlib import Path

import torch


def write_series(path: Path, count: int = 120, seed: int = 0, missing: bool = False) -> Path:
    """Write a long table: a series rises or falls, and its label says which."""
    generator = torch.Generator().manual_seed(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["machine", "hour", "pressure", "state"])
        for number in range(count):
            up = number % 2
            noise = torch.randn(6, generator=generator).tolist()
            for hour in range(6):
                value = f"{101325 + 300 * (hour * (2 * up - 1) + noise[hour]):.2f}"
                empty = missing and number % 5 == 0 and hour == 3
                table.writerow([f"m{number}", hour, "" if empty else value, ("falls", "rises")[up]])
    return path


def write_texts(path: Path, count: int = 120) -> Path:
    """Write a table of texts whose label is that of one word."""
    words = ("film", "plot", "actor", "scene", "score", "night", "script")
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["review", "label"])
        for number in range(count):
            good = number % 2
            some = [words[(number * step) % len(words)] for step in (1, 2, 3)]
            some.insert(number % 3, "fine" if good else "dull")
            table.writerow([" ".join(some), "good" if good else "bad"])
    return path
