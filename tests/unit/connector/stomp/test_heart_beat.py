"""Heart-beats in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol

import pytest

from pyjms.errors import RemoteProtocolError
from pyjms.runtime.event_loop import BackgroundTask, end_tasks
from pyjms.testing.clock import VirtualClock
from pyjms.transport.options import TcpOptions
from pyjms.transport.tcp import TcpTransport
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.stomp import HEART_BEAT
from pyjms_broker.connector.stomp.session import Periods, read_periods, start_heart_beat


class Monitored(TcpTransport[Any]):
    """A transport without a socket, with what the heart-beat looks at."""

    def __init__(self) -> None:
        super().__init__(OpenWireFormat(), TcpOptions(), remote_address="stomp://client")
        self.is_writing = self.is_paused = False
        self.failures: list[BaseException] = []
        self.beats = 0

    @property
    def writing(self) -> bool:
        return self.is_writing

    @property
    def reading_paused(self) -> bool:
        return self.is_paused

    def oneway(self, command: object) -> None:
        assert command is HEART_BEAT
        self.beats += 1
        self.sent_commands += 1

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)


class Begin(Protocol):
    """Starts the heart-beats of a new connection with the periods in milliseconds."""

    def __call__(self, client: int, broker: int, grace: float = 1.0) -> Monitored: ...


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock() as clock:
        yield clock


@pytest.fixture
async def start(clock: VirtualClock) -> AsyncIterator[Begin]:
    tasks: list[BackgroundTask | None] = []

    def begin(client: int, broker: int, grace: float = 1.0) -> Monitored:
        monitored = Monitored()
        periods = Periods(client, broker)
        tasks.append(start_heart_beat(monitored, periods, grace))
        return monitored

    yield begin
    await end_tasks(*tasks)


@pytest.mark.fact("activemq-edges ST13")
async def test_a_silent_client_is_ended_after_three_periods(
    clock: VirtualClock, start: Begin
) -> None:
    silent = start(1000, 0)
    await clock.advance(2.9)
    assert silent.failures == []
    await clock.advance(0.2)
    assert "sent nothing for 1 s" in str(silent.failures[0])


@pytest.mark.fact("activemq-edges ST13")
async def test_the_grace_multiplier_lets_clients_take_longer(
    clock: VirtualClock, start: Begin
) -> None:
    client = start(1000, 0, grace=2.0)
    for _ in range(10):
        await clock.advance(1.9)
        client.received_bytes += 1
    assert client.failures == []
    await clock.advance(4.1)
    assert len(client.failures) == 1


async def test_a_client_that_we_do_not_read_is_not_silent(
    clock: VirtualClock, start: Begin
) -> None:
    client = start(1000, 0)
    client.is_paused = True
    await clock.advance(30)
    assert client.failures == []


@pytest.mark.fact("activemq-edges ST13")
async def test_an_idle_connection_gets_beats_in_time(clock: VirtualClock, start: Begin) -> None:
    client = start(0, 1000)
    for number in range(1, 6):
        await clock.advance(1.0)
        assert client.beats >= number


async def test_frames_stand_for_beats(clock: VirtualClock, start: Begin) -> None:
    client = start(0, 1000)
    for _ in range(50):
        client.sent_commands += 1
        await clock.advance(0.4)
    assert client.beats == 0
    client.is_writing = True
    await clock.advance(10)
    assert client.beats == 0


async def test_tiny_periods_cost_little(clock: VirtualClock, start: Begin) -> None:
    client = start(0, 1)
    await clock.advance(1.0)
    assert 0 < client.beats <= 101


async def test_nothing_is_promised(clock: VirtualClock, start: Begin) -> None:
    client = start(0, 0)
    await clock.advance(1000)
    assert (client.beats, client.failures) == (0, [])


@pytest.mark.fact("activemq-edges ST13")
def test_the_answer_is_the_request_reversed() -> None:
    assert read_periods("10, 2000").answer == "2000,10"
    with pytest.raises(RemoteProtocolError, match="heart-beat"):
        read_periods("10")
