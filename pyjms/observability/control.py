"""Control of an application's listeners as a small ASGI application.

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
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs

from pyjms.errors import JMSException
from pyjms.listener.container.base import AbstractMessageListenerContainer
from pyjms.listener.registry import JmsListenerEndpointRegistry
from pyjms.observability.asgi import (
    ASGIApp,
    Receive,
    Scope,
    Send,
    answer_lifespan,
    json_content,
    respond,
)

__all__ = ["PREFIX", "ControlApp", "with_control"]

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
            return [_described(each) for each in self._registry]
        name, _, action = rest.rpartition("/")
        if action not in _ACTIONS or (action == "scale" and not name):
            raise _Refused(
                HTTPStatus.NOT_FOUND, f"{rest}: write {PREFIX}/ID/pause, resume or scale"
            )
        _require_method(scope, "POST")
        chosen = self._chosen(name)
        try:
            await self._act(action, chosen, parse_qs(scope.get("query_string", b"").decode()))
        except JMSException as error:
            raise _Refused(HTTPStatus.CONFLICT, str(error)) from error
        except ValueError as error:
            raise _Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        return [_described(each) for each in chosen]

    def _chosen(self, name: str) -> list[AbstractMessageListenerContainer]:
        if not name:
            return list(self._registry)
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


def _described(container: AbstractMessageListenerContainer) -> dict[str, Any]:
    return {
        "id": container.bean_name,
        "destination": container.destination_description,
        "state": container.state.name.lower(),
        "concurrency": container.concurrency,
        "consumers": container.scheduled_consumer_count,
        "busy": len(container.deliveries()),
    }
