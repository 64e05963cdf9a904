"""Small ASGI applications: health checks and metrics of an application, control of its listeners.

    GET /health/live      200 while the event loop responds; 503 once the application has stopped
    GET /health/started   200 once the application has started
    GET /health/ready     200 while it is ready, including its brokers; else 503 with the reasons
    GET /metrics          Prometheus' text format; 404 unless metrics are enabled

They need no framework, and can be mounted in one: `app.mount("/jms", application.health_app())`
responds at /jms/health/ready. `HealthApp`, above, has no secrets in its responses and cannot change
anything; `ControlApp` can:

    GET  /listeners                          each listener: state, consumers, destination
    POST /listeners/pause, /listeners/resume
    POST /listeners/ID/pause, /listeners/ID/resume
    POST /listeners/ID/scale?lower=2&upper=8

Responses are JSON: the listeners concerned, in the format of GET. The response to a pause is
immediate; handlers in progress continue, and `busy` counts them.

Access control is up to the application: mount it behind the framework's login, or set a token,
which each request must then contain (`Authorization: Bearer TOKEN`).
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs

from pyjms.errors import JMSException
from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.listener.registry import JmsListenerEndpointRegistry
from pyjms.observability.health import Health

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

_PROBED = {"/health", "/health/ready"}
_RETRY: list[tuple[bytes, bytes]] = [(b"retry-after", b"5")]


Exposition = Callable[[str], tuple[str, bytes]]
"""Returns the content type and the metrics, in a format that the `Accept` header allows."""


class HealthApp:
    """An ASGI application for HTTP and lifespan. Call it on the application's event loop.

    Args:
        health: returns the current health.
        metrics: returns the response of /metrics; None: metrics are disabled.
        probe: returns the health including the brokers, for /health/ready; None: the brokers are
            not probed.
    """

    def __init__(
        self,
        health: Callable[[], Health],
        metrics: Exposition | None = None,
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
            answer = self._metrics(headers.get(b"accept", b"").decode("latin-1"))
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


PREFIX: Final = "/listeners"
_ACTIONS: Final = ("pause", "resume", "scale")


class _Refused(Exception):
    """A request with an error response."""

    def __init__(self, status: HTTPStatus, reason: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = list(headers)


class ControlApp:
    """An ASGI application for HTTP. Call it on the application's event loop.

    Args:
        registry: the listeners.
        token: the token that requests must contain; None: none is required.
    """

    def __init__(self, registry: JmsListenerEndpointRegistry, token: str | None = None) -> None:
        self._registry = registry
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one request."""
        if scope["type"] == "lifespan":
            return await answer_lifespan(receive, send)
        if scope["type"] != "http":
            return None
        try:
            self._check_token(scope)
            changed = await self._perform(scope)
        except _Refused as refused:
            body = {"error": str(refused)}
            return await respond(scope, send, refused.status, json_content(body), refused.headers)
        return await respond(scope, send, HTTPStatus.OK, json_content({"listeners": changed}))

    def _check_token(self, scope: Scope) -> None:
        if self._token is None:
            return
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        if not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            raise _Refused(
                HTTPStatus.UNAUTHORIZED,
                "send the header Authorization: Bearer TOKEN, with health.control_token",
                (b"www-authenticate", b"Bearer"),
            )

    async def _perform(self, scope: Scope) -> list[dict[str, Any]]:
        path = scope["path"].removeprefix(scope.get("root_path", "")).rstrip("/")
        if not f"{path}/".startswith(f"{PREFIX}/"):
            raise _Refused(HTTPStatus.NOT_FOUND, f"there is nothing here; see {PREFIX}")
        rest = path.removeprefix(PREFIX).removeprefix("/")
        if not rest:
            _require_method(scope, "GET")
            return [_description_of(each) for each in self._registry]
        name, _, action = rest.rpartition("/")
        if action not in _ACTIONS or (action == "scale" and not name):
            raise _Refused(
                HTTPStatus.NOT_FOUND, f"{rest}: write {PREFIX}/ID/pause, resume or scale"
            )
        _require_method(scope, "POST")
        chosen = self._choose(name)
        try:
            await self._act(action, chosen, parse_qs(scope.get("query_string", b"").decode()))
        except JMSException as error:
            raise _Refused(HTTPStatus.CONFLICT, str(error)) from error
        except ValueError as error:
            raise _Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        return [_description_of(each) for each in chosen]

    def _choose(self, name: str) -> list[AbstractMessageListenerContainer]:
        if not name:
            return [each for each in self._registry if each.has_started]
        try:
            return [self._registry[name]]
        except KeyError as error:
            raise _Refused(HTTPStatus.NOT_FOUND, str(error.args[0])) from error

    async def _act(
        self,
        action: str,
        chosen: list[AbstractMessageListenerContainer],
        options: dict[str, list[str]],
    ) -> None:
        for container in chosen:
            if action == "pause":
                await container.pause(timeout=0)
            elif action == "resume":
                await container.resume()
            else:
                lower, upper = (_number(options, name) for name in ("lower", "upper"))
                if lower is None:
                    raise ValueError("scale needs ?lower=2, and takes &upper=8")
                await container.scale(lower, upper)


def with_control(app: ASGIApp, control: ControlApp) -> ASGIApp:
    """Return an ASGI application that routes the requests below /listeners to `control`."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        is_control = scope["type"] == "http" and f"{scope['path']}/".startswith(f"{PREFIX}/")
        await (control if is_control else app)(scope, receive, send)

    return route


def _require_method(scope: Scope, method: str) -> None:
    if scope["method"] != method:
        raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, f"use {method}", (b"allow", method.encode()))


def _number(options: dict[str, list[str]], name: str) -> int | None:
    texts = options.get(name)
    if texts is None:
        return None
    if not texts[-1].isdecimal():
        raise ValueError(f"{name} is a number, not {texts[-1]!r}")
    return int(texts[-1])


def _description_of(container: AbstractMessageListenerContainer) -> dict[str, Any]:
    return {
        "id": container.bean_name,
        "destination": container.destination_description,
        "state": container.state.name.lower(),
        "concurrency": container.concurrency,
        "consumers": container.scheduled_consumer_count,
        "busy": len(container.deliveries()),
    }
