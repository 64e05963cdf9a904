"""Many clients are lost at once: their ends leave time for everything else."""

from __future__ import annotations

import anyio
import pytest

from pyjms.errors import ConnectionFailedException
from pyjms.runtime.event_loop import LoopHandle
from pyjms.wire.openwire.commands import ConnectionId, ConnectionInfo
from pyjms_broker.connector.connection_registry import ConnectionEnds
from tests.kit.clients.recording_broker import Client, Host


async def test_few_ends_are_at_once_and_many_in_several_turns() -> None:
    ends, order, turn, turns = ConnectionEnds(), list[int](), 0, set[int]()
    loop = LoopHandle()

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        loop.call_next(next_turn) if len(order) < 100 else None

    def end(number: int) -> None:
        order.append(number)
        turns.add(turn)

    next_turn()
    for number in range(100):
        ends.add(lambda number=number: end(number))  # type: ignore[misc]
    assert order == list(range(10))
    while len(order) < 100:
        await anyio.lowlevel.checkpoint()
    assert order == list(range(100))
    assert len(turns) > 1
    ends.add(lambda: end(100))
    assert order[-1] == 100


async def test_an_end_that_fails_does_not_keep_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends, ended = ConnectionEnds(), list[int]()

    def fail() -> None:
        raise OSError("broken")

    for number in range(10):
        ends.add(lambda number=number: ended.append(number))  # type: ignore[misc]
    ends.add(fail)
    ends.add(lambda: ended.append(11))
    while 11 not in ended:
        await anyio.lowlevel.checkpoint()
    assert "Ending a lost connection failed" in caplog.text


async def test_a_client_that_is_back_before_its_old_connection_has_ended(
    client: Client, host: Host
) -> None:
    """The client id is free, and nothing is sent to the old connection."""
    await client.ask(ConnectionInfo(ConnectionId("c1"), "me"))
    for _ in range(10):
        host.connections.ends.add(lambda: None)
    client.connection.on_exception(ConnectionFailedException("its host is dead"))
    assert client.connection.is_lost
    assert "remove_connection" not in host.recording.names
    (context, _) = host.recording.args("add_connection")
    assert context.congested
    host.connections.claim(ConnectionId("c1"), client.connection)
    await client.connection.wait_stopped()
    assert host.recording.names.count("remove_connection") == 1
