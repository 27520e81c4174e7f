from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sttau.languages import STOCHASTIC_LANGUAGES, stochastic


def test_the_published_edge_of_the_papers_pa2_holds() -> None:
    assert stochastic(2).probability(["0"]).tolist() == [0.3]


@pytest.mark.parametrize("number", [1, 2])
def test_the_definitions_in_the_docs_are_those_of_the_code(number: int) -> None:
    page = (Path(__file__).parents[2] / "docs/automata.md").read_text("utf-8")
    pa = stochastic(number)
    for state in range(pa.num_states):
        rows = (", ".join(f"{p:g}" for p in matrix[state].tolist()) for matrix in pa.matrices)
        assert f"| {state} | {' | '.join(rows)} |" in page
    assert pa.output.tolist() == [float(state == 1) for state in range(pa.num_states)]
    assert float(pa.initial[0]) == 1


def test_an_unknown_number_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"number must be 1 or 2, got 3"):
        stochastic(3)


@pytest.mark.parametrize("number", STOCHASTIC_LANGUAGES)
def test_rows_are_distributions_and_strings_have_different_probabilities(number: int) -> None:
    for matrix in STOCHASTIC_LANGUAGES[number].moves:
        assert np.array(matrix).shape == (len(matrix), len(matrix))
        assert np.allclose(np.sum(matrix, axis=1), 1)
    chances = stochastic(number).probability(["0", "1", "00", "01", "10", "11"]).tolist()
    assert len({round(chance, 6) for chance in chances}) == 6
    assert all(0 <= chance <= 1 for chance in chances)


def test_a_probability_is_the_sum_over_paths() -> None:
    zero, one = STOCHASTIC_LANGUAGES[1].moves
    by_hand = sum(zero[0][i] * one[i][j] * one[j][1] for i in range(2) for j in range(2))
    assert stochastic(1).probability(["011"]).item() == pytest.approx(by_hand)
