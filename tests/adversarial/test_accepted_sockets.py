"""Sockets that are reset before they are accepted, and clients that stay silent."""

from __future__ import annotations

import errno
import logging
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketListener, SocketStream
from anyio.streams.stapled import MultiListener

from pyjms.testing.clock import VirtualClock
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import (
    ConnectionId,
    ConnectionInfo,
    KeepAliveInfo,
    Response,
    SessionId,
    SessionInfo,
)
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.settings import WireFormatSettings
from pyjms_broker.service import BrokerService
from tests.kit.brokers.openwire_attacker import Connect
from tests.kit.values import present

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER: closing sends a reset."""


def reset_sockets(service: BrokerService, count: int) -> None:
    """Connect and reset, while the broker, which shares our event loop, accepts nothing."""
    uri = TransportURI.parse(service.connectors[0].connect_uri)
    assert uri.host is not None and uri.port is not None
    made = [socket.create_connection((uri.host, uri.port)) for _ in range(count)]
    for each in made:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        each.close()


async def check_resets(
    service: BrokerService,
    serves: Callable[[], Any],
    gone: Callable[[], Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    reset_sockets(service, 60)
    await serves()
    await gone()
    noticed = [r for r in caplog.records if r.exc_info or r.levelno >= logging.WARNING]
    assert noticed == []
    assert not service.connectors[0].connections


async def test_sockets_reset_before_they_are_accepted(
    service: BrokerService,
    serves: Callable[[], Any],
    gone: Callable[[], Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await check_resets(service, serves, gone, caplog)


@pytest.mark.skipif(sys.platform == "win32", reason="uvloop does not exist there")
@pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])
async def test_sockets_reset_before_they_are_accepted_by_uvloop(
    anyio_backend: Any,
    service: BrokerService,
    serves: Callable[[], Any],
    gone: Callable[[], Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    await check_resets(service, serves, gone, caplog)


class ResettingListener(SocketListener):
    """Accepts as another listener does, after failing as operating systems do for reset sockets."""

    def __init__(self, listener: SocketListener, failures: Sequence[Exception], dead: int) -> None:
        self.listener = listener
        self.failures = list(failures)
        self.dead = dead
        """How many connections are closed when they are returned, as a loop may do it."""

    @property
    def _raw_socket(self) -> socket.socket:
        return self.listener.extra(SocketAttribute.raw_socket)

    async def accept(self) -> SocketStream:
        if self.failures:
            raise self.failures.pop(0)
        stream = await self.listener.accept()
        if self.dead:
            self.dead -= 1
            await anyio.aclose_forcefully(stream)
        return stream

    async def aclose(self) -> None:
        await self.listener.aclose()


def broken(number: int) -> Exception:
    """Return the error of trio's accept, as anyio raises it."""
    error = anyio.BrokenResourceError()
    error.__cause__ = OSError(number, "from the socket")
    return error


@pytest.fixture
def resetting(monkeypatch: pytest.MonkeyPatch) -> list[ResettingListener]:
    made: list[ResettingListener] = []
    create = anyio.create_tcp_listener
    numbers = (errno.ECONNABORTED, errno.ENOTCONN, errno.EINVAL, errno.EPROTO)
    failures = [*(OSError(n, "reset") for n in numbers), *map(broken, numbers)]

    async def create_listener(**options: Any) -> MultiListener[SocketStream]:
        listener: Any
        (listener,) = (await create(**options)).listeners
        made.append(ResettingListener(listener, failures, dead=3))
        return MultiListener(made)

    monkeypatch.setattr(anyio, "create_tcp_listener", create_listener)
    return made


async def test_errors_of_reset_sockets_do_not_delay_other_clients(
    resetting: list[ResettingListener],
    service: BrokerService,
    serves: Callable[[], Any],
    gone: Callable[[], Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with VirtualClock():  # whose time stands still: a pause would last for ever
        uri = TransportURI.parse(service.connectors[0].connect_uri)
        for _ in range(3):
            await (await anyio.connect_tcp(uri.host, present(uri.port))).aclose()
        await serves()
        await gone()
    assert resetting[0].failures == [] and resetting[0].dead == 0
    noticed = [r for r in caplog.records if r.exc_info or r.levelno >= logging.WARNING]
    assert noticed == []


async def test_a_negotiated_client_without_keep_alives_has_to_identify_itself(
    service: BrokerService, peer: Connect
) -> None:
    service.connection_info_timeout = 20.0
    async with VirtualClock() as clock:
        silent, known, monitored = await peer("a"), await peer("b"), await peer("c")
        for each in (silent, known):
            each.format = OpenWireFormat(WireFormatSettings(max_inactivity_duration=0))
            await each.negotiate()
        await known.ask(ConnectionInfo(ConnectionId("b"), "b"))
        await monitored.negotiate()
        await silent.tell(KeepAliveInfo(response_required=True))
        await silent.heard_of(KeepAliveInfo)  # so the broker has negotiated, too
        await clock.advance(20)
        await silent.closed()
        assert type(await known.ask(SessionInfo(SessionId("b", 1)))) is Response
        assert type(await monitored.ask(ConnectionInfo(ConnectionId("c"), "c"))) is Response
