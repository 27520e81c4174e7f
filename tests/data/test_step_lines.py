"""Lines of text as steps of series."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from sttau.data.schema import Schema
from sttau.data.step_lines import Step, StepReader, TextReader
from sttau.data.text import encode
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


def test_another_column_names_the_series() -> None:
    reader = StepReader(SimpleNamespace(schema=Schema(id="patient"), feature_names=("pulse",)), 1, id="bed")
    assert reader.read("pulse,bed,patient") is None
    assert reader.read("71,b4,p1") == Step("b4", [71.0])


def test_a_named_column_that_a_line_lacks_is_an_error() -> None:
    like = SimpleNamespace(schema=None, feature_names=("pulse",))
    with pytest.raises(DataError, match="line 1 of the input has no column 'bed', named by id=; begin with a header"):
        StepReader(like, 1, id="bed").read("71")
    with pytest.raises(DataError, match="line 1 of the input has no column 'bed'"):
        StepReader(like, 1, id="bed").read('{"pulse": 71, "patient": 1}')


def test_empty_lines_count_and_may_come_before_the_header() -> None:
    reader = _reader()
    assert reader.read("") is reader.read("sex,pulse") is reader.read(" ") is None
    with pytest.raises(DataError, match="line 4 of the input must hold 2 cells"):
        reader.read("1")


WORDS = ("<pad>", "<unk>", "it", "'", "s", "great", "!")


def test_a_line_of_text_has_the_tokens_of_the_same_text_in_a_file() -> None:
    reader = TextReader(SimpleNamespace(vocabulary=WORDS))
    text = "It's GREAT<br />indeed!"
    assert reader.read(text, begins=True) == encode(text, WORDS)[0][0].tolist() == [2, 3, 4, 5, 1, 6]
    assert reader.read(" ", begins=False) == reader.read("<br />", begins=False) == []


def test_a_string_has_its_start_token_once() -> None:
    reader = TextReader(SimpleNamespace(vocabulary=("^", "a", "b")))
    assert (
        reader.read("ab", begins=True) + reader.read("b", begins=False) == encode("abb", ("^", "a", "b"))[0][0].tolist()
    )
    with pytest.raises(DataError, match="line 3 of the input: string 'c' has the symbol 'c'"):
        reader.read("c", begins=False)


def test_text_needs_a_vocabulary() -> None:
    with pytest.raises(DataError, match="no vocabulary"):
        TextReader(SimpleNamespace(vocabulary=None))
