"""The settings that a method takes."""

from __future__ import annotations

from typing import Any

import pytest

from sttau.data import load
from sttau.methods import METHODS, DataSpec, build, create_model, resolve
from sttau.methods.settings import check_settings, setting_names


@pytest.mark.parametrize("method", METHODS)
def test_all_defaults_of_a_method_are_settings_of_it(method: str) -> None:
    train = load("digits", "train")
    for cell in METHODS[method].layers:
        spec = DataSpec.of(train)
        settings = resolve(method, spec, {"cell": cell}, 8)
        assert set(settings) <= set(setting_names(method, cell))
        check_settings(method, settings)
        build(method, spec, settings, train, 0)


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        (
            "st-tau",
            {"num_sates": 3},
            "there is no 'num_sates'; did you mean num_states\\? All: hidden_size, num_states",
        ),
        ("st-tau", {"updats": 3}, "there is no 'updats'; did you mean updates\\?"),
        ("lstm", {"num_states": 3}, "settings of 'lstm' do not fit LSTM: there is no 'num_states'"),
        ("lstm", {"size": 3}, "there is no 'size'"),
        ("lstm", {"cell": ["gru"]}, r"cell of 'lstm' must be one of lstm, got \['gru'\]"),
        ("st-tau", {"num_states": "ten"}, "num_states of 'st-tau' must be a number, got 'ten'"),
        ("st-tau", {"scale": "no"}, "scale of 'st-tau' must be true or false, got 'no'"),
        ("st-tau", {"model": 3}, "model of 'st-tau' must map names to values, such as .*dropout.*, got 3"),
        ("st-tau", {"model": {"drop": 1}}, "model of 'st-tau': there is no 'drop'; did you mean dropout\\?"),
        ("st-tau", {"model": {"dropout": None}}, "dropout in model of 'st-tau' must be a number, got None"),
        ("swag", {"posterior": 3}, "posterior of 'swag' must map names to values, got 3"),
    ],
)
def test_what_a_method_does_not_take_is_refused_with_what_it_does(
    method: str, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check_settings(method, given, ["updates", "epochs"])


def test_an_error_of_pytorch_names_the_settings() -> None:
    train = load("tomita1", "train")
    with pytest.raises(ValueError, match=r"settings of 'lstm' have a value that does not fit: .*embedding_size=2\.5"):
        create_model(train, "lstm", embedding_size=2.5)
    with pytest.raises(ValueError, match="memory of 'lstm': steps must be more than 2"):
        create_model(train, "lstm", memory=0)
