"""The health checks and metrics of an application as a small ASGI application.

    GET /health/live      200 while the event loop responds; 503 once the application has stopped
    GET /health/started   200 once the application has started
    GET /health/ready     200 while it is ready, including its brokers; else 503 with the reasons
    GET /metrics          Prometheus' text format; 404 unless metrics are enabled

It needs no framework, and can be mounted in one: `app.mount("/jms", application.health_app())`
responds at /jms/health/ready. Its responses contain no secrets, and it cannot change anything.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

from pyjms.observability.health import Health

__all__ = [
    "ASGIApp",
    "HealthApp",
    "MetricsSource",
    "Receive",
    "Scope",
    "Send",
    "answer_lifespan",
    "json_content",
    "respond",
]

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_PROBED = {"/health", "/health/ready"}
_RETRY: list[tuple[bytes, bytes]] = [(b"retry-after", b"5")]


class MetricsSource(Protocol):
    """Returns metrics as text."""

    def exposition(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and the metrics, in a format that `accept` allows."""


class HealthApp:
    """An ASGI application for HTTP and lifespan. Call it on the application's event loop.

    Args:
        health: returns the current health.
        metrics: the source of the response of /metrics; None: metrics are disabled.
        probe: returns the health including the brokers, for /health/ready; None: the brokers are
            not probed.
    """

    def __init__(
        self,
        health: Callable[[], Health],
        metrics: MetricsSource | None = None,
        probe: Callable[[], Awaitable[Health]] | None = None,
    ) -> None:
        self._health = health
        self._metrics = metrics
        self._probe = probe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one request, or take part in the start and stop of the server."""
        if scope["type"] == "lifespan":
            await answer_lifespan(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, send)

    async def _answer(self, scope: Scope, send: Send) -> None:
        if scope["method"] not in {"GET", "HEAD"}:
            allowed = [(b"allow", b"GET, HEAD")]
            return await respond(scope, send, 405, json_content({"status": "use GET"}), allowed)
        path = scope["path"].removeprefix(scope.get("root_path", "")).rstrip("/")
        probe = self._probe if path in _PROBED else None
        health = self._health() if probe is None else await probe()
        answers = {
            "/health": health.ready,
            "/health/ready": health.ready,
            "/health/live": health.live,
            "/health/started": health.started,
        }
        if path in answers:
            good = answers[path]
            body = health.as_dict()
            if path == "/health/live":
                body = {"status": "up" if good else health.phase}
            elif path == "/health/started":
                body = {"status": "started" if good else health.phase}
            return await respond(
                scope, send, 200 if good else 503, json_content(body), [] if good else _RETRY
            )
        if path == "/metrics" and self._metrics is not None:
            headers = dict(scope.get("headers", ()))
            answer = self._metrics.exposition(headers.get(b"accept", b"").decode("latin-1"))
            return await respond(scope, send, 200, answer)
        return await respond(
            scope, send, 404, json_content({"status": "there is nothing at this path"})
        )


def json_content(body: dict[str, Any]) -> tuple[str, bytes]:
    """Return the content type and the content of a JSON object."""
    return "application/json", json.dumps(body).encode()


async def respond(
    scope: Scope,
    send: Send,
    status: int,
    content: tuple[str, bytes],
    headers: list[tuple[bytes, bytes]] | None = None,
) -> None:
    """Send a response: its content type and content, and further headers."""
    kind, body = content
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", kind.encode()),
                (b"content-length", str(len(body)).encode()),
                (b"cache-control", b"no-store"),
                *(headers or ()),
            ],
        }
    )
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


async def answer_lifespan(receive: Receive, send: Send) -> None:
    """Confirm the start and stop of a server, without doing anything."""
    while True:
        event = await receive()
        if event["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif event["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
