from __future__ import annotations

import sttau
from sttau import errors


def test_every_error_is_a_value_error() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), errors.SttauError)
    assert issubclass(errors.SttauError, ValueError)


def test_the_errors_are_reached_from_the_package() -> None:
    assert sttau.errors is errors
