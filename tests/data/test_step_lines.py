"""Lines of text as steps of series."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from sttau.data.schema import Schema
from sttau.data.step_lines import Step, StepReader
from sttau.errors import DataError


def _reader(missing: Any = "keep", **names: Any) -> StepReader:
    schema = Schema(layout="long", id="patient", categories={"sex": ("f", "m")}, missing=missing)
    return StepReader(SimpleNamespace(schema=schema, feature_names=("pulse", "sex=f", "sex=m"), **names), 3)


def test_cells_are_in_the_order_of_the_training_data() -> None:
    assert _reader().read("71, m") == Step(None, [71.0, 0.0, 1.0])


def test_a_header_gives_another_order_and_the_series() -> None:
    reader = _reader()
    assert reader.read("sex,patient,hour,pulse") is None
    assert reader.read("f,p7,0,80.5") == Step("p7", [80.5, 1.0, 0.0])


def test_an_object_may_leave_values_out() -> None:
    step = _reader().read('{"sex": "m", "patient": 3, "pulse": null}')
    assert step is not None
    assert step.id == "3"
    assert math.isnan(step.values[0])
    assert step.values[1:] == [0.0, 1.0]


def test_an_unknown_category_warns() -> None:
    with pytest.warns(UserWarning, match="categories that training had not: x"):
        assert _reader().read("71,x") == Step(None, [71.0, 0.0, 0.0])


def test_features_without_names_are_read_by_position() -> None:
    reader = StepReader(SimpleNamespace(schema=None, feature_names=()), 2)
    assert reader.read("1,2.5") == Step(None, [1.0, 2.5])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,m,3", r"line 1 of the input must hold 2 cells separated by commas \(pulse, sex\)"),
        ("fast,m", "expected a number"),
        (",m", "missing value"),
        ('{"weight": 3}', "none of the columns pulse, sex"),
        ('{"pulse": ', "not a JSON object"),
        ("[" * 3, "must hold 2 cells"),
        ('{"a":' * 100_000, "not a JSON object"),
    ],
)
def test_errors_name_the_line_and_what_was_expected(line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        _reader(missing="error").read(line)
