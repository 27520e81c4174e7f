from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
from torch import nn

from sttau.models.hooks import is_changed

CHANGES: dict[str, Callable[[nn.Module], Any]] = {
    "forward hook": lambda module: module.register_forward_hook(lambda *_: None),
    "forward pre-hook": lambda module: module.register_forward_pre_hook(lambda *_: None),
    "backward hook": lambda module: module.register_full_backward_hook(lambda *_: None),
    "forward of its own": lambda module: setattr(module, "forward", MethodType(lambda self, x: x, module)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_shortcut_would_leave_out_is_noticed(change: str) -> None:
    module = nn.Embedding(3, 2)
    assert not is_changed(module)
    handle = CHANGES[change](module)
    assert is_changed(module)
    if handle is not None:
        handle.remove()
        assert not is_changed(module)
