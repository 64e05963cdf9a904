"""What every transport promises, on each of them: order, no nesting, one end, back-pressure."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest
from anyio.abc import SocketAttribute

from broker.connector.vm import VmTransport
from pyjms.errors import ConnectionFailedException
from pyjms.transport.base import Transport
from pyjms.transport.mock import MockTransport, RecordingListener
from pyjms.transport.openwire import RequestTransport
from pyjms.transport.openwire.correlator import ResponseCorrelator
from pyjms.transport.openwire.factory import accepted_transport
from pyjms.transport.openwire.negotiator import WireFormatNegotiator
from pyjms.transport.options import TcpOptions
from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import Command, ControlCommand, Response
from pyjms.wire.openwire.format import OpenWireFormat, WireFormatSettings


class MockPeer:
    """The far end of a MockTransport, in the shape of a transport."""

    def __init__(self, mock: MockTransport, heard: RecordingListener) -> None:
        self._mock = mock
        self.oneway = mock.deliver
        mock.respond = lambda command: (heard.on_command(command), ())[1]

    async def stop(self) -> None:
        self._mock.fail(ConnectionFailedException("the peer stopped"))


class Ends:
    """A client's transport, the peer at its other end, and what both have heard."""

    def __init__(self, client: RequestTransport, at_client: RecordingListener) -> None:
        self.client = client
        self.at_client = client.listener = at_client
        self.at_peer = RecordingListener()
        self.peer: Transport | MockPeer

    def answer_all(self) -> None:
        """Have the peer answer each request."""
        plain = self.at_peer.on_command

        def answer(command: Command) -> None:
            plain(command)
            if command.response_required:
                self.peer.oneway(Response(command.command_id))

        self.at_peer.on_command = answer  # type: ignore[method-assign]


async def tcp_ends(at_client: RecordingListener) -> Ends:
    multi = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with multi, anyio.create_task_group() as group:
        port = multi.extra(SocketAttribute.local_port)
        ends = Ends(create_transport(f"tcp://127.0.0.1:{port}"), at_client)
        group.start_soon(ends.client.start)
        stream = await multi.listeners[0].accept()
        ends.peer = accepted_transport(stream, TcpOptions(), WireFormatSettings())
        ends.peer.listener = ends.at_peer
        await ends.peer.start()
    return ends


async def vm_ends(at_client: RecordingListener, *, marshal: bool = False) -> Ends:
    def end(name: str) -> VmTransport:
        return VmTransport(name, OpenWireFormat() if marshal else None)

    def negotiated(transport: VmTransport) -> Transport:
        if transport.wire_format is None:
            return transport
        return WireFormatNegotiator(transport, transport.wire_format, timeout=None)

    here, there = end("vm://b#1"), end("vm://b#2")
    here.peer, there.peer = there, here
    ends = Ends(ResponseCorrelator(negotiated(here)), at_client)
    ends.peer = negotiated(there)
    ends.peer.listener = ends.at_peer
    async with anyio.create_task_group() as group:
        group.start_soon(ends.peer.start)
        group.start_soon(ends.client.start)
    return ends


async def marshalling_vm_ends(at_client: RecordingListener) -> Ends:
    return await vm_ends(at_client, marshal=True)


async def mock_ends(at_client: RecordingListener) -> Ends:
    mock = MockTransport("contract")
    ends = Ends(ResponseCorrelator(mock), at_client)
    ends.peer = MockPeer(mock, ends.at_peer)
    await ends.client.start()
    return ends


MAKERS = {"tcp": tcp_ends, "vm": vm_ends, "vm-marshal": marshalling_vm_ends, "mock": mock_ends}


@pytest.fixture(params=MAKERS)
async def ends(request: pytest.FixtureRequest) -> AsyncIterator[Ends]:
    ends = await MAKERS[request.param](RecordingListener())
    yield ends
    await ends.client.stop()
    if isinstance(ends.peer, Transport):
        await ends.peer.stop()


async def test_commands_arrive_in_order_both_ways(ends: Ends) -> None:
    for n in range(1000):
        ends.client.oneway(ControlCommand(f"out {n}"))
        ends.peer.oneway(ControlCommand(f"in {n}"))
    for n in range(1000):
        assert (await ends.at_peer.next(ControlCommand)).command == f"out {n}"
        assert (await ends.at_client.next(ControlCommand)).command == f"in {n}"


async def test_requests_get_their_answers(ends: Ends) -> None:
    ends.answer_all()
    for expected in (1, 2, 3):
        answer = await ends.client.request(ControlCommand("ask"), timeout=None)
        assert answer.correlation_id == expected


async def test_an_answer_never_comes_on_the_senders_stack(ends: Ends) -> None:
    ends.answer_all()
    answers: list[object] = []
    done = anyio.Event()
    ends.client.request_soon(ControlCommand("ask"), lambda a: (answers.append(a), done.set()))
    assert answers == []
    await done.wait()
    assert isinstance(answers[0], Response)


async def test_a_command_sent_while_one_is_handled_does_not_nest(ends: Ends) -> None:
    depth = deepest = seen = 0
    enough = anyio.Event()
    plain = ends.at_client.on_command

    def echo(command: Command) -> None:
        nonlocal depth, deepest, seen
        depth += 1
        deepest = max(deepest, depth)
        plain(command)
        seen += 1
        if seen < 2000:
            ends.client.oneway(ControlCommand("ping"))
        else:
            enough.set()
        depth -= 1

    ends.at_client.on_command = echo  # type: ignore[method-assign]
    if isinstance(ends.client.next, MockTransport):
        ends.client.next.respond = lambda _: (ControlCommand("pong"),)
    else:
        ends.at_peer.on_command = (  # type: ignore[method-assign]
            lambda _: ends.peer.oneway(ControlCommand("pong"))
        )
    ends.client.oneway(ControlCommand("ping"))
    await enough.wait()
    assert deepest == 1


async def test_stop_lets_the_peer_have_what_was_sent_and_is_idempotent(ends: Ends) -> None:
    for n in range(100):
        ends.client.oneway(ControlCommand(str(n)))
    await ends.client.stop()
    await ends.client.stop()
    for n in range(100):
        assert (await ends.at_peer.next(ControlCommand)).command == str(n)
    assert ends.at_client.errors == []
    with pytest.raises(ConnectionFailedException):
        ends.client.oneway(ControlCommand("late"))
    with pytest.raises(ConnectionFailedException):
        await ends.client.request(ControlCommand("late"))


async def test_a_peer_that_goes_is_reported_once_after_its_last_words(ends: Ends) -> None:
    ends.peer.oneway(ControlCommand("bye"))
    await ends.peer.stop()
    error = await ends.at_client.error()
    assert isinstance(error, ConnectionFailedException)
    assert [c.command for c in ends.at_client.commands if isinstance(c, ControlCommand)] == ["bye"]
    with pytest.raises(ConnectionFailedException):
        ends.client.oneway(ControlCommand("late"))
    await ends.client.stop()
    assert len(ends.at_client.errors) == 1


async def test_a_waiting_request_fails_with_the_transport(ends: Ends) -> None:
    failures: list[Exception] = []

    async def ask() -> None:
        try:
            await ends.client.request(ControlCommand("ask"))
        except ConnectionFailedException as error:
            failures.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await ends.at_peer.next(ControlCommand)
        await ends.peer.stop()
    assert len(failures) == 1


async def test_nobody_is_told_of_a_stop_of_ones_own(ends: Ends) -> None:
    await ends.client.stop()
    await anyio.wait_all_tasks_blocked()
    assert ends.at_client.errors == []


async def test_reading_pauses_and_goes_on(ends: Ends) -> None:
    ends.client.pause_reading()
    for n in range(10):
        ends.peer.oneway(ControlCommand(str(n)))
    await anyio.wait_all_tasks_blocked()
    assert len(ends.at_client.commands) <= 1  # the one in hand may still come
    ends.client.resume_reading()
    for n in range(10):
        assert (await ends.at_client.next(ControlCommand)).command == str(n)


async def test_a_quiet_transport_is_not_congested(ends: Ends) -> None:
    assert not ends.client.congested
    await ends.client.drained()


async def test_the_peer_has_an_address(ends: Ends) -> None:
    assert "://" in ends.client.remote_address
