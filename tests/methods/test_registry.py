from __future__ import annotations

from pathlib import Path

import pytest

from sttau.methods import METHODS
from sttau.methods.registry import find_method
from tests.extension import copy_package, replace_once, run_copy

NEW_METHOD = '''"""A GRU with two layers."""

from functools import partial

from torch import nn

from sttau.methods.record import Method

METHOD = Method("deep-gru", "deep GRU", "#123456", {"gru": partial(nn.GRU, num_layers=2)})
'''
USE = """
import sttau
import torch
from sttau.methods import METHODS
digits = tuple(sttau.data.load("digits", split)[:20] for split in ("train", "validation", "test"))
comparison = sttau.compare(["lstm", "deep-gru"], digits, seeds=1, hidden_size=4, updates=2)
assert comparison.row("deep-gru", "nll")["value"] > 0
assert comparison.models["deep-gru"][0].layer.num_layers == 2
assert METHODS["deep-gru"].color == "#123456"
"""


def test_names_are_the_keys_of_the_registry() -> None:
    assert all(name == method.name for name, method in METHODS.items())


def test_an_unknown_method_is_rejected_with_the_names_of_all() -> None:
    with pytest.raises(ValueError, match=r"method must be one of lstm, gru, .* got 'rnn'"):
        find_method("rnn")


def test_a_new_method_is_one_file_and_one_name(tmp_path: Path) -> None:
    """It is built, trained and compared by its name."""
    package = copy_package(tmp_path)
    (package / "methods/deep_gru.py").write_text(NEW_METHOD, "utf-8")
    replace_once(package / "methods/registry.py", '"gru",', '"gru", "deep_gru",')
    run_copy(package, "-c", USE)
