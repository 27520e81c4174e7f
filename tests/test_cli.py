from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from sttau import SequenceClassifier, STTauGRU, STTauLSTM, quickstart
from sttau.cli import app
from sttau.data import DATASETS, load

SMALL = {"automaton_updates": 200, "digit_updates": 5, "digit_seeds": 1, "samples": 2, "digit_hidden": 8}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    full = quickstart.Settings
    monkeypatch.setattr(quickstart, "Settings", lambda: full(grammar=1, **SMALL))  # type: ignore[arg-type]


def test_help_names_the_commands_and_each_has_an_example() -> None:
    assert "quickstart" in CliRunner().invoke(app, ["--help"]).output
    assert "Example" in CliRunner().invoke(app, ["quickstart", "--help"]).output


@pytest.mark.usefixtures("small")
def test_quickstart_says_what_came_out_and_where_it_is(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["quickstart", "--out", str(tmp_path / "out")])
    assert answer.exit_code == 0, answer.output
    assert "proved equal" in answer.output
    assert "training: digits, ST-τ LSTM, seed 0" in answer.output
    assert "report.html" in answer.output
    assert (tmp_path / "out/report.html").exists()


def test_quickstart_fails_when_the_automaton_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = quickstart.Settings
    untrained = SMALL | {"automaton_updates": 1, "automaton_attempts": 1}
    monkeypatch.setattr(quickstart, "Settings", lambda: full(grammar=3, **untrained))  # type: ignore[arg-type]
    answer = CliRunner().invoke(app, ["quickstart", "--out", str(tmp_path)])
    assert answer.exit_code == 1
    assert "differs on" in answer.output


def test_a_file_in_the_place_of_the_folder_is_refused_before_any_work(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    answer = CliRunner().invoke(app, ["quickstart", "--out", str(path)])
    assert answer.exit_code == 2
    assert "name a folder" in answer.output


@pytest.fixture
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STTAU_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("STTAU_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("_nowhere")
def test_data_list_shows_every_set_and_where_it_is() -> None:
    answer = CliRunner().invoke(app, ["data", "list"], env={"COLUMNS": "120"})
    assert answer.exit_code == 0
    assert all(name in answer.output for name in DATASETS)
    assert "23,000" in answer.output
    assert "not here; sttau data get imdb" in answer.output
    assert "comes with sttau" in answer.output


@pytest.mark.usefixtures("_nowhere")
@pytest.mark.parametrize("name", DATASETS)
def test_data_info_shows_license_citation_and_origin(name: str) -> None:
    answer = CliRunner().invoke(app, ["data", "info", name], env={"COLUMNS": "1000"})
    assert answer.exit_code == 0
    source = DATASETS[name].source
    for word in (source.title, source.license, source.citation, source.homepage, source.content):
        assert word in answer.output
    for form in source.forms:
        assert all(url in answer.output for url in form.urls)


@pytest.mark.parametrize("command", ["info", "get"])
def test_an_unknown_set_is_refused_without_a_trace(command: str) -> None:
    answer = CliRunner().invoke(app, ["data", command, "mnist"])
    assert answer.exit_code == 1
    assert "name must be one of bih" in answer.output
    assert "Traceback" not in answer.output


@pytest.mark.usefixtures("_nowhere")
def test_data_get_says_what_to_do_when_there_is_an_account_between() -> None:
    answer = CliRunner().invoke(app, ["data", "get", "bih"])
    assert answer.exit_code == 1
    assert "mitbih_train.csv" in answer.output
    assert "--path FOLDER" in answer.output


def test_data_get_needs_nothing_for_what_comes_with_sttau() -> None:
    answer = CliRunner().invoke(app, ["data", "get", "digits"])
    assert answer.exit_code == 0
    assert "digits is ready" in answer.output
    assert "CC BY 4.0" in answer.output


def test_data_commands_have_examples() -> None:
    for command in ("list", "info", "get"):
        assert "Example" in CliRunner().invoke(app, ["data", command, "--help"]).output


def test_bench_writes_numbers_and_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sttau import bench as speed

    monkeypatch.setattr(speed, "CPU_SHAPES", (speed.Shape("lstm", 2, 5, 3, 8, 2),))
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(
        app, ["bench", "--out", str(tmp_path), "--device", "cpu", "--seconds", "0.0001"]
    )
    assert shown.exit_code == 0, shown.output
    assert "LSTM B2 T5 F3 d8 k2" in shown.output
    assert (tmp_path / "results.jsonl").read_text("utf-8").count("\n") == 3
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")


def test_bench_names_a_device_that_is_not_there() -> None:
    shown = CliRunner().invoke(app, ["bench", "--device", "tpu"])
    assert shown.exit_code == 2
    assert "--device tpu is not there" in shown.output


@pytest.fixture
def network(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauGRU(4, 8, num_states=5), 2, torch.nn.Embedding(3, 4))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4)
    model.set_metadata(load("tomita1", "train"))
    return model.save(tmp_path / "network.safetensors")


@pytest.mark.parametrize("kind", ["dfa", "pa"])
def test_extract_writes_every_form_and_knows_its_own_again(network: Path, kind: str, tmp_path: Path) -> None:
    forms = {"svg": "<?xml", "png": "", "dot": "digraph", "json": '{"format": "sttau.', "prism": "// written by sttau"}
    files = [tmp_path / f"automaton.{form}" for form in forms]
    options = [part for file in files for part in ("--out", str(file))]
    shown = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["extract", str(network), "--kind", kind, *options])
    assert shown.exit_code == 0, shown.output
    assert f"{kind.upper()} of " in shown.output
    assert "(categorical)" in shown.output
    relaxed = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["extract", str(network), "--kind", kind, "--relaxed"])
    assert "(relaxed mean)" in relaxed.output
    for file, begins in zip(files, forms.values(), strict=True):
        assert file.read_bytes().startswith(begins.encode())
    again = CliRunner(env={"COLUMNS": "300"}).invoke(
        app, ["extract", str(network), "--kind", kind, "--against", str(tmp_path / "automaton.json")]
    )
    assert again.exit_code == 0, again.output
    assert "automaton.json: equal" in again.output
    assert ("largest difference 0.0000" in again.output) == (kind == "pa")


def test_extract_fails_where_the_language_is_another(network: Path) -> None:
    shown = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["extract", str(network), "--against", "tomita5"])
    assert shown.exit_code == 1
    assert "tomita5: different on “" in shown.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "a.pdf"], "an automaton is written as .svg, .png, .dot, .json, .prism, got 'a.pdf'"),
        (["--kind", "nfa"], "--kind must be dfa or pa, got 'nfa'"),
        (["--against", "tomita8"], "number must be 1 … 7"),
        (["--against", "palindromes"], "--against must be tomita1"),
        (["--accept", "maybe"], "--accept must be one of reject, accept or a number, got 'maybe'"),
        (["--start", "$"], "start must be in the vocabulary"),
    ],
)
def test_extract_names_what_is_wrong(network: Path, options: list[str], message: str) -> None:
    shown = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["extract", str(network), *options])
    assert shown.exit_code == 1
    assert message in shown.output
    assert "Traceback" not in shown.output


def test_extract_needs_to_know_the_symbols_and_a_law(tmp_path: Path) -> None:
    silent = SequenceClassifier(STTauGRU(4, 8, 3), 2, torch.nn.Embedding(3, 4)).save(tmp_path / "silent.safetensors")
    shown = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["extract", str(silent)])
    assert "does not say what its tokens mean: model.set_metadata(data)" in shown.output
    model = SequenceClassifier(STTauLSTM(4, 8, 3), 2, torch.nn.Embedding(3, 4))
    model.set_metadata(load("tomita1", "train"))
    path = model.save(tmp_path / "lstm.safetensors")
    for kind in ("dfa", "pa"):
        shown = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["extract", str(path), "--kind", kind])
        assert "an LSTM's memory c_t depends on the whole path" in shown.output


TINY = ["--seeds", "1", "--updates", "4", "--hidden-size", "4", "--samples", "2"]


def test_compare_shows_a_table_and_writes_it_down(tmp_path: Path) -> None:
    command = ["compare", "digits", "--methods", "lstm,st-tau", *TINY, "--set", "st-tau.num_states=3", "--scaling"]
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*command, "--out", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    for words in (
        "training: st-tau, seed 0 (2 of 2)",
        "st-tau + scaling",
        "ECE %",
        "decide on NLL and Brier",
        "table.md",
    ):
        assert words in shown.output
    assert "st-tau + scaling" in (tmp_path / "table.md").read_text("utf-8")
    assert (tmp_path / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert '"states": 3' in (tmp_path / "results.jsonl").read_text("utf-8")
    again = CliRunner(env={"COLUMNS": "200"}).invoke(app, [*command, "--updates", "5", "--out", str(tmp_path)])
    assert again.exit_code == 1
    assert "updates was 4, is 5" in again.output


def test_an_interrupted_comparison_says_how_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import import_module

    from sttau.training import Interrupted

    def interrupted(*_: object, **__: object) -> None:
        raise Interrupted("training was interrupted after update 3 of 4. The same call goes on from there.")

    monkeypatch.setattr(import_module("sttau.compare"), "compare", interrupted)
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["compare", "digits", *TINY, "--out", str(tmp_path)])
    assert shown.exit_code == 130
    assert "The same call goes on from there." in shown.output


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--methods", "rnn"], "methods must be among lstm"),
        (["--set", "num_states=3"], "--set must be method.name=value"),
        (["--ood", "mnist"], "name must be one of bih"),
    ],
)
def test_compare_says_what_is_wrong_without_a_trace(options: list[str], words: str, tmp_path: Path) -> None:
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(
        app, ["compare", "digits", *TINY, *options, "--out", str(tmp_path)]
    )
    assert shown.exit_code == 1
    assert words in shown.output


def test_a_policy_is_trained_saved_watched_and_drawn(tmp_path: Path) -> None:
    policy, video, drawing = tmp_path / "policy.safetensors", tmp_path / "video.gif", tmp_path / "automaton.json"
    arguments = ["rl", "train", "cartpole-pomdp", "--episodes", "20", "--hidden-size", "8", "--out", str(policy)]
    trained = CliRunner().invoke(app, arguments)
    assert trained.exit_code == 0, trained.output
    assert len(policy.with_suffix(".jsonl").read_text("utf-8").splitlines()) == 2
    arguments = ["rl", "watch", str(policy), "--out", str(video), "--automaton", str(drawing), "--episodes", "5"]
    watched = CliRunner().invoke(app, arguments)
    assert watched.exit_code == 0, watched.output
    assert "cartpole-pomdp, sampling: mean reward" in watched.output
    assert video.read_bytes().startswith(b"GIF89a")
    assert "angle" in drawing.read_text("utf-8")
    wrong = CliRunner().invoke(app, ["rl", "watch", str(policy), "--task", "cartpole-mdp"])
    assert wrong.exit_code == 1
    assert "reads 2 numbers a step, but cartpole-mdp shows 4" in wrong.output


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["pong"], "no task 'pong'"),
        (["cartpole-mdp", "--horizon", "0"], "horizon must be at least 1 step"),
        (["cartpole-mdp", "--choice", "lazy"], "choice must be one of 'sampling', 'greedy'"),
        (["cartpole-mdp", "--method", "svm"], "no method 'svm'"),
    ],
)
def test_a_policy_for_something_unknown_is_refused(more: list[str], message: str) -> None:
    answer = CliRunner().invoke(app, ["rl", "train", *more])
    assert answer.exit_code == 1
    assert message in answer.output
