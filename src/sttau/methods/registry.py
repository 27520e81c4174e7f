"""Every method by its name."""

from __future__ import annotations

from importlib import import_module

from sttau.methods.record import Method

#: The files with a ``METHOD``, in the order of tables. A new method is a new file and its name in this line.
_FILES = (
    "lstm", "gru", "min_gru", "ensemble", "laplace", "swag", "bayes", "sp_gru", "dropout", "head_dropout",
    "state_regularized", "st_tau", "mixture",
)  # fmt: skip

#: Every method by its name.
METHODS: dict[str, Method] = {
    method.name: method for method in (import_module(f"sttau.methods.{file}").METHOD for file in _FILES)
}


def find_method(name: str) -> Method:
    """Return a method by name; an error that lists the names if there is none."""
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {name!r}")
    return METHODS[name]
