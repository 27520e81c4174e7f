"""The command ``sttau-reproduce``: one file per command."""

from __future__ import annotations

from sttau.cli.common import make_app

#: Modules of the commands, in the order of ``sttau-reproduce --help``.
COMMANDS = ("paper", "report", "tables", "merge", "trials", "curves", "automata", "power", "cartpole", "speed")

app = make_app("sttau-reproduce", "Reproduce the experiments of the ST-τ paper.", __name__, COMMANDS)
