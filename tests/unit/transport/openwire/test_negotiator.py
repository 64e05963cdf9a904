from __future__ import annotations

import anyio
import pytest

from pyjms.errors import ConnectionFailedException, RemoteProtocolError
from pyjms.testing.clock import VirtualClock
from pyjms.transport.mock import MockTransport, RecordingListener
from pyjms.transport.openwire.negotiator import WireFormatNegotiator
from pyjms.wire.openwire.commands import Command, KeepAliveInfo, ShutdownInfo, WireFormatInfo
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.settings import NegotiatedSettings, WireFormatSettings


class Rig:
    def __init__(self, answer: list[Command], minimum_version: int = 0) -> None:
        self.mock = MockTransport(respond=lambda c: answer if isinstance(c, WireFormatInfo) else ())
        self.agreed: list[NegotiatedSettings] = []
        self.negotiator = WireFormatNegotiator(
            self.mock,
            OpenWireFormat(),
            timeout=10,
            minimum_version=minimum_version,
            on_negotiated=self.agreed.append,
        )
        self.heard = self.negotiator.listener = RecordingListener()


def info(**settings: object) -> WireFormatInfo:
    return WireFormatSettings(**settings).info()  # type: ignore[arg-type]


async def test_our_info_goes_first_and_start_waits_for_the_peers() -> None:
    rig = Rig([])
    async with anyio.create_task_group() as group:
        group.start_soon(rig.negotiator.start)
        await anyio.wait_all_tasks_blocked()
        rig.negotiator.oneway(KeepAliveInfo())
        rig.negotiator.oneway(ShutdownInfo())
        assert [type(c) for c in rig.mock.sent] == [WireFormatInfo]
        rig.mock.deliver(info())
    assert [type(c) for c in rig.mock.sent] == [WireFormatInfo, KeepAliveInfo, ShutdownInfo]
    rig.negotiator.oneway(KeepAliveInfo())
    assert len(rig.mock.sent) == 4
    rig.mock.deliver(KeepAliveInfo())
    await rig.heard.next(KeepAliveInfo)
    assert [type(c) for c in rig.heard.commands] == [KeepAliveInfo]
    await rig.negotiator.stop()


@pytest.mark.fact("activemq-edges I2")
async def test_the_smaller_number_and_both_flags_win() -> None:
    theirs = info(
        version=9,
        max_inactivity_duration=20.0,
        max_inactivity_duration_inital_delay=30.0,
        cache_size=100,
        cache_enabled=True,
        tight_encoding_enabled=True,
        stack_trace_enabled=False,
    )
    rig = Rig([theirs])
    await rig.negotiator.start()
    (agreed,) = rig.agreed
    assert agreed.version == 9
    assert agreed.max_inactivity_duration == 20.0
    assert agreed.max_inactivity_duration_inital_delay == 10.0
    assert agreed.cache_size == 100
    assert (agreed.cache_enabled, agreed.tight_encoding_enabled) == (False, False)
    assert (agreed.stack_trace_enabled, agreed.tcp_no_delay_enabled) == (False, True)
    await rig.negotiator.stop()

    silent = Rig([info(max_inactivity_duration=0)])
    await silent.negotiator.start()
    assert silent.agreed[0].max_inactivity_duration == 0
    await silent.negotiator.stop()


async def test_a_peer_that_sends_nothing_times_out() -> None:
    rig = Rig([])
    caught: list[Exception] = []

    async def start() -> None:
        try:
            await rig.negotiator.start()
        except ConnectionFailedException as error:
            caught.append(error)

    async with VirtualClock() as clock, anyio.create_task_group() as group:
        group.start_soon(start)
        await anyio.wait_all_tasks_blocked()
        await clock.advance(9.9)
        assert caught == []
        await clock.advance(0.2)
    assert isinstance(caught[0], ConnectionFailedException)
    assert caught[0].reason == (
        "Wire format negotiation timeout: peer did not send his wire format."
    )
    assert rig.mock.stopped


async def test_a_wrong_magic_is_refused() -> None:
    rig = Rig([WireFormatInfo(b"HTTP/1.1", 12)])
    with pytest.raises(RemoteProtocolError, match=r"^Remote wire format magic is invalid$"):
        await rig.negotiator.start()
    assert rig.mock.stopped


async def test_a_version_below_the_minimum_is_refused() -> None:
    rig = Rig([info(version=6)], minimum_version=7)
    with pytest.raises(RemoteProtocolError) as caught:
        await rig.negotiator.start()
    assert str(caught.value) == ("Remote wire format (6) is lower the minimum version required (7)")


async def test_a_command_before_the_info_is_refused() -> None:
    rig = Rig([KeepAliveInfo()])
    with pytest.raises(RemoteProtocolError, match="KeepAliveInfo before its wire format"):
        await rig.negotiator.start()
    assert rig.heard.commands == []


async def test_a_connection_that_breaks_during_the_negotiation_fails_start_only() -> None:
    rig = Rig([])

    def cut(_command: Command) -> tuple[()]:
        rig.mock.fail(ConnectionFailedException("cut"))
        return ()

    rig.mock.respond = cut
    with pytest.raises(ConnectionFailedException, match=r"^cut$"):
        await rig.negotiator.start()
    assert rig.heard.errors == []
    with pytest.raises(ConnectionFailedException, match=r"^cut$"):
        rig.negotiator.oneway(KeepAliveInfo())


async def test_the_queue_of_commands_before_the_handshake_is_limited() -> None:
    rig = Rig([])
    for _ in range(1000):
        rig.negotiator.oneway(KeepAliveInfo())
    with pytest.raises(ConnectionFailedException, match="has not sent its WireFormatInfo yet"):
        rig.negotiator.oneway(KeepAliveInfo())
