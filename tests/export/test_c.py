"""The C file, compiled with warnings as errors, computes what the automaton does."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from sttau.export import to_c
from tests.export.automata import STRINGS, SYMBOLS, automaton, expected

COMPILER = shutil.which("gcc") or shutil.which("cc")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

_MAIN = """
#include <stdio.h>
#include "automaton.c"
int main(void) {
    static const char *const strings[][90] = {%s};
    static const int lengths[] = {%s};
    for (unsigned n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        STTAU_REAL p[STTAU_CLASSES], again[STTAU_CLASSES], total, aleatoric;
        int tokens[90];
        sttau_stream stream;
        sttau_begin(&stream);
        for (int t = 0; t < lengths[n]; t++) {
            tokens[t] = sttau_token(strings[n][t]);
            if (sttau_read(&stream, tokens[t]) != 0) return 1;
        }
        sttau_probabilities(&stream, p);
        sttau_uncertainty(&stream, &total, &aleatoric);
        if (sttau_predict(tokens, lengths[n], again) != 0 || again[0] != p[0]) return 2;
        for (int c = 0; c < STTAU_CLASSES; c++) printf("%%.17g ", (double)p[c]);
        printf("%%.17g %%.17g\\n", (double)total, (double)aleatoric);
    }
    if (sttau_token("missing") != -1 || sttau_read(&(sttau_stream){0}, STTAU_TOKENS) != -1) return 3;
    return sttau_classes[0] ? 0 : 4;
}
"""


@pytest.mark.parametrize(("real", "tolerance"), [("double", 1e-12), ("float", 1e-5)])
@pytest.mark.parametrize("start", ["^", None])
def test_the_program_agrees_with_the_automaton(start: str | None, real: str, tolerance: float, tmp_path: Path) -> None:
    compiled = automaton(start)
    to_c(compiled, tmp_path / "automaton.c")
    strings = [string for string in STRINGS if string or start]
    literals = ", ".join(
        "{" + ", ".join(json.dumps(s, ensure_ascii=False) for s in one or ["a"]) + "}" for one in strings
    )
    lengths = ", ".join(str(len(string)) for string in strings)
    (tmp_path / "main.c").write_text(_MAIN % (literals, lengths), "utf-8")
    assert COMPILER is not None
    options = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-DSTTAU_REAL={real}"]
    subprocess.run([COMPILER, *options, "main.c", "-o", "main", "-lm"], cwd=tmp_path, check=True)
    shown = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    for line, string in zip(shown.splitlines(), strings, strict=True):
        assert [float(value) for value in line.split()] == pytest.approx(expected(compiled, string), abs=tolerance)
    assert len(SYMBOLS) == 5
