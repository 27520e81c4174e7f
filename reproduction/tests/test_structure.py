"""The structure of the reproduction: its tests mirror its modules, as those of the library do."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from tests.test_structure import check_exceptions, untested

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src/sttau_reproduction"

#: Modules that another test file than their own covers, and which one.
COVERED = {
    # declarations of tables and figures, without behavior of their own
    "classification/ablation*.py": "classification/test_declaration.py",
    "classification/inter_patient.py": "classification/test_declaration.py",
    "classification/table[123].py": "classification/test_declaration.py",
    "classification/tuning.py": "classification/test_declaration.py",
    "classification/dropout_sweep.py": "classification/test_tables.py",
    "classification/diagnostics/tables.py": "classification/test_tables.py",
    "classification/figures.py": "classification/test_page.py",
    # commands that are tested with what they call
    "classification/curves.py": "classification/test_trials.py",
    "cli/curves.py": "classification/test_trials.py",
    "cli/trials.py": "classification/test_trials.py",
    "cli/tables.py": "test_documentation.py",
    "cli/cartpole.py": "cli/test_help.py",
}


def test_every_module_of_the_reproduction_has_a_test_file_of_its_name() -> None:
    missing = [name for name in untested(PACKAGE, TESTS) if not any(fnmatchcase(name, pattern) for pattern in COVERED)]
    assert not missing, f"no reproduction/tests/…/test_NAME.py for {', '.join(missing)}"


def test_every_exception_of_the_reproduction_is_needed() -> None:
    check_exceptions(COVERED, PACKAGE, TESTS)
