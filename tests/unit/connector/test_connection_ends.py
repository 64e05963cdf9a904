"""Many clients are lost at once: their ends leave time for everything else."""

from __future__ import annotations

from collections.abc import Iterator

import anyio
import pytest

from pyjms.errors import ConnectionFailedException
from pyjms.jms.destination import Queue
from pyjms.runtime.event_loop import LoopHandle
from pyjms.wire.openwire.commands import (
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    SessionId,
    SessionInfo,
)
from pyjms_broker.connector.connection_registry import ConnectionEnds
from tests.kit.clients.recording_broker import Client, Host


async def test_few_steps_are_at_once_and_many_in_several_turns() -> None:
    ends, order, turn, turns = ConnectionEnds(), list[int](), 0, set[int]()
    loop = LoopHandle()

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        if len(order) < 600:
            loop.call_next(next_turn)

    def steps(number: int) -> Iterator[None]:
        for _ in range(20):
            order.append(number)
            turns.add(turn)
            yield

    next_turn()
    for number in range(30):
        ends.add(steps(number))
    assert set(order) == set(range(5))
    while len(order) < 600:
        await anyio.lowlevel.checkpoint()
    assert order == [number for number in range(30) for _ in range(20)]
    assert len(turns) > 1


async def test_an_end_that_fails_does_not_keep_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends, ended = ConnectionEnds(), list[int]()

    def steps(number: int, count: int) -> Iterator[None]:
        yield from [None] * count
        ended.append(number)

    def failing() -> Iterator[None]:
        yield
        raise OSError("broken")

    ends.add(steps(1, 200))
    ends.add(failing())
    ends.add(steps(2, 1))
    while 2 not in ended:
        await anyio.lowlevel.checkpoint()
    assert ended == [1, 2]
    assert "Ending a lost connection failed" in caplog.text


async def test_a_client_that_is_back_before_its_old_connection_has_ended(
    client: Client, host: Host
) -> None:
    """The client id is free, and nothing is sent to the old connection."""
    await client.ask(ConnectionInfo(ConnectionId("c1"), "me"))
    host.connections.ends.add(iter([None] * 1000))
    client.connection.on_exception(ConnectionFailedException("its host is dead"))
    assert client.connection.is_lost
    assert "remove_connection" not in host.recording.names
    (context, _) = host.recording.args("add_connection")
    assert context.congested
    client.connection.give_way(ConnectionFailedException("it is back"))
    assert host.recording.names.count("remove_connection") == 1
    await client.connection.wait_stopped()
    assert host.recording.names.count("remove_connection") == 1


async def test_a_client_with_many_consumers_ends_in_several_turns(
    client: Client, host: Host
) -> None:
    await client.ask(ConnectionInfo(ConnectionId("c1"), "me"))
    await client.ask(SessionInfo(SessionId("c1", 1)))
    for number in range(250):
        client.tell(ConsumerInfo(ConsumerId("c1", 1, number), destination=Queue("q")))
    await client.ask(ProducerInfo(ProducerId("c1", 1, 1), Queue("q")))
    client.connection.on_exception(ConnectionFailedException("it is dead"))
    removed = host.recording.names.count("remove_consumer")
    assert 0 < removed < 250
    await client.connection.wait_stopped()
    assert host.recording.names.count("remove_consumer") == 250
    assert host.recording.names[-2:] == ["remove_session", "remove_connection"]


async def test_a_session_with_many_consumers_is_closed_before_its_answer(
    client: Client, host: Host
) -> None:
    await client.ask(ConnectionInfo(ConnectionId("c1"), "me"))
    await client.ask(SessionInfo(SessionId("c1", 1)))
    for number in range(250):
        client.tell(ConsumerInfo(ConsumerId("c1", 1, number), destination=Queue("q")))
    await client.ask(RemoveInfo(SessionId("c1", 1)))
    assert host.recording.names.count("remove_consumer") == 250
    assert host.recording.names[-1] == "remove_session"
