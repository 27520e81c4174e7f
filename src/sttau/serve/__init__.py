"""The web server: predictions over HTTP and WebSocket, the Open Inference Protocol, and a page that shows models."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sttau.serve.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["Settings", "create_app"]


def create_app(models: Sequence[str | os.PathLike[str]], settings: Settings | None = None) -> FastAPI:
    """Return the ASGI application that serves some models; ``sttau serve`` runs it with uvicorn.

    Args:
        models: Model files, folders of ``sttau train``, or folders of those. A model has the name of its folder or
            file.
        settings: Limits and the token.

    Example:
        >>> import tempfile
        >>> from sttau import SequenceClassifier, STTauLSTM
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = SequenceClassifier(STTauLSTM(2, 8, num_states=4), 2).save(f"{folder}/small.safetensors")
        ...     app = create_app([path])
        >>> app.title
        'sttau'
    """
    try:
        from sttau.serve.app import build_app
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "starlette", "pydantic"):
            raise
        raise ImportError('the server needs FastAPI and uvicorn: pip install "sttau[serve]"') from error
    return build_app(models, settings or Settings())
