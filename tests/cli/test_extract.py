from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sttau import SequenceClassifier, STTauGRU, STTauLSTM
from sttau.automata import from_regex, learn
from sttau.data import load
from sttau.plotting.automaton import write_automaton
from tests.cli.invocation import check_failure, invoke


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
def test_every_file_format_is_written_and_the_json_file_is_equal_to_the_automaton(
    network: Path, kind: str, tmp_path: Path
) -> None:
    forms = {"svg": "<?xml", "png": "", "dot": "digraph", "json": '{"format": "sttau.', "prism": "// written by sttau"}
    files = [tmp_path / f"automaton.{form}" for form in forms]
    shown = invoke("extract", network, "--kind", kind, *(part for file in files for part in ("--out", file)))
    assert shown.exit_code == 0, shown.output
    assert f"{kind.upper()} of " in shown.output
    assert "(categorical)" in shown.output
    for file, begins in zip(files, forms.values(), strict=True):
        assert file.read_bytes().startswith(begins.encode())
    again = invoke("extract", network, "--kind", kind, "--against", tmp_path / "automaton.json")
    assert again.exit_code == 0, again.output
    assert "automaton.json: equal" in again.output
    assert ("largest difference 0.0000" in again.output) == (kind == "pa")


@pytest.mark.parametrize("kind", ["dfa", "pa"])
def test_the_relaxed_table_can_be_read(network: Path, kind: str) -> None:
    assert "(relaxed mean)" in invoke("extract", network, "--kind", kind, "--relaxed").output


def test_a_pa_may_have_no_start_token(network: Path) -> None:
    assert "PA of " in invoke("extract", network, "--kind", "pa", "--start", "").output


def test_a_dfa_of_another_language_is_a_failure(network: Path) -> None:
    shown = invoke("extract", network, "--against", "tomita5")
    assert shown.exit_code == 1
    assert "tomita5: different on “" in shown.output


def test_a_pa_of_another_language_is_a_failure_unless_it_is_close(network: Path) -> None:
    options = ("extract", network, "--kind", "pa", "--against", "stochastic1")
    shown = invoke(*options)
    assert shown.exit_code == 1, shown.output
    assert "stochastic1: different" in shown.output
    assert "largest difference" in shown.output
    assert invoke(*options, "--within", "1").exit_code == 0


def test_a_dfa_that_is_not_the_networks_is_a_failure_unless_forced(tmp_path: Path) -> None:
    torch.manual_seed(2)
    model = SequenceClassifier(STTauGRU(4, 8, num_states=5), 2, torch.nn.Embedding(3, 4))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    model.set_metadata(load("tomita1", "train"))
    path = model.save(tmp_path / "blurred.safetensors")
    shown = invoke("extract", path)
    assert shown.exit_code == 1
    assert "The DFA is not the network's: they agree on" in shown.output
    assert invoke("extract", path, "--force").exit_code == 0


def test_a_network_whose_training_failed_is_a_failure_unless_forced(tmp_path: Path) -> None:
    failed = learn(load("tomita4", "train"), attempts=1, updates=2, warm_start=False)
    path, drawing = failed.model.save(tmp_path / "failed.safetensors"), tmp_path / "automaton.svg"
    shown = invoke("extract", path, "--out", drawing)
    assert shown.exit_code == 1
    assert f"The training of this network did not reach its goal: {failed.reason}" in shown.output
    assert drawing.exists()
    reached = learn(load("tomita4", "train"))
    assert invoke("extract", reached.model.save(tmp_path / "reached.safetensors")).exit_code == 0


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (["--out", "a.pdf"], "an automaton is written as .svg, .png, .dot, .json, .prism, .jff, .att, got 'a.pdf'", 1),
        (["--start", "$"], "start must be in the vocabulary", 1),
        (["--against", "none.json"], "there is no file none.json", 1),
        (["--kind", "nfa"], "--kind must be dfa or pa, got 'nfa'", 2),
        (["--against", "tomita8"], "'tomita8' is not a language: tomita1", 2),
        (["--against", "palindromes"], "'palindromes' is not a language: tomita1", 2),
        (["--accept", "maybe"], "--accept must be one of reject, accept or a number, got 'maybe'", 2),
        (["--relaxed", "--kind", "pa", "--start", ""], "--relaxed needs a start token", 2),
        (["--method", "guess"], "--method must be one of auto, categorical, relaxed mean, merging, L*, k-means", 2),
        (["--relaxed", "--method", "L*"], "--relaxed reads the table of means; leave out --method L*", 2),
    ],
)
def test_wrong_options_are_refused(network: Path, options: list[str], message: str, code: int) -> None:
    check_failure(invoke("extract", network, *options), message, code)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    check_failure(invoke("extract", tmp_path / "none.safetensors"), "there is no file", code=1)


def test_a_model_needs_a_vocabulary(tmp_path: Path) -> None:
    model = SequenceClassifier(STTauGRU(4, 8, 3), 2, torch.nn.Embedding(3, 4))
    shown = invoke("extract", model.save(tmp_path / "model.safetensors"))
    check_failure(shown, "has no vocabulary: call model.set_metadata(data) before model.save(path)", code=1)


@pytest.fixture
def lstm(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    model = SequenceClassifier(STTauLSTM(4, 8, 3), 2, torch.nn.Embedding(3, 4))
    with torch.no_grad():
        model.head.bias.copy_(torch.tensor([-9.0, 9.0]))  # accepts everything
    model.set_metadata(load("tomita1", "train"))
    return model.save(tmp_path / "lstm.safetensors")


@pytest.mark.parametrize("options", [("--method", "categorical"), ("--relaxed",), ("--kind", "pa")])
def test_an_lstm_has_no_transition_table(lstm: Path, options: tuple[str, ...]) -> None:
    check_failure(invoke("extract", lstm, *options), "LSTM", code=1)


def test_a_dfa_is_extracted_from_an_lstm_by_other_methods(lstm: Path) -> None:
    shown = invoke("extract", lstm, "--against", "(0|1)*")
    assert shown.exit_code == 0, shown.output
    assert "DFA of 1 states, extracted by merging; 100 % of" in shown.output


def test_an_automaton_in_a_file_is_compared_and_converted(tmp_path: Path) -> None:
    file = tmp_path / "pairs.json"
    write_automaton(from_regex("(ab)*", "ab"), file)
    shown = invoke("extract", file, "--out", tmp_path / "pairs.dot", "--against", "(ab)*")
    assert shown.exit_code == 0, shown.output
    assert "DFA of 3 states over a b" in shown.output
    assert (tmp_path / "pairs.dot").read_text().startswith("digraph")
    check_failure(invoke("extract", file, "--out", file), "pairs.json would overwrite what is read", 2)
    (truth := tmp_path / "truth.json").write_bytes(file.read_bytes())
    both = invoke("extract", file, "--against", truth, "--out", truth)
    check_failure(both, "truth.json would overwrite what is read", 2)
    other = invoke("extract", file, "--against", "(ba)*")
    assert other.exit_code == 1
    assert "different" in other.output
