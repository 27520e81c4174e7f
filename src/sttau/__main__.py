"""``python -m sttau``."""

from sttau.cli import app

app()
