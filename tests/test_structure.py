"""The structure of the package: what mirrors what, and what is imported when."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path

import pytest

import sttau

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/sttau"
TESTS = ROOT / "tests"

#: Modules that another test file than their own covers, and which one.
COVERED = {
    # records and constants, which hold no behavior of their own
    "data/entry.py": "data/test_registry.py",
    "data/request.py": "data/test_table.py",
    "engine/constants.py": "engine/test_backend.py",
    "engine/launch.py": "engine/recurrence/test_triton.py",
    "plotting/style.py": "plotting/test_comparison.py",
    "cli/model_files.py": "cli/test_train.py",
    "report/page.py": "report/test_training.py",
    "serve/settings.py": "serve/test_app.py",
    "export/graph.py": "export/test_onnx.py",
    "export/draws.py": "export/test_onnx.py",
    "export/layers/*.py": "export/test_onnx.py",
    "models/predictor.py": "models/test_base.py",
    # files that hold one case each of what is tested over all cases
    "methods/[!r]*.py": "methods/test_build.py",
    "methods/record.py": "methods/test_build.py",
    "ood/detectors/*.py": "ood/test_detector.py",
    "models/kept.py": "ood/test_detector.py",
    "ood/scores/*.py": "ood/test_scores.py",
    "calibration/*.py": "calibration/test_scaling.py",
    "data/*_reviews.py": "data/test_reviews.py",
    # parts of an operator, tested through it
    "engine/masked/*.py": "engine/masked/test_operator.py",
    "engine/path_sum/operator.py": "engine/path_sum/test_reference.py",
    "engine/path_sum/triton_*.py": "engine/path_sum/test_triton.py",
    "engine/path_sum/cpu_kernels.py": "engine/path_sum/test_cpu.py",
    "engine/recurrence/cpu_*.py": "engine/recurrence/test_cpu.py",
    "engine/recurrence/triton_*.py": "engine/recurrence/test_triton.py",
    "engine/recurrence/factored.py": "engine/recurrence/test_autograd.py",
    "engine/recurrence/operator.py": "engine/recurrence/test_autograd.py",
    "engine/recurrence/problem.py": "engine/recurrence/test_autograd.py",
    "engine/simd/*.py": "engine/simd/test_simd.py",
    "engine/stacked/*.py": "engine/stacked/test_operator.py",
    "automata/compiled_kernel.py": "automata/test_compiled.py",
    "automata/exchange/nondeterministic.py": "automata/exchange/test_jflap.py",
    "automata/exchange/states.py": "automata/test_exchange.py",
    "automata/learning/folds.py": "automata/learning/test_maximum_likelihood.py",
    "automata/learning/labeled_tree.py": "automata/learning/test_label_noise.py",
    "automata/learning/network.py": "automata/learning/test_regular.py",
    "automata/learning/search_kernel.py": "automata/learning/test_label_noise.py",
    "languages/alphabets.py": "languages/test_pa.py",
    "plotting/automaton_layout.py": "plotting/test_automaton.py",
    # internal parts of one public function, tested through it
    "comparison/columns.py": "comparison/test_run.py",
    "comparison/network.py": "comparison/test_run.py",
    "comparison/training.py": "comparison/test_run.py",
    "jobs/task.py": "jobs/test_runner.py",
    "metrics/record.py": "metrics/test_registry.py",
    "metrics/sorting.py": "metrics/test_risk_coverage.py",
    "metrics/statistics/evaluation.py": "metrics/statistics/test_intervals.py",
    "report/quickstart_figures.py": "report/test_html.py",
    "plotting/reliability.py": "report/test_html.py",
    "training/streams.py": "gpu/test_training.py",
    "training/stacking.py": "training/test_many.py",
    "training/checkpoints.py": "training/test_resume.py",
    "training/weight_distribution.py": "training/test_posterior.py",
    "training/interruption.py": "training/test_resume.py",
    # base classes, tested through the classes people use
    "layers/torch_rnn.py": "models/test_base.py",
    "sklearn/base.py": "sklearn/test_classifier.py",
}


def modules(package: Path) -> Iterator[Path]:
    """Modules that should have tests, relative to the package."""
    for path in sorted(package.rglob("*.py")):
        if path.name not in ("__init__.py", "__main__.py"):
            yield path.relative_to(package)


def untested(package: Path, tests: Path) -> list[str]:
    """Modules of a package without a test file of their name."""
    return [str(name) for name in modules(package) if not (tests / name.parent / f"test_{name.name}").exists()]


def check_exceptions(covered: Mapping[str, str], package: Path, tests: Path) -> None:
    """Fail unless each exception is needed and names a test file that exists."""
    names = untested(package, tests)
    for pattern, test in covered.items():
        assert any(fnmatchcase(name, pattern) for name in names), pattern
        assert (tests / test).exists(), test


def test_every_module_has_a_test_file_of_its_name() -> None:
    missing = [name for name in untested(PACKAGE, TESTS) if not any(fnmatchcase(name, pattern) for pattern in COVERED)]
    assert not missing, f"no tests/…/test_NAME.py for {', '.join(missing)}"


def test_every_exception_names_modules_and_a_test_file_that_exist() -> None:
    check_exceptions(COVERED, PACKAGE, TESTS)


def test_contributing_describes_every_module() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    names = {module.parts[0].removesuffix(".py") for module in modules(PACKAGE)}
    assert not [name for name in sorted(names) if f"`{name}/`" not in text and f"`{name}.py`" not in text]
    reproduction = ROOT / "reproduction/src/sttau_reproduction"
    folders = {f"{path.name}/" for path in reproduction.iterdir() if (path / "__init__.py").exists()}
    assert not [name for name in sorted(folders) if f"`{name}`" not in text]


def test_contributing_lists_the_files_with_more_than_400_lines() -> None:
    listed = set(re.findall(r"^\| `(\S+\.py)` \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE))
    sources = [*PACKAGE.rglob("*.py"), *(ROOT / "reproduction/src").rglob("*.py")]
    long = {str(path.relative_to(ROOT)) for path in sources if len(path.read_text("utf-8").splitlines()) > 400}
    assert {name for name in listed if "/" in name} == long


def test_no_test_file_has_more_than_400_lines() -> None:
    tests = [*TESTS.rglob("*.py"), *(ROOT / "reproduction/tests").rglob("*.py")]
    lines = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in tests}
    assert len(lines) > 300
    assert not {name: count for name, count in lines.items() if count > 400}


def test_only_commands_print() -> None:
    for package in (PACKAGE, ROOT / "reproduction/src/sttau_reproduction"):
        for path in package.rglob("*.py"):
            place = path.relative_to(package).parts[0]
            if place == "cli":
                continue
            code = re.sub(r'"""(?:.|\n)*?"""', "", path.read_text("utf-8"))
            assert not re.search(r"(?<![\w.])print\(|sys\.stdout|sys\.stderr\.write", code), path


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the repository, not an archive of it")
def test_the_tracked_files_have_less_than_8_megabytes() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    sizes = {name: path.stat().st_size for name in listed.split("\0") if name and (path := ROOT / name).is_file()}
    largest = sorted(sizes, key=sizes.__getitem__)[-5:]
    assert sum(sizes.values()) < 8e6, f"the largest are {largest}"


def test_importing_the_library_loads_nothing_heavy_that_may_not_be_needed() -> None:
    heavy = ["matplotlib", "networkx", "pandas", "typer", "rich", "sklearn", "pooch", "requests", "wfdb", "pyarrow"]
    heavy += ["numba", "triton", "torchmetrics", "torch._dynamo", "gymnasium", "pygame", "PIL", "automata"]
    names = [name for name in sttau.__all__ if name not in ("automata", "rl", "sklearn")]  # they need what they name
    code = f"import sys, sttau; [getattr(sttau, n) for n in {names}]; print([m for m in {heavy} if m in sys.modules])\n"
    code += f"sttau.load({str(ROOT / 'tests/artefacts/v0.1/classifier-STTauGRU-exact.safetensors')!r})\n"
    code += "print([m for m in ('torch._dynamo', 'sympy', 'sklearn') if m in sys.modules])"  # nor does loading a model
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n[]\n"


def test_public_names_exist_and_have_documentation() -> None:
    for name in sttau.__all__:
        assert getattr(sttau, name).__doc__, name


def test_public_modules_list_their_public_names() -> None:
    """Public modules are those of the table in docs/README.md."""
    table = (ROOT / "docs/README.md").read_text("utf-8").split("## Public modules")[1]
    modules = re.findall(r"^\| `(sttau(?:\.[\w.]+)?)` \|", table, re.MULTILINE)
    assert len(modules) > 20
    for name in modules:
        module = import_module(name)
        assert module.__doc__, name
        for public in module.__all__:
            assert hasattr(module, public), f"{name}.{public}"


def _imports(path: Path) -> Iterator[tuple[str, str]]:
    """Modules of the library with the names that a page or an example imports from them."""
    text = path.read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL) if path.suffix == ".md" else [text]
    for node in (node for block in blocks for node in ast.walk(ast.parse(block))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sttau":
            yield from ((str(node.module), alias.name) for alias in node.names)


def test_pages_and_examples_import_only_public_names_of_public_modules() -> None:
    table = (ROOT / "docs/README.md").read_text("utf-8").split("## Public modules")[1]
    public = {*re.findall(r"`(sttau(?:\.\w+)*)`", table)}
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.py")]
    imported = {pair for page in pages for pair in _imports(page)}
    assert len(imported) > 50
    assert not {module for module, _ in imported} - public
    private = {
        f"{module}.{name}"
        for module, name in imported
        if name not in import_module(module).__all__ and f"{module}.{name}" not in public
    }
    assert not private
