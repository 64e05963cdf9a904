"""The handshake of both sides: an HTTP request for a WebSocket, and its response.

Its time is limited here, its size by `websockets`. A browser sends the `Origin` of the page that
connects, and lets every page connect to any host. So a broker accepts only pages of its own host
and those in its configuration: another page could misuse the rights of the browser's user. Programs
send no origin.
"""

from __future__ import annotations

import http
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple, cast
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream

from pyjms import _clock
from pyjms._distribution import install_command
from pyjms.errors import ConfigurationException, ConnectionFailedException
from pyjms.transport.base import ClosedUnused
from pyjms.transport.layers import LayeredStream, StackedLayers
from pyjms.transport.websocket.layer import (
    FRAMES_LOG,
    MAXIMUM_MESSAGE,
    WebSocketLayer,
)

if TYPE_CHECKING:
    from websockets.http11 import Request, Response
    from websockets.protocol import Event, Protocol
    from websockets.server import ServerProtocol

__all__ = [
    "HandshakePolicy",
    "WebSocketStream",
    "accept_websocket",
    "connect_websocket",
    "require_websockets",
]

_CHUNK = 16384


class WebSocketStream(LayeredStream):
    """The stream after a handshake; `subprotocol` is the one that was negotiated."""

    subprotocol: str | None = None


@dataclass(frozen=True)
class HandshakePolicy:
    """The connections that a broker accepts.

    `subprotocols` are the supported ones, the preferred one first; a client must request one of
    them. `origins` are the pages, such as `https://shop.example.com`, from which browsers may
    connect in addition to those of the broker's own host; `*` stands for all. With `is_local` the
    own host must be `localhost` or a loopback address: a page of the Internet may have made its own
    name resolve to this machine (DNS rebinding), and only the name distinguishes it from a page of
    this machine.
    """

    subprotocols: tuple[str, ...]
    origins: frozenset[str] = frozenset()
    is_local: bool = False

    def accepts_origin(self, origin: str | None, host: str | None) -> bool:
        """Return whether a browser may connect from a page of `origin` to `host`."""
        if origin is None or "*" in self.origins or origin in self.origins:
            return True
        is_own = host is not None and urlsplit(origin).netloc.lower() == host.lower()
        return is_own and (not self.is_local or _is_loopback(urlsplit(origin).hostname or ""))


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def require_websockets(url: str) -> None:
    """Check that the extra `websocket` is installed, which `url` needs.

    Raises:
        ConfigurationException: it is not.
    """
    try:
        import websockets.protocol  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise ConfigurationException(
            f"{url} needs the package websockets, which is not installed",
            hint=install_command("websocket"),
        ) from None


async def connect_websocket(
    raw: ByteStream, url: str, subprotocol: str, timeout: float | None
) -> LayeredStream:
    """Upgrade a client's connection to a WebSocket; `url` is `ws://host:port/path` or `wss:`.

    Raises:
        ConnectionFailedException: the other end refuses, uses another protocol, or does not respond
            within `timeout` seconds. The stream is closed.
    """
    from websockets.client import ClientProtocol  # noqa: PLC0415 - an extra
    from websockets.protocol import State  # noqa: PLC0415
    from websockets.typing import Subprotocol  # noqa: PLC0415
    from websockets.uri import parse_uri  # noqa: PLC0415

    protocol = ClientProtocol(
        parse_uri(url),
        subprotocols=[Subprotocol(subprotocol)],
        max_size=MAXIMUM_MESSAGE,
        logger=FRAMES_LOG,
    )
    protocol.send_request(protocol.connect())

    async def receive_response() -> list[Event]:
        while protocol.state is State.CONNECTING and protocol.handshake_exc is None:
            await _receive(raw, protocol)
        return protocol.events_received()[1:]

    hint = "check that it is a WebSocket port; option connectionTimeout (ms) sets the limit"
    return await _shake_hands(raw, protocol, receive_response, _Limit(url, timeout, hint))


async def accept_websocket(
    raw: ByteStream,
    policy: HandshakePolicy,
    remote: str,
    timeout: float | None,
    unfinished: Callable[[int, int], object] | None = None,
) -> WebSocketStream:
    """Upgrade a connection that a broker has accepted to a WebSocket.

    `unfinished` counts incomplete messages; see `WebSocketLayer`.

    Raises:
        ConnectionFailedException: the client uses another protocol, requests what `policy` does not
            allow, or takes more than `timeout` seconds. The stream is closed.
    """
    from websockets.server import ServerProtocol  # noqa: PLC0415 - an extra
    from websockets.typing import Subprotocol  # noqa: PLC0415

    protocol = ServerProtocol(
        subprotocols=[Subprotocol(name) for name in policy.subprotocols],
        max_size=MAXIMUM_MESSAGE,
        logger=FRAMES_LOG,
    )

    async def answer_request() -> list[Event]:
        events: list[Event] = []
        begun = False
        while not events and protocol.handshake_exc is None:
            try:
                data = await raw.receive(_CHUNK)
            except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
                if begun:
                    raise
                raise ClosedUnused(f"{remote}: the client left without a request") from error
            if not begun and not data[:1].isupper():  # no HTTP method: more data would be awaited
                raise ConnectionFailedException(
                    f"{remote}: the client sent something other than an HTTP request",
                    hint="this port is for WebSocket: a client of a tcp URL needs another port",
                )
            begun = True
            protocol.receive_data(data)
            events = protocol.events_received()
        if events:
            protocol.send_response(_response(protocol, cast("Request", events[0]), policy))
        return events[1:]

    hint = "connectAttemptTimeout (ms) sets the limit of a connector"
    limit = _Limit(remote, timeout, hint, unfinished)
    return await _shake_hands(raw, protocol, answer_request, limit)


def _response(protocol: ServerProtocol, request: Request, policy: HandshakePolicy) -> Response:
    origin, host = request.headers.get("Origin"), request.headers.get("Host")
    if policy.accepts_origin(origin, host):
        return protocol.accept(request)
    reason = f"pages of {origin} may not connect"
    protocol.handshake_exc = ConnectionFailedException(
        reason, hint="the connector's option websocket.allowedOrigins lists pages that may"
    )
    return protocol.reject(http.HTTPStatus.FORBIDDEN, f"{reason}\n")


class _Limit(NamedTuple):
    remote: str
    timeout: float | None
    hint: str
    unfinished: Callable[[int, int], object] | None = None


async def _shake_hands(
    raw: ByteStream,
    protocol: Protocol,
    receive: Callable[[], Awaitable[list[Event]]],
    limit: _Limit,
) -> WebSocketStream:
    """Run a handshake; `receive` returns the events received after it."""
    remote = limit.remote
    try:
        with _clock.timeout(limit.timeout):
            try:
                await _send(raw, protocol)
                behind = await receive()
                await _send(raw, protocol)
            except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
                raise ConnectionFailedException(
                    f"{remote}: the peer closed the connection during the WebSocket handshake"
                ) from error
            if (failure := protocol.handshake_exc) is not None:
                raise ConnectionFailedException(
                    f"{remote}: the WebSocket handshake failed: {failure}"
                ) from failure
            return _layered(raw, WebSocketLayer(protocol, remote, limit.unfinished), behind)
        raise ConnectionFailedException(
            f"{remote}: the WebSocket handshake was not complete within {limit.timeout:g} s",
            hint=limit.hint,
        )
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(raw)
        raise


def _layered(raw: ByteStream, layer: WebSocketLayer, behind: list[Event]) -> WebSocketStream:
    """Return the stream after a handshake; with TLS below, both layers are combined."""
    ahead = layer.contents(behind)
    if isinstance(raw, LayeredStream):
        stream = WebSocketStream(raw.raw, StackedLayers(raw.layer, layer), ahead)
    else:
        stream = WebSocketStream(raw, layer, ahead)
    stream.subprotocol = layer.subprotocol
    return stream


async def _receive(raw: ByteStream, protocol: Protocol) -> None:
    protocol.receive_data(await raw.receive(_CHUNK))


async def _send(raw: ByteStream, protocol: Protocol) -> None:
    if data := b"".join(protocol.data_to_send()):
        await raw.send(data)
