from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sttau.automata.generative import pautomac_score, read_pautomac, read_pautomac_solution
from sttau.errors import DataError


def test_files_of_pautomac_are_read_and_scored(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("3 2\n2 0 1\n0\n1 1\n")
    strings, alphabet = read_pautomac(tmp_path / "train")
    assert (strings, alphabet) == ([("0", "1"), (), ("1",)], ("0", "1"))
    (tmp_path / "solution").write_text("3\n0.2\n0.1\n0.1\n")
    truth = read_pautomac_solution(tmp_path / "solution")
    assert pautomac_score(truth, np.log(truth) - 3) == pytest.approx(2**1.5)  # q is normalized over the test strings
    assert pautomac_score(truth, np.log([0.3, 0.3, 0.4])) > 2**1.5
    for text, problem in (
        ("", "line 1"),
        ("2 2\n0\n", "announces 2 strings"),
        ("1 2\n1 2\n", "line 2"),
        ("1 2\nx\n", "integers"),
    ):
        (tmp_path / "train").write_text(text)
        with pytest.raises(DataError, match=problem):
            read_pautomac(tmp_path / "train")
    for text in ("2\n0.1\n", "x\n", "1\n0\n"):
        (tmp_path / "solution").write_text(text)
        with pytest.raises(DataError):
            read_pautomac_solution(tmp_path / "solution")


def test_a_pautomac_file_that_announces_too_many_symbols_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "damaged"
    file.write_text("1 9999999999999\n1 0\n")
    with pytest.raises(DataError, match=r"line 1: the number of symbols must be between 1 and 100,000"):
        read_pautomac(file)
