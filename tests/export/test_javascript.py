"""The JavaScript file, run by Node.js, computes what the automaton does."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from sttau.export import to_javascript
from tests.export.automata import STRINGS, automaton, expected

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="needs Node.js")

_MAIN = """
const sttau = require("./automaton.js");
for (const string of JSON.parse(process.argv[1])) {
  const p = sttau.predict(string);
  console.log(JSON.stringify([...p.probabilities, p.total, p.aleatoric]));
}
let refused = 0;
try { sttau.predict(["missing"]); } catch (error) { refused = error instanceof RangeError ? 1 : 0; }
console.log(JSON.stringify([refused]));
"""


@pytest.mark.parametrize("start", ["^", None])
def test_node_agrees_with_the_automaton(start: str | None, tmp_path: Path) -> None:
    compiled = automaton(start)
    to_javascript(compiled, tmp_path / "automaton.js")
    strings = [string for string in STRINGS if string or start]
    assert NODE is not None
    command = [NODE, "-e", _MAIN, json.dumps(strings)]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    *lines, refused = [json.loads(line) for line in shown.splitlines()]
    assert refused == [1]
    for found, string in zip(lines, strings, strict=True):
        assert found == pytest.approx(expected(compiled, string), abs=1e-12)


def test_the_file_can_stand_in_a_page(tmp_path: Path) -> None:
    assert (
        "</script>"
        not in to_javascript(automaton(), tmp_path / "automaton.js").read_text("utf-8").split("*/")[-1][400:]
    )
