"""The contract of client transports, as tests: order, no nesting, one failure, back-pressure.

A transport registered under the entry point `pyjms.transports` should pass them. Subclass
`TransportContract` and define its fixture `ends`; for an example, see docs/extending-client.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import anyio
import pytest

from pyjms.errors import ConnectionFailedException
from pyjms.transport.base import TransportListener
from pyjms.transport.mock import RecordingListener
from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    BrokerInfo,
    Command,
    ControlCommand,
    ProducerId,
    Response,
)

__all__ = ["EndListener", "PeerTransport", "TransportContract", "TransportEnds"]


class EndListener(RecordingListener[Command]):
    """Records the events of one end, and reacts to each command if a test sets a reaction."""

    def __init__(self) -> None:
        super().__init__()
        self.reaction: Callable[[Command], object] = lambda _: None

    def on_command(self, command: Command) -> None:
        super().on_command(command)
        self.reaction(command)


class PeerTransport(Protocol):
    """The part of a transport that the tests use at the broker's end."""

    listener: TransportListener[Command]

    def oneway(self, command: Command) -> None:
        """Send `command` to the client."""

    async def stop(self) -> None:
        """Close this end. Idempotent."""


class TransportEnds:
    """A client's transport, the broker's end of it, and the events of both.

    Create it with the client's transport before that transport is started, and set `peer` before
    the broker's end is started.
    """

    def __init__(self, client: RequestTransport) -> None:
        self.client = client
        self.at_client: EndListener = EndListener()
        client.listener = self.at_client
        self.at_peer: EndListener = EndListener()
        self._peer: PeerTransport | None = None

    @property
    def peer(self) -> PeerTransport:
        """The broker's end."""
        assert self._peer is not None, "set `peer` in the fixture `ends`"
        return self._peer

    @peer.setter
    def peer(self, peer: PeerTransport) -> None:
        peer.listener = self.at_peer
        self._peer = peer

    def respond_to_requests(self) -> None:
        """Have the peer send a Response to each request."""

        def respond(command: Command) -> None:
            if command.response_required:
                self.peer.oneway(Response(command.command_id))

        self.at_peer.reaction = respond

    async def stop(self) -> None:
        """Stop both ends."""
        await self.client.stop()
        await self.peer.stop()


@pytest.mark.anyio
class TransportContract:
    """Subclass it, with a fixture `ends` that yields a started TransportEnds and stops it."""

    async def test_commands_arrive_in_order_both_ways(self, ends: TransportEnds) -> None:
        for n in range(1000):
            ends.client.oneway(ControlCommand(f"out {n}"))
            ends.peer.oneway(ControlCommand(f"in {n}"))
        for n in range(1000):
            assert (await ends.at_peer.next(ControlCommand)).command == f"out {n}"
            assert (await ends.at_client.next(ControlCommand)).command == f"in {n}"

    async def test_long_messages_arrive_in_order_between_short_commands(
        self, ends: TransportEnds
    ) -> None:
        sizes = (3_000_000, 70_000, 10, 65_537, 1_000_000)
        bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
        producer_id = ProducerId("c", 1, 1)
        for number, body in enumerate(bodies):
            for end in (ends.client, ends.peer):
                end.oneway(ActiveMQBytesMessage(producer_id=producer_id, content=body))
                end.oneway(ControlCommand(str(number)))
        for heard in (ends.at_peer, ends.at_client):
            for number in range(len(bodies)):
                await heard.next(ActiveMQBytesMessage)
                assert (await heard.next(ControlCommand)).command == str(number)
            messages = [c for c in heard.commands if isinstance(c, ActiveMQBytesMessage)]
            assert [message.content for message in messages] == bodies
            kinds = [type(c) for c in heard.commands if not isinstance(c, BrokerInfo)]
            assert kinds[-2 * len(bodies) :] == [ActiveMQBytesMessage, ControlCommand] * len(bodies)

    async def test_requests_get_their_responses(self, ends: TransportEnds) -> None:
        ends.respond_to_requests()
        last = 0
        for _ in range(3):
            command = ControlCommand("ask")
            response = await ends.client.request(command, timeout=None)
            assert response.correlation_id == command.command_id > last
            last = command.command_id

    async def test_a_response_never_arrives_on_the_senders_stack(self, ends: TransportEnds) -> None:
        ends.respond_to_requests()
        outcomes: list[object] = []
        done = anyio.Event()

        def complete(outcome: object) -> None:
            outcomes.append(outcome)
            done.set()

        ends.client.request_soon(ControlCommand("ask"), complete)
        assert outcomes == []
        await done.wait()
        assert isinstance(outcomes[0], Response)

    async def test_a_command_sent_while_one_is_handled_does_not_nest(
        self, ends: TransportEnds
    ) -> None:
        depth = deepest = seen = 0
        enough = anyio.Event()

        def ping(_: Command) -> None:
            nonlocal depth, deepest, seen
            depth += 1
            deepest = max(deepest, depth)
            seen += 1
            if seen < 2000:
                ends.client.oneway(ControlCommand("ping"))
            else:
                enough.set()
            depth -= 1

        ends.at_client.reaction = ping
        ends.at_peer.reaction = lambda _: ends.peer.oneway(ControlCommand("pong"))
        ends.client.oneway(ControlCommand("ping"))
        await enough.wait()
        assert deepest == 1

    async def test_stop_delivers_what_was_sent_and_is_idempotent(self, ends: TransportEnds) -> None:
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

    async def test_a_peer_that_closes_is_reported_once_after_its_last_command(
        self, ends: TransportEnds
    ) -> None:
        ends.peer.oneway(ControlCommand("bye"))
        await ends.peer.stop()
        error = await ends.at_client.error()
        assert isinstance(error, ConnectionFailedException)
        heard = [c.command for c in ends.at_client.commands if isinstance(c, ControlCommand)]
        assert heard == ["bye"]
        with pytest.raises(ConnectionFailedException):
            ends.client.oneway(ControlCommand("late"))
        await ends.client.stop()
        assert len(ends.at_client.errors) == 1

    async def test_a_pending_request_fails_with_the_transport(self, ends: TransportEnds) -> None:
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

    async def test_stopping_is_not_reported_to_the_own_listener(self, ends: TransportEnds) -> None:
        await ends.client.stop()
        await anyio.wait_all_tasks_blocked()
        assert ends.at_client.errors == []

    async def test_reading_pauses_and_resumes(self, ends: TransportEnds) -> None:
        ends.client.pause_reading()
        for n in range(10):
            ends.peer.oneway(ControlCommand(str(n)))
        await anyio.wait_all_tasks_blocked()
        assert len(ends.at_client.commands) <= 1  # the current one may still be delivered
        ends.client.resume_reading()
        for n in range(10):
            assert (await ends.at_client.next(ControlCommand)).command == str(n)

    async def test_reading_pauses_between_commands_that_arrive_together(
        self, ends: TransportEnds
    ) -> None:
        heard: list[str | None] = []

        def pause(command: Command) -> None:
            if isinstance(command, ControlCommand):
                heard.append(command.command)
                ends.client.pause_reading()

        ends.at_client.reaction = pause
        numbers = [str(n) for n in range(5)]
        for number in numbers:
            ends.peer.oneway(ControlCommand(number))
        for count in range(1, 6):
            await ends.at_client.next(ControlCommand)
            await anyio.wait_all_tasks_blocked()
            assert heard == numbers[:count]
            ends.client.resume_reading()

    async def test_an_idle_transport_is_not_congested(self, ends: TransportEnds) -> None:
        assert not ends.client.congested
        await ends.client.drain()

    async def test_the_peer_has_an_address(self, ends: TransportEnds) -> None:
        assert "://" in ends.client.remote_address
