from __future__ import annotations

import dataclasses
import json
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR

from sttau import SequenceClassifier, compare
from sttau.comparison import METHODS, Comparison, network, run
from sttau.data import SequenceDataset, load
from sttau.inference import predict
from sttau.metrics import brier_score, calibration_error, negative_log_likelihood
from sttau.training import Interrupted, TrainOptions, Update, focal_loss

SMALL: dict[str, Any] = {
    "hidden_size": 6, "updates": 6, "validate_every": 3, "samples": 2, "resamples": 20, "rounds": 99, "progress": False,
}  # fmt: skip


def digits(count: int = 40) -> list[SequenceDataset]:
    parts = (load("digits", split) for split in ("train", "validation", "test"))  # sorted by class
    return [part.select(torch.linspace(0, len(part) - 1, count).long()) for part in parts]


def without_time(comparison: Comparison) -> list[dict[str, Any]]:
    return [row for row in comparison.rows if row["metric"] not in ("seconds", "predict_ms")]


@pytest.fixture(scope="module")
def small() -> Comparison:
    return compare(list(METHODS), digits(), seeds=2, ood=torch.rand(20, 8, 8), scaling=True, **SMALL)


def test_every_method_has_a_row_for_every_metric(small: Comparison) -> None:
    methods = [f"{name}{end}" for name in METHODS for end in ("", " + scaling")]
    metrics = ["pe", "nll", "brier", "ece", "mce", "aurc", "auroc", "aupr"]
    metrics += ["set_coverage", "set_size", "parameters", "seconds", "predict_ms"]
    assert [(row["method"], row["metric"]) for row in small.rows] == [(a, b) for a in methods for b in metrics]
    assert small.methods == methods
    assert small.metrics == metrics
    for row in small.rows:
        counted = row["metric"] in ("parameters", "seconds", "predict_ms")
        assert row["seeds"] == 2
        assert (row["p"] is None) == (counted or row["goal"] is None or row["method"] == "lstm")
        assert counted or row["low"] <= row["high"]
    assert len(small.results) == 2 * len(methods)


def test_the_numbers_are_those_of_the_networks_that_are_returned(small: Comparison) -> None:
    test = digits()[2]
    for method in METHODS:
        answers = [
            predict(model, test.inputs, test.lengths, 2, seed).mean for seed, model in enumerate(small.models[method])
        ]
        for metric, function, scale in (
            ("nll", negative_log_likelihood, 1),
            ("brier", brier_score, 1),
            ("ece", calibration_error, 100),
        ):
            values = torch.tensor([scale * function(answer, test.labels) for answer in answers], dtype=torch.float64)
            row = small.row(method, metric)
            assert row["value"] == pytest.approx(float(values.mean()), rel=1e-5)
            assert row["spread"] == pytest.approx(float(values.std()), rel=1e-4)


def test_a_comparison_is_reproducible_and_independent_of_the_other_methods(small: Comparison) -> None:
    fewer = compare(["lstm", "st-tau"], digits(), seeds=2, ood=small_ood(), **SMALL)
    assert not torch.equal(
        small.models["lstm"][0].members[0].head.weight, small.models["lstm"][1].members[0].head.weight
    )
    for method in ("lstm", "st-tau"):
        for model, other in zip(small.models[method], fewer.models[method], strict=True):
            assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def small_ood() -> torch.Tensor:
    return torch.rand(20, 8, 8)


def test_scaling_keeps_the_predicted_classes_of_one_network_and_changes_its_confidence(small: Comparison) -> None:
    plain, scaled = small.row("lstm", "pe"), small.row("lstm + scaling", "pe")
    assert plain["value"] == scaled["value"]
    assert small.row("lstm", "nll")["value"] != small.row("lstm + scaling", "nll")["value"]
    result = next(result for result in small.results if result.method == "lstm + scaling")
    assert result.settings["scaling"] > 0


def test_every_option_of_training_is_taken_and_recorded_as_a_plain_value(tmp_path: Path) -> None:
    settings = {name: value for name, value in SMALL.items() if name != "updates"}
    weights = torch.linspace(0, 1, 40)
    comparison = compare(
        ["lstm", "st-tau"], digits(), seeds=1, folder=tmp_path, epochs=2, batch_size=16, class_weight={"3": 2},
        sample_weight=weights, loss=partial(focal_loss, gamma=1), scheduler=partial(StepLR, step_size=4), **settings,
    )  # fmt: skip
    recorded = comparison.results[0].settings
    assert json.loads(json.dumps(recorded)) == recorded
    expected = {"epochs": 2, "loss": "focal_loss(gamma=1)", "scheduler": "StepLR(step_size=4)", "updates_made": 6}
    assert expected.items() <= recorded.items()
    assert recorded["sample_weight"].startswith("tensor (40,) with SHA-256")


def test_marks_follow_from_p_and_the_direction_of_the_metric() -> None:
    row = {"goal": "min", "difference": -0.1, "p_adjusted": 0.005}
    assert run._mark(row) == "▲▲"
    assert run._mark(row | {"goal": "max"}) == "▼▼"
    assert run._mark(row | {"p_adjusted": 0.05}) == "▲"
    assert run._mark(row | {"p_adjusted": 0.051}) == ""
    assert run._mark(row | {"p_adjusted": None}) == ""


def test_a_method_that_learns_is_marked_as_better_than_one_that_does_not() -> None:
    def frozen(data: SequenceDataset, seed: int) -> SequenceClassifier:
        model = SequenceClassifier(nn.GRU(8, 16), 10)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name == "head.bias")
        return model

    settings = SMALL | {"hidden_size": 16, "updates": 80, "rounds": 999, "learning_rate": 0.02}
    comparison = compare({"frozen": frozen, "gru": "gru"}, digits(100), seeds=1, **settings)
    assert comparison.reference == "frozen"
    for metric in ("pe", "nll", "brier"):
        row = comparison.row("gru", metric)
        assert row["difference"] < 0
        assert row["mark"] == "▲▲"
        assert row["p"] == row["p_adjusted"] == 1 / 1000
    turned = compare({"frozen": frozen, "gru": "gru"}, digits(100), seeds=1, reference="gru", **settings)
    assert turned.row("frozen", "nll")["mark"] == "▼▼"


@pytest.mark.parametrize("name", ["tomita2", "numbers"])
def test_tokens_of_any_length_and_regression_are_compared(name: str) -> None:
    if name == "tomita2":
        data = [load(name, split).select(torch.arange(60)) for split in ("train", "validation", "test")]
        metrics = ["pe", "nll", "brier", "ece", "mce", "aurc"]
    else:
        x = torch.randn(90, 5, 2)
        whole = SequenceDataset("numbers", "train", x, torch.randint(2, 6, (90,)), x[:, 0], (), "made up")
        data = [whole.select(torch.arange(90) % 3 == part) for part in range(3)]
        metrics = ["mse", "mae", "nll", "crps", "coverage", "width"]
    comparison = compare(["lstm", "ensemble", "bayes", "dropout", "st-tau"], data, seeds=1, **SMALL)
    assert comparison.metrics == [*metrics, "set_coverage", "set_size", "parameters", "seconds", "predict_ms"]
    assert all(row["spread"] is None for row in comparison.rows)
    assert all(torch.tensor(row["value"]).isfinite() for row in comparison.rows)


def test_an_interrupted_comparison_is_resumed_and_trains_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods, data = ["lstm", "st-tau"], digits()
    whole = compare(methods, data, seeds=2, **SMALL)
    numbers: list[tuple[str, int]] = []
    fit: Any = vars(network)["fit"]

    def watched(*args: Any, options: TrainOptions, **others: Any) -> Any:
        def watch(update: Update) -> None:
            numbers.append((str(options.folder), update.number))
            if len(numbers) == 10:  # in the second network, after its first checkpoint
                raise Interrupted

        return fit(*args, options=options.with_changes(callbacks=[*cast(Any, options.callbacks), watch]), **others)

    monkeypatch.setattr(network, "fit", watched)
    with pytest.raises(Interrupted):
        compare(methods, data, seeds=2, folder=tmp_path, **SMALL)
    again = compare(methods, data, seeds=2, folder=tmp_path, **SMALL)
    assert without_time(again) == without_time(whole)
    made = len(numbers)
    assert made == 4 * 6 + 1  # one update was made again
    third = compare(methods, data, seeds=2, folder=tmp_path, **SMALL)
    assert len(numbers) == made
    assert without_time(third) == without_time(whole)
    assert [r.metrics["seconds"] for r in third.results] == [r.metrics["seconds"] for r in again.results]
    more = compare(["gru", *methods], data, seeds=2, folder=tmp_path, **SMALL)
    assert len(numbers) == made + 2 * 6
    assert more.row("st-tau", "nll")["value"] == whole.row("st-tau", "nll")["value"]


def test_a_folder_of_another_comparison_is_rejected(tmp_path: Path) -> None:
    train, validation, test = digits()
    compare(["lstm"], (train, validation, test), seeds=1, folder=tmp_path, **SMALL)
    other = dataclasses.replace(validation, inputs=validation.inputs + 1)
    with pytest.raises(ValueError, match=r"other settings: validation data was 40 sequences .* or another folder"):
        compare(["lstm"], (train, other, test), seeds=1, folder=tmp_path, **SMALL)
    with pytest.raises(ValueError, match="holds a run with other settings: updates was 6, is 7"):
        compare(["lstm"], (train, validation, test), seeds=1, folder=tmp_path, **SMALL | {"updates": 7})
    with pytest.raises(ValueError, match=r"other settings: model\.layer\.arguments\.hidden_size was 6, is 7"):
        compare(["lstm"], (train, validation, test), seeds=1, folder=tmp_path, **SMALL | {"hidden_size": 7})


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"methods": "lstm"}, ValueError, "methods must be a list of names"),
        ({"methods": []}, ValueError, "methods must be a list of names"),
        ({"methods": ["rnn"]}, ValueError, "method must be one of lstm, gru"),
        ({"methods": {"mine": 3}}, ValueError, "method must be one of lstm, gru, .* got 3"),
        ({"methods": {"a/b": "lstm"}}, ValueError, "must not hold a path"),
        (
            {"methods": {"mine": lambda data, seed: nn.LSTM(1, 1)}},
            TypeError,
            "methods must return a SequenceClassifier",
        ),
        ({"reference": "gru"}, ValueError, "reference must be one of the methods, lstm, st-tau, got 'gru'"),
        ({"seeds": 0}, ValueError, "seeds must be at least 1"),
        ({"seeds": [1, 1]}, ValueError, "different integers"),
        ({"settings": {"gru": {}}}, ValueError, "settings must be for methods of this comparison, lstm, st-tau"),
        ({"data": [1, 2]}, ValueError, "data must be the name of a data set, or its"),
        ({"data": "mnist"}, ValueError, "name must be one of bih"),
        ({"ood": torch.rand(3, 8, 7)}, ValueError, "ood does not match the data: inputs have 7 features"),
        ({"ood": "mnist"}, ValueError, "name must be one of bih"),
        ({"update": 3}, TypeError, "update: there is no such training option"),
        ({"folder": None, "metric": "nll"}, TypeError, r"compare\(\) sets metric itself"),
    ],
)
def test_bad_arguments_are_rejected_before_any_training(
    changes: dict[str, Any], kind: type[Exception], words: str
) -> None:
    def started(title: str) -> None:
        pytest.fail(f"{title} was started")

    arguments: dict[str, Any] = {"methods": ["lstm", "st-tau"], "data": digits(), **SMALL, "on_network": started}
    arguments |= changes
    with pytest.raises(kind, match=words):
        compare(arguments.pop("methods"), arguments.pop("data"), **arguments)


def test_ood_data_is_detected_by_the_detector_of_choice() -> None:
    data = digits()
    found = {
        name: compare(["lstm"], data, ood=data[2].inputs.flip(1), detector=name, seeds=1, **SMALL)
        for name in ("max-probability", "mahalanobis")
    }
    values = {name: one.row("lstm", "auroc")["value"] for name, one in found.items()}
    assert values["max-probability"] != values["mahalanobis"]
    assert found["max-probability"].row("lstm", "nll")["value"] == found["mahalanobis"].row("lstm", "nll")["value"]
    with pytest.raises(ValueError, match="detector must be one of"):
        compare(["lstm"], data, detector="none", seeds=1, **SMALL)
