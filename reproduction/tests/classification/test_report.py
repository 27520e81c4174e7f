"""The report on the paper's experiments: tables, figures, the page of the docs, and the committed numbers behind it."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from reproduction.tests.classification.fabricated import areas, errors, fabricate
from sttau.jobs import Result, read_results, write_results
from sttau.metrics import calibration_error_by_chance
from sttau_reproduction import pages
from sttau_reproduction.classification import dropout_sweep, report, table2
from sttau_reproduction.classification.declaration import DATA
from sttau_reproduction.classification.diagnostics import tables as diagnostic
from sttau_reproduction.classification.diagnostics.work import read_diagnostics
from sttau_reproduction.classification.drawing import heartbeat_figure, risk_coverage_figure
from sttau_reproduction.classification.history import Stretch, read_history
from sttau_reproduction.classification.networks import NETWORKS, TRIED, find
from sttau_reproduction.classification.predictions import Summaries, read_summaries, reduce_predictions
from sttau_reproduction.classification.report import FIGURES, draw, figure_links, tables
from sttau_reproduction.classification.tables import TABLES
from sttau_reproduction.cli import app
from sttau_reproduction.pages import markers, renew

REPRODUCTION = Path(__file__).parents[2]
PAGES = tuple(REPRODUCTION / "docs" / f"{name}.md" for name in ("results", "analyses", "log"))
RESULTS = REPRODUCTION / "results" / "paper"


@pytest.fixture(scope="module")
def results(folder: Path) -> list[Result]:
    return read_results(folder / "results.jsonl")


@pytest.fixture(autouse=True)
def _no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STTAU_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("STTAU_CACHE", str(tmp_path / "cache"))


def _part(table: str, data: str) -> str:
    """Of a table of several data sets, that of one."""
    return table.split(f"**{DATA[data]}**")[1].split("\n\n")[1]


def _row(table: str, name: str) -> list[str]:
    (line,) = (line for line in table.splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip().strip("*") for cell in line.strip("|").split("|")]


def _values(results: list[Result], data: str, network: str, key: str) -> list[float]:
    return [r.metrics[key] for r in results if (r.data, r.method) == (data, network) and key in r.metrics]


def test_table_1_shows_both_spreads_the_paper_and_the_goal(folder: Path, results: list[Result]) -> None:
    table = _part(tables(results, read_summaries(folder))["table1"], "bih")
    row = _row(table, "ST-τ, k = 5")
    assert int(row[1]) == find("bih", "st-tau-classes").seeds > 1
    for cell, key in zip(row[2:5], ("pe", "ece", "mce"), strict=True):
        seeds = _values(results, "bih", "st-tau-classes", key)
        (runs,) = _values(results, "bih", "st-tau-classes", f"{key}_std")  # seed 0 alone was asked again
        assert cell == f"{np.mean(seeds):.2f} ± {np.std(seeds, ddof=1):.2f} (± {runs:.2f})"
    assert row[5] == "2.12 / 0.45 / 23.11"
    assert "(" not in _row(table, "LSTM")[2]  # asked again it answers the same
    assert "±" not in _row(table, "deep ensemble of 10")[2]  # one seed, and one answer
    assert _row(table, "goal for ST-τ, mixed states")[2].startswith("≤ 1.40")


def test_a_goal_says_whether_it_is_reached() -> None:
    good, bad = ({"pe": 1.404, "ece": ece, "mce": 12.0} for ece in (0.3, 0.5))
    for metrics, mark in ((good, "✓"), (bad, "✗")):
        row = Result("paper", "bih", "st-tau-best", 10, 0, metrics, {}, 1.0)
        goal = _row(_part(tables([row], {})["table1"], "bih"), "goal for ST-τ, mixed states")
        assert goal[2:5] == ["≤ 1.40 ✓", f"≤ 0.40 {mark}", "≤ 12.44 ✓"]


def test_goals_of_detection_stand_only_below_values_that_have_them() -> None:
    """Regression: the goal of an AUROC stood below its interval too, in the wrong direction."""
    key = "customer_entropy_auroc"
    metrics = {key: 90.0, f"{key}_low": 85.0, f"{key}_high": 94.0, "customer_entropy_matched_auroc": 51.0}
    row = Result("paper", "imdb", "st-tau-best", 16, 0, metrics, {}, 1.0)
    lines = tables([], {}, diagnostics=[row])["table2-entropy"].splitlines()
    header, shown, goals = ([cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[-2:]))
    value, equal = header.index("Customer: O-AUROC %"), header.index("Customer, equal length: O-AUROC %")
    assert (shown[value], goals[value]) == ("90.0 [85.0, 94.0]", "≥ 88.0 ✓")
    assert (shown[equal], goals[equal]) == ("51.0", "")
    assert sum(bool(goal) for goal in goals[2:]) == 4


def test_errors_that_the_test_cannot_tell_from_the_best_are_bold() -> None:
    labels = np.zeros(400, np.uint8)
    rows, summaries = [], {}
    for name, wrong in {"lstm": 0, "ensemble": 3, "dropout": 60}.items():
        p = np.tile(np.array([0.9, 0.025, 0.025, 0.025, 0.025], np.float32), (400, 1))
        p[:wrong] = p[:wrong, ::-1]
        summaries["bih", name] = reduce_predictions({"probabilities": p, "labels": labels})
        metrics = {"pe": wrong / 4, "ece": 1.0 + wrong, "mce": 2.0}
        rows.append(Result("paper", "bih", name, None, 0, metrics, {}, 1.0))
    table = tables(rows, summaries)["table1"]
    assert "| LSTM | 1 | **0.00** | **1.00** | **2.00** |" in table
    assert "| deep ensemble of 10 | 1 | **0.75** | 4.00 | **2.00** |" in table
    assert "| VD | 1 | 15.00 | 61.00 | **2.00** |" in table
    without = tables(rows, {})["table1"]
    assert "| deep ensemble of 10 | 1 | 0.75 | 4.00 | **2.00** |" in without


def test_what_was_not_computed_is_a_dash(folder: Path, results: list[Result]) -> None:
    history = [Stretch(60.0, "a GPU", ["bih lstm 0"])]
    made, empty = tables(results, read_summaries(folder), history), tables([], {})
    assert list(made) == list(empty)
    from_diagnostics = {table.name for table in diagnostic.TABLES} | {"detection-finding"}
    detects = {table.name for table in TABLES if table.others}  # the length alone has no accuracy
    whole = set(made) - from_diagnostics - detects - {"ablation-best"}  # an LSTM has no τ
    assert not [name for name in whole if "—" in made[name]]
    assert _row(_part(empty["table1"], "imdb"), "LSTM")[1:] == ["—", "—", "—", "—", "10.42 / 3.64 / 11.24"]
    for table in empty.values():
        assert not re.search(r"\| \*\*|±|✓|✗", table)
    first = [row for row in results if row.seed == 0 and row.data == "bih"]
    some = tables(first, read_summaries(folder))
    assert " ± " not in some["table1"]
    assert _part(some["table1"], "imdb") == _part(empty["table1"], "imdb")


def test_the_other_tables_show_intervals_costs_detection_and_the_sweep(folder: Path, results: list[Result]) -> None:
    made = tables(results, read_summaries(folder))
    first = next(row.metrics for row in results if (row.data, row.method, row.seed) == ("imdb", "dropout", 0))
    more = _row(_part(made["table1-more"], "imdb"), "VD")
    assert more[2] == f"[{first['ece_low']:.2f}, {first['ece_high']:.2f}]"
    with np.load(folder / "predictions" / "imdb-dropout.npz") as arrays:
        chance = calibration_error_by_chance(arrays["probabilities"])["maximum"]
    assert more[5] == f"{100 * chance.value:.1f} [{100 * chance.low:.1f}, {100 * chance.high:.1f}]"
    assert more[8] == f"{first['brier']:.4f} (± {first['brier_std']:.4f})"
    assert _row(_part(made["table1-cost"], "imdb"), "VD")[2:] == ["68,101", "20,000", "84", "0.310"]
    found = _row(made["table2-max-probability"], "VD")
    assert found[3] == f"{first['customer_max_probability_aupr']:.1f} (± 0.7)"
    assert found[6] == "88.5 / 74.8 / 80.6"
    assert found[9] == f"{first['movie_max_probability_auroc']:.1f} (± 0.7)"
    assert _row(_part(made["table3"], "imdb"), "VD")[3] == f"{first['scaled_ece']:.2f}"
    sweep = _part(made["dropout-sweep"], "imdb")
    assert f"| VD | 0.4 | {first['sweep_0.4_pe']:.2f} | {first['sweep_0.4_ece']:.2f} |" in sweep
    assert len(sweep.splitlines()) == 2 + len(dropout_sweep.RATES) + len(dropout_sweep.COMPARED)
    assert _row(made["inter-patient"], "LSTM")[1] == str(find("bih_inter_patient", "lstm").seeds)
    assert made["ablation"].count("τ = 1") == 4
    assert not any("| LSTM |" in made[f"table2-{score}"] for score in ("variance", "mutual-information"))


@pytest.fixture(scope="module")
def html(written: list[Path]) -> str:
    (path,) = (path for path in written if path.name == "report.html")
    return path.read_text("utf-8")


def test_the_page_has_every_table_and_figure_and_needs_no_other_file(html: str) -> None:
    headings = re.findall(r"<h2 id=[^>]*>(.*?)</h2>", html)
    assert headings == [*(table.title for table in TABLES), "Time", "Training and reading"]
    assert html.count("<table>") == sum(len(table.networks) for table in TABLES) + 1  # that of times
    assert html.count("<figcaption>") == len(FIGURES)
    assert not re.search(r'<(img|link|script)\b|src="|href="(?!#)|url\((?!#)', html)
    assert len(html.encode()) < 2_000_000


def test_every_figure_has_a_text_alternative_and_every_link_a_target(html: str) -> None:
    panels = re.findall(r"<svg [^>]*>", html)
    assert len(panels) >= len(FIGURES)
    assert all('role="img"' in panel and re.search(r'aria-label="[^"]+', panel) for panel in panels)
    assert set(re.findall(r'href="#(part\d+)"', html)) == set(re.findall(r'id="(part\d+)"', html))
    assert "prefers-color-scheme: dark" in html


def test_the_same_files_give_the_same_report_byte_for_byte(
    folder: Path, written: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "save_figure", partial(pages.save_figure, dpi=40))  # as in the first
    page = tmp_path / "page.md"
    page.write_text("Before\n<!-- table table1 -->\n<!-- end -->\n<!-- figure tradeoff -->\n<!-- end -->\nAfter\n")
    first, place = written, written[0].parent
    answer = CliRunner().invoke(
        app, ["report", str(folder), "--out", str(tmp_path / "second"), "--docs", str(page)], catch_exceptions=False
    )
    assert answer.exit_code == 0, answer.output
    assert f"with {len(FIGURES)} figures" in answer.output
    assert {path.stem for path in first if path.suffix == ".png"} == set(FIGURES)
    for path in first:
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes(), path.name
    table = (place / "table1.md").read_text("utf-8").split("\n\n", 1)[1].strip()
    renewed = page.read_text("utf-8")
    assert renewed.startswith(f"Before\n<!-- table table1 -->\n\n{table}\n\n<!-- end -->\n")
    assert renewed.endswith(f"![{FIGURES['tradeoff']}](images/paper-tradeoff.png)\n\n<!-- end -->\nAfter\n")
    picture = tmp_path / "images" / "paper-tradeoff.png"
    assert picture.read_bytes() == (place / "tradeoff.png").read_bytes()
    assert renew(renewed, {"table1": table}, figure_links(["tradeoff"])) == renewed


def test_a_page_that_asks_for_what_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="names the table 'table9'; known: table1"):
        renew("<!-- table table9 -->\n<!-- end -->", {"table1": ""}, {})
    assert "*Not yet computed.*" in renew("<!-- figure ablation -->\n<!-- end -->", {}, figure_links(()))


def test_a_folder_without_results_is_refused_with_a_remedy(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert answer.exit_code == 1
    assert "sttau-reproduce paper" in answer.output


def test_without_results_there_are_no_figures() -> None:
    assert draw([], {}) == {}


def test_the_trace_is_drawn_above_a_reading_where_the_data_is_at_hand(folder: Path) -> None:
    asked: list[int] = []

    def trace(row: int) -> NDArray[Any]:
        asked.append(row)
        return np.linspace(0, 1, 187)

    names = ("st-tau-best", "st-tau-classes")
    bare = heartbeat_figure(names, read_summaries(folder), lambda row: None)
    full = heartbeat_figure(names, read_summaries(folder), trace)
    assert bare is not None
    assert full is not None
    assert (len(bare.axes), len(full.axes)) == (4, 8)
    with np.load(folder / "predictions" / "bih-st-tau-best.npz") as arrays:
        assert asked[:2] == arrays["reading_rows"].tolist()
    assert len(asked) == len(set(asked)) + 1  # the normal beat is the same for both


def test_the_risk_at_full_coverage_is_the_error(folder: Path, results: list[Result]) -> None:
    figure = risk_coverage_figure("bih", ("lstm",), read_summaries(folder))
    assert figure is not None
    (line,) = figure.axes[0].lines
    assert np.asarray(line.get_ydata())[-1] == pytest.approx(_values(results, "bih", "lstm", "pe")[0])


def test_a_network_without_an_error_can_be_drawn() -> None:
    p = np.tile(np.array([0.8, 0.2], np.float32), (20, 1))
    summary = reduce_predictions({"probabilities": p, "labels": np.zeros(20, np.uint8)})
    assert risk_coverage_figure("imdb", ("lstm",), {("imdb", "lstm"): summary}) is not None


def test_the_pages_have_a_place_for_every_table_and_figure() -> None:
    texts = [page.read_text("utf-8") for page in PAGES]
    places = [name for text in texts for kind in ("table", "figure") for name in markers(text, kind)]
    assert sorted(places) == sorted([*tables([], {}), *FIGURES])


def test_the_pages_show_the_tables_of_the_committed_results() -> None:
    results, summaries = read_results(RESULTS / "results.jsonl"), read_summaries(RESULTS)
    diagnostics = read_diagnostics(RESULTS)
    made = tables(results, summaries, read_history(RESULTS), diagnostics)
    drawn = [
        name for name in FIGURES if name != "corrupted" or any("clean_0_ece" in row.metrics for row in diagnostics)
    ]
    links = figure_links(drawn)
    for path in PAGES:
        page = path.read_text("utf-8")
        assert renew(page, made, links) == page
        for name in set(markers(page, "figure")) & set(drawn):
            assert (path.parent / "images" / f"paper-{name}.png").exists()


COMPUTED = sorted({(row.data, row.method) for row in read_results(RESULTS / "results.jsonl")})
#: Networks whose full predictions are committed.
FULL = (("bih", "lstm"), ("imdb", "state-regularized"))


def test_what_is_committed_of_a_network_is_complete() -> None:
    """Networks may be computed one after another, but each with all its seeds, and a summary of the first."""
    found = {(row.data, row.method, row.seed) for row in read_results(RESULTS / "results.jsonl")}
    networks = {(network.data, network.name): network for network in NETWORKS}
    for data, name in COMPUTED:
        assert {(data, name, seed) for seed in range(networks[data, name].seeds)} <= found
    assert set(read_summaries(RESULTS)) == {(data, name) for data, name in COMPUTED if name not in TRIED}


@pytest.mark.parametrize(("data", "network"), FULL)
def test_committed_results_follow_from_the_committed_predictions(data: str, network: str) -> None:
    """One run has the row's number; of n runs with their deviation s, none is further than s √(n - 1) from the mean."""
    check_against_predictions(RESULTS, data, network)


@pytest.fixture(scope="module")
def committed() -> tuple[list[Result], Summaries]:
    return read_results(RESULTS / "results.jsonl"), read_summaries(RESULTS)


@pytest.mark.parametrize(("data", "network"), [pair for pair in COMPUTED if pair[1] not in TRIED])
def test_committed_results_agree_with_the_committed_summaries(
    data: str, network: str, committed: tuple[list[Result], Summaries]
) -> None:
    rows, summaries = committed
    (row,) = (row for row in rows if (row.data, row.method, row.seed) == (data, network, 0))
    summary = summaries[data, network]
    curve = summary.reliability
    held = curve.count > 0
    gaps = (curve.confidence - curve.accuracy)[held].abs()
    found = {
        "pe": 100 * summary.wrong.mean(),
        "ece": 100 * float(gaps @ curve.count[held].double()) / int(summary.sequences),
        "mce": 100 * float(gaps.max()),
        "aurc": 100 * float(summary.area),
    }
    for key, value in found.items():
        reach = row.metrics.get(f"{key}_std", 0.0) * max(row.settings["prediction_runs"] - 1, 0) ** 0.5
        assert abs(row.metrics[key] - value) <= 0.02 + reach, key


def check_against_predictions(folder: Path, data: str, network: str) -> None:
    rows = read_results(folder / "results.jsonl")
    (row,) = (row for row in rows if (row.data, row.method, row.seed) == (data, network, 0))
    with np.load(folder / "predictions" / f"{data}-{network}.npz") as file:
        arrays = dict(file)
    found = errors(arrays["probabilities"], arrays["labels"])
    if data == "imdb":
        for out in table2.OOD:
            inside = arrays["probabilities"][arrays[f"inside_{out}"]]
            assert len(inside) == len(arrays[out])
            scores = (1 - inside.astype(float).max(1), 1 - arrays[out].astype(float).max(1))
            found |= {f"{out}_max_probability_{key}": value for key, value in areas(*scores).items()}
    runs = row.settings["prediction_runs"]
    for key, value in found.items():
        reach = row.metrics.get(f"{key}_std", 0.0) * max(runs - 1, 0) ** 0.5
        assert abs(row.metrics[key] - value) <= 0.02 + reach, key


@pytest.mark.parametrize("network", ["lstm", "st-tau-best"])
def test_a_number_that_does_not_follow_from_the_predictions_is_noticed(network: str, tmp_path: Path) -> None:
    fabricate(tmp_path, networks=(replace(find("imdb", network), seeds=1),))
    check_against_predictions(tmp_path, "imdb", network)
    path = tmp_path / "results.jsonl"
    row = read_results(path)[0]
    row.metrics["ece"] += 0.05 + 6 * row.metrics.get("ece_std", 0.0)
    write_results([row], path)
    with pytest.raises(AssertionError, match="ece"):
        check_against_predictions(tmp_path, "imdb", network)


def test_our_own_measures_agree_with_values_known_by_hand() -> None:
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.35, 0.65]])
    assert errors(p, np.array([0, 1, 1])) == pytest.approx({"pe": 100 / 3, "ece": 125 / 3, "mce": 80.0})
    assert areas(np.array([0.1, 0.2, 0.6]), np.array([0.5, 0.9])) == pytest.approx({"auroc": 250 / 3, "aupr": 250 / 3})
