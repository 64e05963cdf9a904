"""WebSocket as a byte layer below a wire format; with TLS below it: `ws` and `wss`.

The bytes of a wire format travel in binary messages, split at any position, those of STOMP also in
text messages. The receiver joins them to one stream of bytes, like that of a socket. The package
`websockets` (extra `websocket`) implements the protocol.

A connection begins with a handshake: an HTTP request for a WebSocket, and its response. Its time is
limited here, its size by `websockets`. A browser sends the `Origin` of the page that connects, and
lets every page connect to any host. So a broker accepts only pages of its own host and those in its
configuration: another page could misuse the rights of the browser's user. Programs send no origin.
"""

from __future__ import annotations

import http
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

import anyio
from anyio.abc import ByteStream

from pyjms.errors import (
    ConfigurationException,
    ConnectionFailedException,
    JMSException,
    UnusedConnectionException,
)
from pyjms.runtime import clock as _clock
from pyjms.runtime.distribution import install_command
from pyjms.transport.layers import ByteLayer, LayeredStream
from pyjms.wire.limits import LARGE_FRAME

if TYPE_CHECKING:
    from websockets.frames import Frame
    from websockets.http11 import Request, Response
    from websockets.protocol import Event, Protocol
    from websockets.server import ServerProtocol

OPENWIRE_SUBPROTOCOL: Final = "openwire"
STOMP_SUBPROTOCOLS: Final = ("v12.stomp", "v11.stomp", "v10.stomp", "stomp")
"""The subprotocols whose messages are sent as text if they are UTF-8."""

MAXIMUM_MESSAGE: Final = 1024 * 1024
"""The maximum bytes of a received WebSocket message; a command may span several messages.

A connector may allow others by HandshakePolicy.
"""
_OWN_MESSAGE: Final = 256 * 1024
"""The maximum bytes of a sent message."""
_MAXIMUM_OUTGOING: Final = 64 * 1024
"""Bytes of pongs that may wait: a peer that sends pings but does not read is disconnected."""
_LONGEST_CHARACTER: Final = 4
_CONTINUATION: Final = 0x80
"""The first two bits of a byte of UTF-8 that does not begin a character."""
_NORMAL_CLOSURE: Final = 1000
_TOO_BIG: Final = 1009

FRAMES_LOG = logging.getLogger(f"{__name__}.frames")
"""A disabled logger for `websockets`, whose debug lines quote frames and so message bodies."""
FRAMES_LOG.setLevel(logging.INFO)


class MessageSizes(NamedTuple):
    """The maximum bytes of received messages."""

    text: int = MAXIMUM_MESSAGE
    binary: int = MAXIMUM_MESSAGE


_SIZES: Final = MessageSizes()


class WebSocketLayer(ByteLayer):
    """One connection's frames, after the handshake. `remote` names the peer in error messages.

    `sizes` are at most the maximum of `protocol`, which refuses larger messages at once.
    `unfinished(number, size)` is called with the number of a large incomplete message and its
    possible size; it raises if there is no room. Size 0: there is no such message.
    """

    def __init__(
        self,
        protocol: Protocol,
        remote: str,
        unfinished: Callable[[int, int], object] | None = None,
        sizes: MessageSizes = _SIZES,
    ) -> None:
        from websockets.frames import Opcode  # noqa: PLC0415 - an extra

        self._protocol = protocol
        self._remote = remote
        self._outgoing = bytearray()
        self._opcodes = Opcode
        self._text = False
        self.subprotocol: str | None = protocol.subprotocol
        self._begun = b""
        self._texts_allowed = self.subprotocol in STOMP_SUBPROTOCOLS
        self._unfinished = unfinished
        self._frames = 0
        self._partial = 0
        self._sizes = sizes
        self._message_limit = 0
        self._message_size = 0

    def receive(self, data: bytes) -> bytes:
        if self.error is not None:
            return b""
        protocol = self._protocol
        if data:
            protocol.receive_data(data)
        frames = protocol.events_received()
        content = self.contents(frames)
        if self._unfinished is not None:
            self._count(self._unfinished, len(frames), len(data))
        self._outgoing += b"".join(protocol.data_to_send())
        if protocol.parser_exc is not None:
            self.error = self._failure(f"not a valid WebSocket frame: {protocol.parser_exc}")
        elif len(self._outgoing) > _MAXIMUM_OUTGOING:
            self.error = self._failure("the peer sends pings but does not read the pongs")
        return content

    def _count(self, unfinished: Callable[[int, int], object], frames: int, size: int) -> None:
        """Count an incomplete message, whose bytes are kept until it is complete."""
        self._frames += frames
        was_large = self._partial > LARGE_FRAME
        self._partial = 0 if frames else self._partial + size
        if self._partial > LARGE_FRAME:
            size = min(max(self._sizes), 1 << self._partial.bit_length())
            try:
                unfinished(self._frames, size)
            except JMSException as error:
                self.error = error
        elif was_large:
            unfinished(self._frames, 0)

    def contents(self, frames: Iterable[Event]) -> bytes:
        """Return the content of frames. A frame that is not acceptable sets `error`."""
        return b"".join([self._content(cast("Frame", frame)) for frame in frames])

    def _content(self, frame: Frame) -> bytes:
        opcodes = self._opcodes
        if frame.opcode in {opcodes.TEXT, opcodes.BINARY}:
            is_text = frame.opcode is opcodes.TEXT
            self._message_limit = self._sizes.text if is_text else self._sizes.binary
            self._message_size = 0
        if frame.opcode not in {opcodes.CLOSE, opcodes.PING, opcodes.PONG}:
            self._message_size += len(frame.data)
            if self._message_size > self._message_limit:
                self._protocol.fail(_TOO_BIG, "message too big")
                self.error = self._failure(
                    f"a message of more than {self._message_limit} bytes; "
                    "websocket.maxTextMessageSize and maxBinaryMessageSize set the limits"
                )
                return b""
        if frame.opcode is opcodes.TEXT and self._texts_allowed:
            return bytes(frame.data)
        if frame.opcode is opcodes.BINARY or (frame.opcode is opcodes.CONT and not self._text):
            return bytes(frame.data)
        if frame.opcode is opcodes.CLOSE:
            self.error = self.error or anyio.EndOfStream()
        elif frame.opcode is opcodes.TEXT:
            self._text = True
            self.error = self._failure("a text message, but the protocol uses binary messages")
        return b""

    def send(self, data: bytes | bytearray) -> bytes:
        if self._texts_allowed:
            self._send_texts(bytes(data))
        else:
            for start in range(0, len(data), _OWN_MESSAGE):
                self._protocol.send_binary(bytes(data[start : start + _OWN_MESSAGE]))
        return self.outgoing()

    def _send_texts(self, data: bytes) -> None:
        """Send text messages, or binary ones if `data` is not UTF-8; none ends within a character.

        The start of an incomplete character is kept until the next call; this holds back no frame,
        as STOMP frames end with a complete character.
        """
        data = self._begun + data
        end = len(data) - _begun_character(data)
        self._begun = data[end:]
        try:
            data[:end].decode()
        except UnicodeDecodeError:
            send = self._protocol.send_binary
        else:
            send = self._protocol.send_text
        start = 0
        while start < end:
            size = min(_OWN_MESSAGE, end - start)
            if start + size < end:
                size -= _begun_character(data[start : start + size])
            send(data[start : start + size])
            start += size

    @property
    def has_outgoing(self) -> bool:
        return bool(self._outgoing)

    def outgoing(self) -> bytes:
        waiting, self._outgoing = bytes(self._outgoing), bytearray()
        return waiting + b"".join(self._protocol.data_to_send())

    def close(self) -> bytes:
        if self._protocol.state.name == "OPEN":
            self._protocol.send_close(_NORMAL_CLOSURE)
        return self.outgoing()

    def _failure(self, reason: str) -> ConnectionFailedException:
        return ConnectionFailedException(f"{self._remote}: {reason}")


def _begun_character(data: bytes) -> int:
    """Return the number of bytes at the end that are the start of an incomplete UTF-8 character."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 != _CONTINUATION:
            length = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return back if length > back else 0
    return 0


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
    sizes: MessageSizes = _SIZES

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
        max_size=max(policy.sizes),
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
                raise UnusedConnectionException(
                    f"{remote}: the client left without a request"
                ) from error
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
    limit = _Limit(remote, timeout, hint, unfinished, policy.sizes)
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
    sizes: MessageSizes = _SIZES


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
            layer = WebSocketLayer(protocol, remote, limit.unfinished, limit.sizes)
            return _add_layer(raw, layer, behind)
        raise ConnectionFailedException(
            f"{remote}: the WebSocket handshake was not complete within {limit.timeout:g} s",
            hint=limit.hint,
        )
    except BaseException:
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(raw)
        raise


class StackedLayers(ByteLayer):
    """Two layers combined; `lower` is next to the socket, such as TLS below WebSocket."""

    def __init__(self, lower: ByteLayer, upper: ByteLayer) -> None:
        self._lower = lower
        self._upper = upper
        self.error = upper.error or lower.error

    def receive(self, data: bytes) -> bytes:
        content = self._lower.receive(data)
        content = self._upper.receive(content) if content else b""
        self.error = self._upper.error or self._lower.error
        return content

    def send(self, data: bytes | bytearray) -> bytes:
        return self._lower.send(self._upper.send(data))

    @property
    def has_outgoing(self) -> bool:
        return self._upper.has_outgoing or self._lower.has_outgoing

    def outgoing(self) -> bytes:
        own = self._lower.outgoing()
        return own + self._lower.send(self._upper.outgoing()) if self._upper.has_outgoing else own

    @property
    def attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {**self._lower.attributes, **self._upper.attributes}

    def close(self) -> bytes:
        farewell = self._upper.close()
        return (self._lower.send(farewell) if farewell else b"") + self._lower.close()


def _add_layer(raw: ByteStream, layer: WebSocketLayer, behind: list[Event]) -> WebSocketStream:
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
