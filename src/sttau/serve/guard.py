"""What every request passes: host, origin, token, size, time and number of requests; and headers of every response."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sttau.serve.counters import Counters
from sttau.serve.settings import Settings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
#: Paths that need no token: probes, and the page, which holds no data.
_OPEN = ("/healthz", "/v2/health/live", "/v2/health/ready", "/", "/docs", "/favicon.ico")


class Refused(Exception):  # noqa: N818 (a response, not an error of the server)
    """A request that is not answered."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Guard:
    """ASGI middleware around the application.

    Args:
        app: Application.
        settings: Limits and token.
        counters: Counts of responses.
    """

    def __init__(self, app: ASGIApp, settings: Settings, counters: Counters) -> None:
        self._app, self._settings, self._counters = app, settings, counters
        self._active = self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if scope["type"] == "websocket":
            try:
                self._check_source(headers)
            except Refused:
                await send({"type": "websocket.close", "code": 1008})
                return
            await self._app(scope, receive, send)
            return
        await self._answer(scope, headers, receive, send)

    async def _answer(self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send) -> None:
        began, status, started = time.perf_counter(), 500, False
        held = _Held()

        async def reply(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                message["headers"] = [*message.get("headers", []), *_HEADERS]
                if not scope["path"].startswith("/static/"):
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        self._active += 1
        try:
            self._check_source(headers)
            self._check_token(scope["path"], headers)
            if self._active > self._settings.max_waiting and scope["path"] not in _OPEN:
                raise Refused(429, "too many requests at a time; try again in a second")
            body = await self._body(scope, headers, receive, held)
            async with asyncio.timeout(self._settings.timeout + 5) if hasattr(asyncio, "timeout") else _Forever():
                await self._app(scope, _Replay(body, receive), reply)
        except Refused as refusal:
            await _respond(reply, refusal.status, str(refusal))
        except TimeoutError:
            if started:
                raise
            await _respond(reply, 503, "the answer took too long; send less at a time")
        finally:
            self._active -= 1
            self._held -= held.size
            route = scope.get("route")
            path = getattr(route, "path", "other") if status < 404 or route is not None else "other"
            self._counters.observe(path, status, time.perf_counter() - began)

    def _check_source(self, headers: dict[str, str]) -> None:
        """Refuse other sites: their scripts (Origin), and names that they point to this machine (Host)."""
        host = headers.get("host", "")
        if self._settings.hosts and _name(host) not in self._settings.hosts:
            raise Refused(421, "the Host header does not name this server; see the option --allow-host")
        origin = headers.get("origin")
        if origin is not None and urlsplit_host(origin) != host:
            raise Refused(403, "requests from other sites are not answered")

    def _check_token(self, path: str, headers: dict[str, str]) -> None:
        token = self._settings.token
        if token is None or path in _OPEN or path.startswith("/static/"):
            return
        if not is_token(token, headers.get("authorization", "").removeprefix("Bearer ").strip()):
            raise Refused(401, "a token is needed: send the header Authorization: Bearer TOKEN")

    async def _body(self, scope: Scope, headers: dict[str, str], receive: Receive, held: _Held) -> bytes:
        """Read the body, within the limits of size and time; ``held`` counts its bytes."""
        if scope["method"] in ("GET", "HEAD"):
            return b""
        most = self._settings.max_bytes
        announced = headers.get("content-length", "0")
        if announced.isdigit() and int(announced) > most:
            raise Refused(413, f"the body must have at most {most} bytes")
        parts = []
        limit = time.monotonic() + self._settings.timeout
        while True:
            try:
                message = await asyncio.wait_for(receive(), max(0.001, limit - time.monotonic()))
            except (asyncio.TimeoutError, TimeoutError):
                raise Refused(408, "the body did not arrive in time") from None
            if message["type"] == "http.disconnect":
                raise Refused(400, "the client has gone")
            parts.append(message.get("body", b""))
            held.size += len(parts[-1])
            self._held += len(parts[-1])
            if self._held > self._settings.max_held_bytes:
                raise Refused(429, "too many large requests at a time; try again in a second")
            if held.size > most:
                raise Refused(413, f"the body must have at most {most} bytes")
            if not message.get("more_body"):
                return b"".join(parts)


class _Held:
    """Number of bytes of a body that are in memory."""

    size = 0


class _Replay:
    """A body that was read, given to the application as if it had just arrived."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        return await self._receive()


class _Forever:
    """No limit of time, for Python 3.10."""

    async def __aenter__(self) -> None: ...

    async def __aexit__(self, *_: Any) -> None: ...


def is_token(expected: str, given: str) -> bool:
    """Compare tokens in a time that does not depend on where they differ."""
    return hmac.compare_digest(expected.encode(), given.encode())


def urlsplit_host(origin: str) -> str:
    """Return host and port of an origin; nothing for what is none.

    Example:
        >>> urlsplit_host("http://localhost:8000"), urlsplit_host("null"), urlsplit_host("http://[bad")
        ('localhost:8000', '', '')
    """
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    return host.rsplit(":", 1)[0] if not host.endswith("]") and host.count(":") else host


async def _respond(send: Send, status: int, message: str) -> None:
    body = json.dumps({"error": message}).encode()
    kind = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    kind += [(b"retry-after", b"1")] if status == 429 else []
    kind += [(b"www-authenticate", b"Bearer")] if status == 401 else []
    await send({"type": "http.response.start", "status": status, "headers": kind})
    await send({"type": "http.response.body", "body": body})
