from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

import sttau
from sttau.files import EXAMPLES_FILE
from sttau.jobs import Result, read_results
from sttau.quickstart import Quickstart, Settings, run_quickstart, save_opinions
from sttau.report.html import summary_table

SMALL = Settings(grammar=1, automaton_updates=200, digit_updates=30, digit_seeds=1, samples=2, digit_hidden=8)
ROOT = Path(__file__).parents[1]
COMMITTED = ROOT / "docs/results/quickstart/results.jsonl"


@pytest.fixture(scope="module")
def small() -> Quickstart:
    return run_quickstart(SMALL)


def _without_time(results: list[Result]) -> list[Result]:
    return [dataclasses.replace(result, seconds=0.0) for result in results]


def test_the_same_seed_gives_the_same_results(small: Quickstart) -> None:
    assert _without_time(run_quickstart(SMALL).results) == _without_time(small.results)


def test_ood_digits_are_kept_out_of_training_and_test(small: Quickstart) -> None:
    assert set(small.test.labels.tolist()) == set(range(8))
    assert set(small.ood.labels.tolist()) == {8, 9}
    assert {run.method for run in small.digits} == {"lstm", "st-tau"}
    assert all(run.reading.mean.shape == (len(small.test), 8, 8) for run in small.digits)


def test_progress_is_reported_to_the_end_and_the_global_generator_is_not_changed() -> None:
    reported: dict[str, tuple[int, int]] = {}
    generator = torch.get_rng_state()
    run_quickstart(
        dataclasses.replace(SMALL, automaton_updates=3, automaton_attempts=1, digit_updates=3),
        progress=lambda title, done, of: reported.update({title: (done, of)}),
    )
    assert set(reported.values()) == {(3, 3)}
    assert len(reported) == 3
    assert torch.equal(torch.get_rng_state(), generator)


def test_the_table_in_the_readme_is_the_one_of_the_committed_results() -> None:
    header, rows = summary_table(read_results(COMMITTED))
    readme = (ROOT / "README.md").read_text("utf-8")
    for cells in (header, *rows):
        assert f"| {' | '.join(cells)} |" in readme
    automaton = read_results(COMMITTED)[0]
    assert automaton.metrics["equal"] == 1
    assert automaton.metrics["pe"] == 0


def test_the_text_model_is_saved_with_examples_that_it_reads_word_by_word(tmp_path: Path) -> None:
    path = save_opinions(tmp_path, dataclasses.replace(SMALL, opinion_updates=100))
    assert "generated" in path.parent.name
    model = sttau.load(path)
    examples = sttau.data.read(path.parent / EXAMPLES_FILE, like=model)
    test = sttau.data.load("opinions", "test")
    assert examples.inputs.tolist() == test.inputs.tolist()
    assert examples.labels.tolist() == test.labels.tolist()
    answer = sttau.predict(model, examples, per_step=True)
    errors = [(answer.label[:, step] != test.labels).float().mean().item() for step in (0, -1)]
    assert errors[1] < 0.3 < errors[0]
