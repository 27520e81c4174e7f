"""The command ``sttau``: one file per command."""

from __future__ import annotations

from sttau.cli.common import make_app

#: Modules of the commands, in the order of ``sttau --help``.
COMMANDS = (
    "quickstart", "train", "predict", "evaluate", "serve", "run", "compare", "learn", "extract", "export", "data", "rl",
    "bench",
)  # fmt: skip

app = make_app("sttau", "Recurrent networks that know when they do not know.", __name__, COMMANDS)
