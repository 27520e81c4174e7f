"""A faster interpreter of Triton: the same operations, without work that it repeats at every call of a function."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def _interpreter() -> Iterator[None]:
    """Let a function that a kernel calls leave alone what the kernel has replaced, and look up each dtype once.

    For the time of a kernel, the interpreter replaces the functions of ``triton.language``; it searches the modules for
    what is left to be replaced at each call of a function in it.
    """
    try:
        from triton import language
        from triton.runtime import interpreter
    except ImportError:  # those tests are skipped
        yield
        return
    if not (hasattr(interpreter, "_patch_lang") and hasattr(interpreter, "_get_np_dtype")):  # another version: as it is
        yield
        return
    replace, dtype = interpreter._patch_lang, interpreter._get_np_dtype
    scalar_dtype = cache(dtype)

    def replace_once(function: Any) -> Any:
        modules = [value for value in function.__globals__.values() if inspect.ismodule(value)]
        languages = [module for module in modules if module in (language, language.core)]
        if all(not language.core.is_builtin(module.load) for module in languages):
            return interpreter._LangPatchScope()  # nothing to restore
        return replace(function)

    def dtype_once(kind: Any) -> Any:  # a block has that of its elements; neither blocks nor pointers can be hashed
        return scalar_dtype(kind.scalar) if type(kind.scalar) is language.dtype else dtype(kind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang", replace_once)
        patch.setattr(interpreter, "_get_np_dtype", dtype_once)
        yield
