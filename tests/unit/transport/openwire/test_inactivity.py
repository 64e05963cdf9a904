from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from pyjms.errors import ConnectionFailedException
from pyjms.testing.clock import VirtualClock
from pyjms.transport.mock import RecordingListener
from pyjms.transport.openwire.factory import InactivityMonitor
from pyjms.transport.openwire.options import OpenWireOptions
from pyjms.transport.options import TcpOptions
from pyjms.transport.tcp import TcpTransport
from pyjms.wire.openwire.commands import Command, KeepAliveInfo, ShutdownInfo
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.settings import WireFormatSettings


class Counted(TcpTransport[Command]):
    """A transport without a socket, with what the monitor looks at."""

    def __init__(self) -> None:
        super().__init__(OpenWireFormat(), TcpOptions(), remote_address="mock://mock")
        self.sent: list[Command] = []
        self.is_writing = False
        self.is_paused = False
        self.is_congested = False

    async def start(self) -> None:
        """There is nothing to connect to."""

    def oneway(self, command: Command) -> None:
        self.sent.append(command)
        self.sent_commands += 1

    @property
    def congested(self) -> bool:
        return self.is_congested

    @property
    def writing(self) -> bool:
        return self.is_writing

    @property
    def reading_paused(self) -> bool:
        return self.is_paused

    def fail(self, error: BaseException) -> None:
        assert isinstance(error, Exception)
        self.listener.on_exception(error)


class Rig:
    def __init__(self, clock: VirtualClock, **options: Any) -> None:
        self.clock = clock
        self.socket = Counted()
        self.monitor = InactivityMonitor(self.socket, self.socket, OpenWireOptions(**options))
        self.heard: RecordingListener[Command] = RecordingListener()
        self.monitor.listener = self.heard

    async def begin(self, duration: float = 30.0, delay: float = 10.0) -> None:
        await self.monitor.start()
        wire = OpenWireFormat()
        theirs = WireFormatSettings(
            max_inactivity_duration=duration, max_inactivity_duration_inital_delay=delay
        )
        self.monitor.monitor(wire.negotiate(theirs.info()))

    async def advance(self, seconds: float) -> int:
        """How many keep-alives were sent meanwhile."""
        before = len(self.socket.sent)
        await self.clock.advance(seconds)
        return len(self.socket.sent) - before


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock() as clock:
        yield clock


@pytest.mark.fact("activemq-edges I3")
async def test_inactive_sides_are_detected_at_activemqs_times(clock: VirtualClock) -> None:
    rig = Rig(clock)
    await rig.begin()
    assert await rig.advance(10) == 0  # the first look, after the initial delay
    assert await rig.advance(9) == 0
    assert await rig.advance(1) == 1  # 10 s without a byte written
    assert [type(c) for c in rig.socket.sent] == [KeepAliveInfo]
    assert await rig.advance(10) == 1  # a keep-alive of our own is no reason to skip the next
    assert await rig.advance(5) == 0
    rig.socket.received_bytes += 1  # part of a large frame is enough
    await rig.advance(5)  # 40 s: the second look at the reading side, after the first at 10 s
    await rig.advance(29)
    assert rig.heard.errors == []
    await rig.advance(1)  # 70 s: nothing between the looks at 40 s and 70 s
    assert [
        str(e.reason) for e in rig.heard.errors if isinstance(e, ConnectionFailedException)
    ] == ["Channel was inactive for too (>30000) long: mock://mock"]
    assert len(rig.heard.errors) == 1
    await rig.monitor.stop()

    echo = Rig(clock)
    await echo.begin()
    echo.socket.listener.on_command(KeepAliveInfo(7, response_required=True))
    echo.socket.listener.on_command(KeepAliveInfo(8, response_required=False))
    echo.socket.listener.on_command(ShutdownInfo())
    await echo.heard.next(ShutdownInfo)
    (answer,) = echo.socket.sent
    assert isinstance(answer, KeepAliveInfo)
    assert (answer.command_id, answer.response_required) == (7, False)
    assert [type(c) for c in echo.heard.commands] == [ShutdownInfo]
    await echo.monitor.stop()


async def test_a_peer_that_does_not_read_gets_no_keep_alive_response(clock: VirtualClock) -> None:
    rig = Rig(clock)
    await rig.begin()
    rig.socket.is_congested = True
    rig.socket.listener.on_command(KeepAliveInfo(7, response_required=True))
    rig.socket.listener.on_command(ShutdownInfo())
    await rig.heard.next(ShutdownInfo)
    assert rig.socket.sent == []
    await rig.monitor.stop()


async def test_written_commands_count_as_activity(clock: VirtualClock) -> None:
    rig = Rig(clock)
    await rig.begin()
    await rig.advance(10)
    for _ in range(5):
        rig.monitor.oneway(ShutdownInfo())
        assert await rig.advance(10) == 0
    await rig.monitor.stop()


async def test_a_send_in_progress_and_our_own_pause_do_not_count_as_inactivity(
    clock: VirtualClock,
) -> None:
    rig = Rig(clock)
    rig.socket.is_writing = True
    rig.socket.is_paused = True
    await rig.begin()
    assert await rig.advance(200) == 0
    assert rig.heard.errors == []
    await rig.monitor.stop()


async def test_no_monitoring_when_the_duration_is_zero(clock: VirtualClock) -> None:
    rig = Rig(clock)
    await rig.begin(duration=0)
    assert await rig.advance(1000) == 0
    assert rig.heard.errors == []
    await rig.monitor.stop()


async def test_keep_alives_can_be_disabled_or_require_a_response(clock: VirtualClock) -> None:
    off = Rig(clock, use_keep_alive=False)
    await off.begin()
    assert await off.advance(25) == 0
    await off.monitor.stop()

    asking = Rig(clock, keep_alive_response_required=True)
    await asking.begin()
    assert await asking.advance(25) == 1
    assert asking.socket.sent[0].response_required is True
    await asking.monitor.stop()


async def test_after_stop_nothing_is_monitored(clock: VirtualClock) -> None:
    rig = Rig(clock)
    await rig.begin()
    await rig.monitor.stop()
    await rig.clock.advance(1000)
    assert rig.socket.sent == []
    assert rig.heard.errors == []
