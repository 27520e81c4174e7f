"""Only commands print."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_only_commands_print() -> None:
    for package in (ROOT / "src/sttau", ROOT / "reproduction/src/sttau_reproduction"):
        for path in package.rglob("*.py"):
            place = path.relative_to(package).parts[0]
            if place == "cli":
                continue
            code = re.sub(r'"""(?:.|\n)*?"""', "", path.read_text("utf-8"))
            assert not re.search(r"(?<![\w.])print\(|sys\.stdout|sys\.stderr\.write", code), path
