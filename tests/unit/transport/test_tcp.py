from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from pyjms.errors import (
    ConnectionFailedException,
    JMSException,
    LocalProtocolError,
    RemoteProtocolError,
)
from pyjms.testing.clock import VirtualClock
from pyjms.transport.mock import RecordingListener
from pyjms.transport.openwire import RequestTransport
from pyjms.transport.openwire.factory import accepted_transport
from pyjms.transport.openwire.options import OpenWireOptions
from pyjms.transport.options import TcpOptions
from pyjms.transport.registry import create_transport
from pyjms.transport.tcp import CoalescingWriter, SocketWriter, TcpTransport
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    Command,
    ControlCommand,
    KeepAliveInfo,
    ProducerId,
    ShutdownInfo,
)
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.settings import WireFormatSettings
from tests.kit.accepting import accept
from tests.kit.waiting import until


class Pair:
    """A client's TcpTransport and the bare socket at the other end of it."""

    def __init__(self, transport: TcpTransport[Command], peer: SocketStream) -> None:
        self.transport = transport
        self.peer = peer
        self.heard: RecordingListener[Command] = RecordingListener()
        transport.listener = self.heard


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[int, list[SocketStream]]]:
    """A port that accepts and stays silent."""
    accepted: list[SocketStream] = []
    multi = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = multi.extra(SocketAttribute.local_port)
    async with multi, anyio.create_task_group() as group:

        async def keep(stream: SocketStream) -> None:
            accepted.append(stream)

        group.start_soon(multi.serve, keep)
        yield port, accepted
        group.cancel_scope.cancel()
    for stream in accepted:
        await anyio.aclose_forcefully(stream)


@asynccontextmanager
async def connected(options: TcpOptions | None = None) -> AsyncIterator[Pair]:
    multi = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with multi:
        port = multi.extra(SocketAttribute.local_port)
        stream = await anyio.connect_tcp("127.0.0.1", port)
        peer = await accept(multi)
    wire_format = OpenWireFormat()
    wire_format.negotiate(WireFormatSettings().info())
    pair = Pair(TcpTransport(wire_format, options or TcpOptions(), stream=stream), peer)
    await pair.transport.start()
    try:
        yield pair
    finally:
        await pair.transport.stop()
        await anyio.aclose_forcefully(peer)


async def read_all(stream: SocketStream) -> bytes:
    data = b""
    try:
        while True:
            data += await stream.receive()
    except anyio.EndOfStream:
        return data


def frame(command: KeepAliveInfo | ControlCommand) -> bytes:
    wire_format = OpenWireFormat()
    wire_format.negotiate(WireFormatSettings().info())
    return wire_format.encode(command)


async def test_commands_come_up_however_the_bytes_are_cut() -> None:
    async with connected() as pair:
        data = b"".join(frame(KeepAliveInfo(n)) for n in range(1, 6))
        for cut in range(0, len(data), 3):
            await pair.peer.send(data[cut : cut + 3])
        for n in range(1, 6):
            assert (await pair.heard.next(KeepAliveInfo)).command_id == n


async def test_a_burst_goes_out_in_one_send_and_stop_writes_what_is_queued() -> None:
    async with connected() as pair:
        sends: list[int] = []
        writer = pair.transport._writer
        assert isinstance(writer, SocketWriter)
        own = writer._socket

        class Counting:
            fileno, close = own.fileno, own.close

            def send(self, data: bytearray) -> int:
                sends.append(len(data))
                return own.send(data)

        writer._socket = Counting()  # type: ignore[assignment]
        for n in range(100):
            pair.transport.oneway(KeepAliveInfo(n))
        await pair.transport.stop()
        assert await read_all(pair.peer) == b"".join(frame(KeepAliveInfo(n)) for n in range(100))
        assert len(sends) == 1
        with pytest.raises(ConnectionFailedException, match="it was stopped"):
            pair.transport.oneway(KeepAliveInfo())
        await pair.transport.stop()
        assert pair.heard.errors == []


async def test_a_command_that_cannot_be_written_does_not_affect_others() -> None:
    async with connected() as pair:
        with pytest.raises(LocalProtocolError):
            pair.transport.oneway(ControlCommand("x" * 70000))
        pair.transport.oneway(KeepAliveInfo(5))
        await pair.transport.stop()
        assert await read_all(pair.peer) == frame(KeepAliveInfo(5))


async def test_a_peer_that_does_not_read_congests_the_transport_until_it_reads() -> None:
    async with connected() as pair:
        transport = pair.transport
        transport.oneway(KeepAliveInfo())
        await pair.peer.receive(1)  # anyio's asyncio stream reads on by itself until the first
        big = ActiveMQTextMessage(producer_id=ProducerId("c", 1, 1), content=b"x" * 100_000)
        while not transport.congested:
            transport.oneway(big)
            await anyio.lowlevel.checkpoint()
        drained = anyio.Event()

        async def wait() -> None:
            await transport.drain()
            drained.set()

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert not drained.is_set()
            while not drained.is_set():
                await pair.peer.receive()
        assert not transport.congested


async def test_drained_ends_when_the_transport_dies() -> None:
    async with connected() as pair:
        pair.transport.oneway(KeepAliveInfo())
        await pair.peer.receive(1)
        big = ActiveMQTextMessage(producer_id=ProducerId("c", 1, 1), content=b"x" * 2_000_000)
        while not pair.transport.congested:
            pair.transport.oneway(big)
            await anyio.lowlevel.checkpoint()
        async with anyio.create_task_group() as group:
            group.start_soon(pair.transport.drain)
            await anyio.wait_all_tasks_blocked()
            pair.transport.fail(ConnectionFailedException("cut"))
        assert [str(e) for e in pair.heard.errors] == ["cut"]
        with pytest.raises(ConnectionFailedException, match="cut"):
            pair.transport.oneway(KeepAliveInfo())


async def test_a_closed_peer_is_reported_once() -> None:
    async with connected() as pair:
        await pair.peer.aclose()
        error = await pair.heard.error()
        assert isinstance(error, ConnectionFailedException)
        assert "the peer closed the connection" in str(error)
        await pair.transport.stop()
        assert len(pair.heard.errors) == 1


async def test_bytes_that_are_not_openwire_end_the_transport() -> None:
    async with connected() as pair:
        await pair.peer.send(b"\x00\x00\x00\x02\xfe\x00")
        assert isinstance(await pair.heard.error(), RemoteProtocolError)
        assert await read_all(pair.peer) == b""


async def test_an_exception_of_the_listener_ends_the_transport(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(RecordingListener[Command]):
        def on_command(self, command: Command) -> None:
            raise ZeroDivisionError

    multi = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with multi:
        stream = await anyio.connect_tcp("127.0.0.1", multi.extra(SocketAttribute.local_port))
        peer = await accept(multi)
    wire_format = OpenWireFormat()
    wire_format.negotiate(WireFormatSettings().info())
    transport = TcpTransport(wire_format, TcpOptions(), stream=stream)
    transport.listener = broken = Broken()
    await transport.start()
    await peer.send(frame(KeepAliveInfo()))
    assert isinstance((await broken.error()).__cause__, ZeroDivisionError)
    assert "ZeroDivisionError" in caplog.text
    await transport.stop()
    await peer.aclose()


async def test_reading_can_be_paused_between_two_commands_of_one_chunk() -> None:
    class Pausing(RecordingListener[Command]):
        def on_command(self, command: Command) -> None:
            super().on_command(command)
            pair.transport.pause_reading()

    async with connected() as pair:
        pausing = Pausing()
        pair.transport.listener = pausing
        await pair.peer.send(b"".join(frame(KeepAliveInfo(n)) for n in (1, 2, 3)))
        for n in (1, 2, 3):
            assert (await pausing.next(KeepAliveInfo)).command_id == n
            await anyio.wait_all_tasks_blocked()
            assert len(pausing.commands) == n
            assert pair.transport.reading_paused
            pair.transport.resume_reading()


def option(transport: TcpTransport[Any], level: int, name: int) -> int:
    writer = transport._writer
    assert isinstance(writer, SocketWriter)
    return writer.socket.getsockopt(level, name)


async def test_socket_options_take_effect() -> None:
    options = TcpOptions(keep_alive=True, so_linger=7, tcp_no_delay=False, socket_buffer_size=40000)
    async with connected(options) as pair:
        assert option(pair.transport, socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert option(pair.transport, socket.SOL_SOCKET, socket.SO_LINGER) == 1
        assert (
            option(pair.transport, socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 40000
        )  # Linux doubles
        assert option(pair.transport, socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * 40000
        assert not option(pair.transport, socket.IPPROTO_TCP, socket.TCP_NODELAY)
        pair.transport.set_tcp_no_delay(True)
        assert not option(pair.transport, socket.IPPROTO_TCP, socket.TCP_NODELAY)  # the option won
    async with connected() as pair:
        assert not option(pair.transport, socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        for on in (False, True):
            pair.transport.set_tcp_no_delay(on)
            assert bool(option(pair.transport, socket.IPPROTO_TCP, socket.TCP_NODELAY)) is on


async def test_a_host_name_that_is_unknown_is_reported_as_such() -> None:
    transport = create_transport("tcp://broker.invalid:61616")
    with pytest.raises(ConnectionFailedException, match="is the host name right") as caught:
        await transport.start()
    assert "is the port right" not in str(caught.value)


async def test_a_refused_connection_is_reported() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    transport = create_transport(f"tcp://127.0.0.1:{port}")
    transport.listener = RecordingListener()
    with pytest.raises(ConnectionFailedException) as caught:
        await transport.start()
    assert str(caught.value).startswith(
        f"Could not connect to broker URL: tcp://127.0.0.1:{port}. Reason: "
    )
    assert "refused" in str(caught.value)
    await transport.stop()


async def _start(transport: RequestTransport, failures: list[Exception]) -> None:
    transport.listener = RecordingListener()
    try:
        await transport.start()
    except JMSException as error:
        failures.append(error)


@pytest.mark.fact("activemq-edges I1")
async def test_the_negotiation_and_its_failures() -> None:
    async with listening() as (port, accepted):
        failures: list[Exception] = []

        async def said(data: bytes, query: str = "") -> str:
            """Let the peer say `data` to a client, and return how its start failed."""
            failures.clear()
            known = len(accepted)
            async with anyio.create_task_group() as group:
                transport = create_transport(f"tcp://127.0.0.1:{port}{query}")
                group.start_soon(_start, transport, failures)
                await until(lambda: len(accepted) != known)
                # both sides send WireFormatInfo at once: ours comes before the peer said a word
                assert (await accepted[-1].receive())[4:13] == b"\x01ActiveMQ"
                transport.oneway(ShutdownInfo())
                if data:
                    await accepted[-1].send(data)
                else:
                    await anyio.wait_all_tasks_blocked()
                    await clock.advance(9.9)
                    assert failures == []
                    await clock.advance(0.2)
            assert await read_all(accepted[-1]) == b""  # no other command was sent
            return str(failures[0])

        async with VirtualClock() as clock:
            assert (await said(b"")).startswith(
                "Wire format negotiation timeout: peer did not send his wire format."
            )
            assert (await said(b"\0\0\0\x0e\x01NotMagic\0\0\0\x0c\0")).startswith(
                "Remote wire format magic is invalid"
            )
            old = OpenWireFormat().encode(WireFormatSettings(version=3).info())
            assert "(3) is lower the minimum version required (5)" in await said(
                old, "?minmumWireFormatVersion=5"
            )


async def test_client_and_accepted_end_exchange_commands() -> None:
    multi = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with multi:
        client = create_transport(f"tcp://127.0.0.1:{multi.extra(SocketAttribute.local_port)}")
        at_client: RecordingListener[Command] = RecordingListener()
        client.listener = at_client
        async with anyio.create_task_group() as group:
            group.start_soon(client.start)
            stream = await accept(multi)
            server = accepted_transport(stream, TcpOptions(), OpenWireOptions())
            at_server: RecordingListener[Command] = RecordingListener()
            server.listener = at_server
            await server.start()
    assert server.remote_address.startswith("tcp://127.0.0.1:")
    client.oneway(ControlCommand("hello"))
    assert (await at_server.next(ControlCommand)).command == "hello"
    server.oneway(ControlCommand("you too"))
    assert (await at_client.next(ControlCommand)).command == "you too"
    await client.stop()
    assert isinstance(await at_server.error(), ConnectionFailedException)
    await server.stop()


async def test_a_slow_peer_does_not_block_stop_forever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connected() as pair:
        big = ActiveMQTextMessage(producer_id=ProducerId("c", 1, 1), content=b"x" * 4_000_000)
        for _ in range(5):
            pair.transport.oneway(big)
        await pair.peer.receive(100)  # anyio's asyncio stream reads on by itself until the first
        async with VirtualClock() as clock, anyio.create_task_group() as group:
            group.start_soon(pair.transport.stop)
            await anyio.wait_all_tasks_blocked()
            await clock.advance(5.1)
        assert "accepted no data while closing" in caplog.text


async def test_abandoning_the_writer_ends_all_waits_for_space() -> None:
    class Stuck:
        async def send(self, item: bytes) -> None:
            await anyio.sleep_forever()

    writer = CoalescingWriter(Stuck(), high_water=10, low_water=2)  # type: ignore[arg-type]
    writer.buffer += b"x" * 11
    assert writer.congested
    async with anyio.create_task_group() as group:
        group.start_soon(writer.drain)
        await anyio.wait_all_tasks_blocked()
        writer.abandon()
    assert not writer.congested


async def test_a_held_command_is_sent_with_the_next_one_and_at_once() -> None:
    async with connected() as pair:
        begin, after = ControlCommand("begin"), ControlCommand("after")
        pair.transport.hold(begin)
        pair.transport.hold(begin)
        await anyio.wait_all_tasks_blocked()
        assert pair.transport.queued_bytes == 2 * len(frame(begin))
        pair.transport.oneway(after)
        expected = 2 * frame(begin) + frame(after)
        assert await pair.peer.receive() == expected
        pair.transport.oneway(after)
        assert await pair.peer.receive() == frame(after)


async def test_a_held_command_is_sent_with_those_before_it_and_by_stop() -> None:
    async with connected() as pair:
        first, held = ControlCommand("first"), ControlCommand("held")
        pair.transport.oneway(first)
        pair.transport.hold(held)
        assert await pair.peer.receive() == frame(first) + frame(held)
        pair.transport.hold(held)
        await pair.transport.stop()
        assert await read_all(pair.peer) == frame(held)
        with pytest.raises(ConnectionFailedException):
            pair.transport.hold(held)
