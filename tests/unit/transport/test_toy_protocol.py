"""A line protocol of the tests' own over the real TCP transport: it knows nothing of OpenWire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from pyjms.errors import ConnectionFailedException, LocalProtocolError, RemoteProtocolError
from pyjms.transport.base import Transport, TransportFilter
from pyjms.transport.mock import MockTransport, RecordingListener
from pyjms.transport.options import TcpOptions
from pyjms.transport.tcp import TcpTransport, open_socket
from pyjms.wire.format import WireFormat
from tests.kit.accepting import accept

LIMIT = 100


class LineFormat:
    """Text commands, one a line, of at most LIMIT bytes."""

    def __init__(self) -> None:
        self._partial = b""
        self._violation: RemoteProtocolError | None = None

    def encode_into(self, buffer: bytearray, command: str) -> None:
        line = command.encode()
        if b"\n" in line or len(line) > LIMIT:
            raise LocalProtocolError(f"Not one line of at most {LIMIT} bytes: {command!r}")
        buffer += line + b"\n"

    def receive_data(self, data: bytes) -> list[str]:
        if self._violation is not None:
            self._violation.completed = ()
            raise self._violation
        *lines, self._partial = (self._partial + data).split(b"\n")
        commands: list[str] = []
        for line in [*lines, self._partial]:
            if len(line) > LIMIT:
                self._violation = RemoteProtocolError(f"Line of more than {LIMIT} bytes")
                self._violation.completed = tuple(commands)
                raise self._violation
            if line is not self._partial:
                commands.append(line.decode())
        return commands


class Heartbeat(TransportFilter[str]):
    """A protocol's filter: answers `ping` itself and passes on the rest."""

    def on_command(self, command: str) -> None:
        if command == "ping":
            self.oneway("pong")
        else:
            self.listener.on_command(command)


class Scrambled(ByteStream):
    """A stream around a socket that changes each byte and names the socket, as TLS does."""

    def __init__(self, inner: ByteStream) -> None:
        self._inner = inner

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return bytes(b ^ 0x55 for b in await self._inner.receive(max_bytes))

    async def send(self, item: bytes) -> None:
        await self._inner.send(bytes(b ^ 0x55 for b in item))

    async def send_eof(self) -> None:
        await self._inner.send_eof()

    async def aclose(self) -> None:
        await self._inner.aclose()

    @property
    def extra_attributes(self) -> Mapping[Any, Any]:
        return self._inner.extra_attributes


class Ends:
    def __init__(self, client: Transport[str]) -> None:
        self.client = client
        self.at_client: RecordingListener[str] = RecordingListener()
        client.listener = self.at_client
        self.at_server: RecordingListener[str] = RecordingListener()
        self.server: Transport[str]


@asynccontextmanager
async def connected(wrap: Any = lambda stream: stream) -> AsyncIterator[Ends]:
    """A client and an accepted end, with `wrap` around the stream of both."""
    options = TcpOptions()
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as multi:
        port = multi.extra(SocketAttribute.local_port)

        async def connect() -> ByteStream:
            stream: ByteStream = wrap(await open_socket("127.0.0.1", port, options, "line://test"))
            return stream

        client = TcpTransport(LineFormat(), options, connect=connect, remote_address="line://test")
        ends = Ends(client)
        async with anyio.create_task_group() as group:
            group.start_soon(client.start)
            stream = wrap(await accept(multi))
        ends.server = Heartbeat(TcpTransport(LineFormat(), options, stream=stream))
        ends.server.listener = ends.at_server
        await ends.server.start()
    try:
        yield ends
    finally:
        await ends.client.stop()
        await ends.server.stop()


@asynccontextmanager
async def served() -> AsyncIterator[tuple[TcpTransport[str], RecordingListener[str], ByteStream]]:
    """An accepted end, what it hears, and the bare socket at the client's end."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as multi:
        peer = await anyio.connect_tcp("127.0.0.1", multi.extra(SocketAttribute.local_port))
        transport = TcpTransport(LineFormat(), TcpOptions(), stream=await accept(multi))
    heard: RecordingListener[str] = RecordingListener()
    transport.listener = heard
    await transport.start()
    yield transport, heard, peer
    await transport.stop()
    await peer.aclose()


def test_the_toy_format_is_a_wire_format() -> None:
    wire_format: WireFormat[str] = LineFormat()
    assert wire_format.receive_data(b"a\nb") == ["a"]


@pytest.mark.parametrize("wrap", [lambda stream: stream, Scrambled], ids=["socket", "wrapped"])
async def test_both_ends_exchange_commands_in_order(wrap: Any) -> None:
    async with connected(wrap) as ends:
        for n in range(500):
            ends.client.oneway(f"out {n}")
            ends.server.oneway(f"in {n}")
        for n in range(500):
            assert await ends.at_server.next(str) == f"out {n}"
            assert await ends.at_client.next(str) == f"in {n}"
        assert ends.client.remote_address == "line://test"


async def test_a_wrapped_stream_never_writes_to_its_socket_directly() -> None:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as multi:
        peer = await anyio.connect_tcp("127.0.0.1", multi.extra(SocketAttribute.local_port))
        stream = Scrambled(await accept(multi))
    transport = TcpTransport(LineFormat(), TcpOptions(), stream=stream)
    transport.listener = RecordingListener()
    await transport.start()
    transport.oneway("secret")
    await transport.stop()
    assert await peer.receive() == bytes(b ^ 0x55 for b in b"secret\n")
    await peer.aclose()


async def test_a_protocols_filter_sees_commands_of_its_type_only() -> None:
    async with connected() as ends:
        ends.client.oneway("ping")
        ends.client.oneway("hello")
        assert await ends.at_client.next(str) == "pong"
        assert await ends.at_server.next(str) == "hello"
        assert ends.at_server.commands == ["hello"]


async def test_lines_come_up_however_the_bytes_are_cut() -> None:
    async with served() as (_, heard, peer):
        for byte in b"one\ntwo\n":
            await peer.send(bytes((byte,)))
        await peer.send(b"three\nfo")
        await peer.send(b"ur\n")
        assert [await heard.next(str) for _ in range(4)] == ["one", "two", "three", "four"]


async def test_an_oversized_frame_ends_the_transport_after_what_came_before_it() -> None:
    async with served() as (transport, heard, peer):
        await peer.send(b"good\n" + b"x" * (LIMIT + 1))
        error = await heard.error()
        assert isinstance(error, RemoteProtocolError)
        assert heard.commands == ["good"]
        with pytest.raises(ConnectionFailedException):
            transport.oneway("late")
    assert len(heard.errors) == 1


async def test_a_protocol_error_waits_while_reading_is_paused() -> None:
    async with served() as (transport, heard, peer):
        transport.pause_reading()
        await peer.send(b"good\n" + b"x" * (LIMIT + 1))
        await anyio.wait_all_tasks_blocked()
        assert heard.errors == []
        transport.resume_reading()
        assert isinstance(await heard.error(), RemoteProtocolError)
        assert heard.commands == ["good"]


async def test_a_command_that_cannot_be_written_leaves_the_connection_usable() -> None:
    async with connected() as ends:
        with pytest.raises(LocalProtocolError):
            ends.client.oneway("two\nlines")
        ends.client.oneway("fine")
        assert await ends.at_server.next(str) == "fine"


async def test_a_lost_peer_is_reported_once() -> None:
    async with served() as (_, heard, peer):
        await peer.send(b"bye\n")
        await peer.aclose()
        assert isinstance(await heard.error(), ConnectionFailedException)
        assert heard.commands == ["bye"]
    assert len(heard.errors) == 1


async def test_a_transport_without_a_stream_cannot_start() -> None:
    transport: TcpTransport[str] = TcpTransport(LineFormat(), TcpOptions())
    with pytest.raises(ConnectionFailedException, match="neither a stream nor a way to open one"):
        await transport.start()


async def test_a_refused_connection_fails_the_start() -> None:
    connect = partial(open_socket, "127.0.0.1", 1, TcpOptions(), "line://nobody")
    transport: TcpTransport[str] = TcpTransport(LineFormat(), TcpOptions(), connect=connect)
    with pytest.raises(ConnectionFailedException, match="line://nobody"):
        await transport.start()
    await transport.stop()


async def test_the_mock_transport_carries_any_command() -> None:
    mock: MockTransport[str] = MockTransport("line", lambda line: [line.upper()])
    heard: RecordingListener[str] = RecordingListener()
    mock.listener = heard
    await mock.start()
    mock.oneway("hi")
    assert await heard.next(str) == "HI"
    assert mock.sent == ["hi"]
    await mock.stop()
