from __future__ import annotations

from pathlib import Path

import pytest

from sttau.data import load
from sttau.layers import SAMPLED_MODES
from sttau.methods import METHODS, DataSpec, build, resolve
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
from sttau.data import load
from sttau.layers import SAMPLED_MODES
from sttau.methods import METHODS, DataSpec, build, resolve
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


@pytest.mark.parametrize("name", METHODS)
def test_a_record_says_what_its_layers_do(name: str) -> None:
    data = load("digits", "train")
    spec = DataSpec.of(data)
    method = METHODS[name]
    model = build(name, spec, resolve(name, spec, {}, 8), data, 0)
    layer = model.members[0].layer
    assert (len(model.members) > 1) == (method.sampling == "members" and method.posterior is None)
    assert (layer.mode in SAMPLED_MODES) == (method.sampling in ("states", "weights", "masks"))
    assert layer.shares_draws == (method.sampling == "weights")
