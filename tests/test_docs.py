"""Every block of Python and every command in the README and in docs/ runs; links lead to what exists."""

from __future__ import annotations

import re
import shlex
from itertools import product
from pathlib import Path
from statistics import mean, stdev

import pytest
from typer.testing import CliRunner

from sttau.cli import app
from sttau.jobs import read_results

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
#: Packages, other than those of the library, that the code on a page uses.
NEEDS = {"composability.md": "captum", "export.md": "onnxruntime"}
LINKING = [*sorted(ROOT.glob("*.md")), *PAGES[1:]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_on_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(NEEDS.get(page.name, "sttau"))
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks, f"{page.name} has no Python block"
    names: dict[str, object] = {"__name__": "page"}
    for language, block in blocks:
        if language == "python":
            exec(compile(block, page.name, "exec"), names)
            continue
        for command in block.splitlines():
            program, *arguments = shlex.split(command)
            assert program == "sttau"
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, result.output


def test_the_table_of_texts_is_that_of_the_results() -> None:
    page = (ROOT / "docs/text.md").read_text("utf-8")
    rows = [("st-tau", "base"), ("st-tau", "defaults"), ("st-tau", "chosen"), ("lstm", "chosen"), ("tf-idf", None)]
    results = read_results(ROOT / "benchmarks/text/test.jsonl.gz")
    for method, name in rows:
        cells = []
        for data, (metric, digits) in product(("film-snippets", "customer-reviews"), (("error", 1), ("nll", 3))):
            own = [one for one in results if (one.data, one.method) == (data, method)]
            values = [one.metrics[metric] for one in own if one.settings.get("configuration") == name]
            spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
            cells.append(f"{mean(values):.{digits}f}{spread}")
        assert f"| {' | '.join(cells)} |" in page, (method, name)


def test_the_table_of_conformal_sets_is_that_of_the_results() -> None:
    page = (ROOT / "docs/conformal.md").read_text("utf-8")
    results = [
        one for one in read_results(ROOT / "benchmarks/conformal/coverage.jsonl.gz") if one.settings["level"] == 0.9
    ]
    for data, method in product(("bih", "imdb"), ("lac", "aps", "lac by class")):
        own = [one.metrics for one in results if (one.data, one.method) == (data, method)]
        covered, size, worst = ([m[n] for m in own] for n in ("set_coverage", "set_size", "lowest_class_coverage"))
        cells = f"{mean(covered):.2f} ({min(covered):.2f} to {max(covered):.2f}) | {mean(size):.3f} | {mean(worst):.1f}"
        assert f"| {data} | {method} | {cells} |" in page
        assert abs(mean(covered) - 90) < 1


def test_the_table_of_the_length_effect_is_that_of_the_results() -> None:
    page = (ROOT / "docs/metrics.md").read_text("utf-8")
    for one in read_results(ROOT / "benchmarks/detection/length_effect.jsonl"):
        cells = f"| {one.metrics['auroc']:.1f} | {one.metrics['aupr']:.1f} |"
        assert f"| `{one.method}` | {one.settings['ood']} {cells}" in page


def test_the_guide_has_the_numbers_of_the_laplace_approximation() -> None:
    page = (ROOT / "docs/guide.md").read_text("utf-8").replace("\n", " ")
    runs = [one.metrics for one in read_results(ROOT / "benchmarks/laplace_oracle.jsonl")]
    alone, many, ten = ([f"{one[name]:.1f}" for one in runs] for name in ("error", "laplace_error", "laplace_10_error"))
    low, high = (f"{limit(one['laplace_confidence'] for one in runs):.0f}" for limit in (min, max))
    assert f"falls to {low} to {high} %, with an error of {min(many)} to {max(many)} %" in page
    assert (
        f"instead of {min(alone)} to {max(alone)} %. With ten draws the errors are {ten[0]}, {ten[1]} and {ten[2]} %"
        in page
    )
    assert all(one["curvature_difference"] < 1e-7 and one["evidence_difference"] < 1e-5 for one in runs)


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_install_the_package_take_it_from_the_repository(page: Path) -> None:
    """It is in no index. In a sentence, ``sttau[extra]`` adds an extra to what is installed."""
    for command in re.findall(r"^    (pip install .*?)(?: {2,}#.*)?$", page.read_text("utf-8"), re.MULTILINE):
        assert re.search(r"""["' ]\.(\[[a-z,]+\])?["']?$""", command), command


def broken_links(page: Path) -> list[str]:
    """The links of a page to files and headings that do not exist."""
    broken = []
    for target in re.findall(r"\]\(([^)]+)", page.read_text("utf-8")):
        name, _, heading = target.partition("#")
        file = page.parent / name if name else page
        if not target.startswith(("http:", "https:")) and (
            not file.exists() or (heading and heading not in anchors(file))
        ):
            broken.append(target)
    return broken


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_has_at_most_100_lines() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 100
