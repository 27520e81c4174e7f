"""Every page shows the committed results, and no number has changed since they were first published."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from reproduction.tests.numbers import digests, numbers, shown_tables
from sttau.comparison import METHODS
from sttau.jobs import read_results
from sttau_reproduction.classification import variants
from sttau_reproduction.classification.history import read_history
from sttau_reproduction.classification.networks import TITLES
from sttau_reproduction.classification.predictions import read_summaries
from sttau_reproduction.classification.report import tables
from sttau_reproduction.documentation import page_tables, read_comparison
from sttau_reproduction.pages import markers, renew
from sttau_reproduction.power import tables as power_tables
from tests.test_docs import broken_links

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "reproduction" / "results" / "paper"
TABLES = (
    *("docs/automata.md", "docs/performance.md", "docs/regression.md", "docs/rl.md"),
    "reproduction/docs/automata.md",
)
PAGES = [ROOT / "reproduction/README.md", *sorted((ROOT / "reproduction/docs").glob("*.md"))]
POWER = RESULTS.with_name("household-power")
#: Digests of the numbers of all tables before the reproduction became a package of its own.
PUBLISHED: dict[str, str] = json.loads((Path(__file__).parent / "numbers.json").read_text("utf-8"))
#: Networks that were trained after that, or again with more seeds, which can be the best of a column; and the number of
#: runs since then.
LATER = (
    *("bayes", "bayes-tuned", "dropout", "dropout-tuned", "state-regularized"),
    *("automaton", "automaton-memory", "automata", "automata-memory", "automata-distilled"),
    *("laplace", "sp-gru", "lstm-patches", "laplace-patches", "sp-gru-patches"),
    *variants.TITLES,
)
LATER_RUNS = 13
PUBLISHED_SEEDS = 3  # of household power
#: Headings of columns, and rows, that came to the tables of detection later.
LATER_COLUMNS, LATER_ROWS = ("equal length", "how finite"), ("length alone", "automaton, k = 32")


def test_the_pages_show_the_committed_results() -> None:
    found = page_tables(ROOT)
    assert set(found) == set(TABLES)
    for page, own in found.items():
        text = (ROOT / page).read_text("utf-8")
        assert sorted(markers(text, "table")) == sorted(own)
        assert renew(text, own, {}) == text


def test_no_number_of_any_table_has_changed() -> None:
    """Tables are read from the pages, where they are those of the results; tables with later networks are made anew."""
    texts = [(ROOT / page).read_text("utf-8") for page in TABLES]
    every = {name: table for text in texts for name, table in shown_tables(text).items()}
    results = [result for result in read_results(RESULTS / "results.jsonl.gz") if result.method not in LATER]
    titles = tuple(f"| {title} |" for title in (*(TITLES[name] for name in LATER), *LATER_ROWS))
    power = [result for result in read_results(POWER / "results.jsonl.gz") if result.seed < PUBLISHED_SEEDS]
    for name, table in power_tables.tables(power).items():
        every[f"power-{name}"] = _without_rows(table, titles)
    for name, table in tables(results, read_summaries(RESULTS), read_history(RESULTS)[:-LATER_RUNS]).items():
        every[name] = _without_columns(_without_rows(table, titles))
    assert {name: digest for name, digest in digests(every).items() if name in PUBLISHED} == PUBLISHED


def _without_rows(table: str, titles: tuple[str, ...]) -> str:
    """Leave out the rows that came later."""
    return "\n".join(line for line in table.splitlines() if not line.startswith(titles))


def _without_columns(table: str) -> str:
    """Leave out the columns that came later."""
    kept: list[int] = []
    lines = []
    for line in table.splitlines():
        cells = line.strip("|").split("|")
        if line.startswith("| method |"):
            kept = [place for place, cell in enumerate(cells) if not any(later in cell for later in LATER_COLUMNS)]
        lines.append(f"|{'|'.join(cells[place] for place in kept)}|" if line.startswith("|") and kept else line)
    return "\n".join(lines)


def test_numbers_are_read_without_titles() -> None:
    table = "| method k = 3 | PE % |\n| --- | ---: |\n| LSTM 10 | **1.40 ± 0.05** |\n| BBB | — |"
    assert numbers(table) == [["**", "1.40", "±", "0.05", "**"], ["—"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    assert broken_links(page) == []


def test_the_code_of_the_results_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = ROOT / "reproduction/docs/results.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        exec(compile(block, page.name, "exec"), {"__name__": "page"})


def test_a_comparison_is_read_as_it_was_saved() -> None:
    folder = ROOT / "docs/results/compare-digits"
    comparison = read_comparison(folder)
    assert comparison.table() + "\n" == (folder / "table.md").read_text("utf-8")
    assert len(comparison.results) == 3 * len(METHODS)
