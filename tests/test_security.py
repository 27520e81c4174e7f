"""What SECURITY.md promises about the source: nothing in it unpickles a file or runs text as code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = [*(ROOT / "src").rglob("*.py"), *(ROOT / "reproduction/src").rglob("*.py")]

MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml", "pty"}
BUILTINS = {"eval", "exec", "__import__"}
METHODS = {"read_pickle", "to_pickle", "system", "popen"}
TORCH = {("torch", "load"), ("torch", "save"), ("jit", "load"), ("hub", "load")}


def dangers(source: str) -> Iterator[str]:
    """Imports and calls that could execute what a file holds."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            yield from _dangerous_call(node)


def _dangerous_call(node: ast.Call) -> Iterator[str]:
    function = node.func
    if isinstance(function, ast.Name) and function.id in BUILTINS:
        yield function.id
    if isinstance(function, ast.Attribute):
        owner = function.value
        name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
        if function.attr in METHODS or (name, function.attr) in TORCH:
            yield f"{name}.{function.attr}"
    for keyword in node.keywords:
        value = keyword.value
        if keyword.arg in ("allow_pickle", "shell") and not (isinstance(value, ast.Constant) and value.value is False):
            yield f"{keyword.arg}={ast.unparse(value)}"


def test_nothing_in_the_source_unpickles_a_file_or_runs_text() -> None:
    found = {str(path.relative_to(ROOT)): list(dangers(path.read_text("utf-8"))) for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from pickle import loads",
        "import joblib.memory",
        "torch.load(path)",
        "torch.jit.load(path)",
        "numpy.load(path, allow_pickle=True)",
        "numpy.load(path, allow_pickle=flag)",
        "eval(text)",
        "pandas.read_pickle(path)",
        "subprocess.run(text, shell=True)",
        "os.system(text)",
    ],
)
def test_what_would_be_dangerous_is_found(code: str) -> None:
    assert list(dangers(code))


def test_what_is_harmless_is_not() -> None:
    assert not list(dangers("model.eval()\nsttau.load(path)\nnumpy.load(path, allow_pickle=False)\njson.load(file)"))
