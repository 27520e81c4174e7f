"""Streams over WebSocket: a prediction after each element."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from fastapi import WebSocket, WebSocketDisconnect
from pydantic import Field, ValidationError

from sttau.inference import Stream
from sttau.predictions import prediction_rows
from sttau.serve.bodies import Name, Sampling, TooLargeError, plain
from sttau.serve.files import hide_paths
from sttau.serve.guard import is_token
from sttau.serve.registry import Registry
from sttau.serve.settings import Settings


class Opening(Sampling):
    """The first message of a stream."""

    token: str | None = Field(None, max_length=1000)
    model: Name = None
    level: float = Field(0.9, gt=0, lt=1)


class Streams:
    """Open streams.

    Args:
        registry: Models.
        settings: Limits.
    """

    def __init__(self, registry: Registry, settings: Settings) -> None:
        self._registry, self._settings = registry, settings
        self.open = 0

    async def serve(self, socket: WebSocket) -> None:
        """Talk to a client until it leaves.

        The first message names the model: ``{"model": "digits", "samples": 10}``. Every further one holds an element,
        ``{"element": [0.1, 0.5]}`` or ``{"element": "word"}``, or ``{"reset": true}`` to begin a new sequence. An error
        is answered with ``{"error": "…"}``, and the stream goes on.
        """
        await socket.accept()
        if self.open >= self._settings.max_streams:
            await _leave(socket, 1013, "too many streams are open; try again later")
            return
        self.open += 1
        try:
            await self._talk(socket)
        except WebSocketDisconnect:
            pass
        except (asyncio.TimeoutError, TimeoutError):
            await _leave(socket, 1001, "nothing was received for too long")
        finally:
            self.open -= 1

    async def _talk(self, socket: WebSocket) -> None:
        try:
            opening = Opening.model_validate(await self._receive(socket))
            if self._settings.token is not None and not is_token(self._settings.token, opening.token or ""):
                raise ValueError("a token is needed: send it in the first message")
            if opening.samples > self._settings.max_samples:
                raise TooLargeError(f"samples must be at most {self._settings.max_samples}, got {opening.samples}")
            served = self._registry.get(opening.model)
            stream = Stream(served.model, samples=opening.samples, seed=opening.seed, mode=opening.mode)
        except (ValueError, TypeError, LookupError) as error:
            await _leave(socket, 1008, _sentence(error))
            return
        await socket.send_text(json.dumps({"model": served.name, "version": served.version, "mode": stream.mode}))
        while True:
            try:
                message = await self._receive(socket)
                if message.get("reset") is True:
                    stream.reset()
                    answer: dict[str, Any] = {"step": 0}
                elif "element" not in message:
                    raise ValueError('a message must hold "element", or "reset": true')
                elif stream.steps >= self._settings.max_steps:
                    raise TooLargeError(f"a sequence must have at most {self._settings.max_steps} steps; reset it")
                else:
                    prediction = await asyncio.to_thread(stream.step, _element(message["element"], served.model))
                    row = prediction_rows(prediction, [str(stream.steps)], opening.level)[0]
                    answer = {"step": stream.steps} | plain(row)
            except (ValueError, TypeError, RuntimeError, OverflowError) as error:
                answer = {"error": _sentence(error)}
            await socket.send_text(json.dumps(answer))

    async def _receive(self, socket: WebSocket) -> dict[str, Any]:
        message = await asyncio.wait_for(socket.receive(), self._settings.timeout)
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        text = message.get("text")
        if text is None or len(text) > self._settings.max_bytes:
            raise ValueError("a message must be JSON text")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("a message must be JSON text") from None
        if not isinstance(value, dict):
            raise ValueError("a message must be a JSON object")
        return value


def _element(value: Any, model: Any) -> Any:
    """Return an element as a stream reads it: a word, a token id, or a list of numbers, null for a missing one."""
    if model.reads_tokens:
        if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31):
            return value
        raise ValueError("element must be a word or a token id")
    width = model.num_features
    values = value if isinstance(value, list) else [value]
    fits = len(values) == width and all(v is None or (isinstance(v, (int, float)) and v is not True) for v in values)
    if not fits or any(v is not None and not abs(v) <= 1e30 for v in values):
        raise ValueError(f"element must be {width} numbers")
    return [float("nan") if v is None else float(v) for v in values]


def _sentence(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the message'}: {first['msg']}"
    text = str(error.args[0]) if error.args else str(error)
    return hide_paths(text)[:500]


async def _leave(socket: WebSocket, code: int, message: str) -> None:
    try:
        await socket.send_text(json.dumps({"error": message}))
        await socket.close(code)
    except (RuntimeError, WebSocketDisconnect):  # it has gone
        pass
