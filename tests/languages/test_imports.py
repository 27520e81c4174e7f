from __future__ import annotations

import subprocess
import sys


def test_neither_the_library_nor_its_data_sets_load_automata_lib_and_networkx() -> None:
    code = (
        "import sys, sttau; names = ('digits', 'tomita1', 'stochastic1'); "
        "[sttau.data.load(name, 'validation') for name in names]; import sttau.languages; "
        "print([module for module in ('networkx', 'automata') if module in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[]\n"
