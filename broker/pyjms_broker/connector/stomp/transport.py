"""The transport of a STOMP client, which carries commands for the broker's connection.

    connection of the broker (pyjms_broker/connector/openwire)    commands
    StompTransport, StompSession                                  commands <-> frames
    TcpTransport with StompFormat                                 frames <-> bytes

A STOMP client is thus treated like an OpenWire client, including limits and back-pressure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

import anyio

from pyjms import _clock
from pyjms._forwarding import DelegatedAttribute, delegated
from pyjms._wakeup import LoopHandle
from pyjms.errors import ConnectionFailedException
from pyjms.transport.base import Transport
from pyjms.transport.tcp import TcpTransport
from pyjms.wire.openwire.commands import Command, ShutdownInfo
from pyjms.wire.stomp.format import StompFormat
from pyjms.wire.stomp.frames import V1_0, Frame
from pyjms_broker.connector.stomp.handlers import HANDLERS
from pyjms_broker.connector.stomp.heart_beat import HeartBeat, Periods
from pyjms_broker.connector.stomp.options import StompOptions
from pyjms_broker.connector.stomp.session import StompSession

__all__ = ["StompTransport"]

_TCP: Final = attrgetter("_tcp")


class StompTransport(Transport[Command]):
    """The transport of one client. `connection_id` is the id of its JMS connection."""

    def __init__(
        self,
        tcp: TcpTransport[Frame],
        wire_format: StompFormat,
        options: StompOptions,
        connection_id: str,
    ) -> None:
        self._tcp = tcp
        self._format = wire_format
        self._options = options
        self._session = StompSession(self, connection_id, options.default_heart_beat, HANDLERS)
        self._heart_beat = HeartBeat(tcp)
        self._connected = anyio.Event()
        self._loop: LoopHandle
        tcp.listener = self

    async def start(self) -> None:
        """Start, and wait for the client's CONNECT.

        Raises:
            ConnectionFailedException: it did not come in time, or the handshake failed.
        """
        self._loop = LoopHandle()
        await self._tcp.start()
        timeout = self._options.connect_attempt_timeout
        with _clock.timeout(timeout):
            await self._connected.wait()
            return
        raise ConnectionFailedException(
            f"{self.remote_address}: no CONNECT arrived within {timeout:g} s",
            hint="transport.connectAttemptTimeout (ms) sets the limit",
        )

    async def stop(self) -> None:
        await self._heart_beat.stop()
        await self._tcp.stop()

    def oneway(self, command: Command) -> None:
        self._session.on_broker_command(command)

    def flush(self) -> None:
        self._tcp.flush()

    @property
    def congested(self) -> bool:
        return self._tcp.congested

    drained = delegated(Transport.drained, _TCP)
    pause_reading = delegated(Transport.pause_reading, _TCP)
    resume_reading = delegated(Transport.resume_reading, _TCP)
    remote_address = DelegatedAttribute[str](_TCP, read_only=True)
    peer_certificate = DelegatedAttribute[Mapping[str, Any] | None](_TCP, read_only=True)

    @property
    def notices_silence(self) -> bool:
        return True  # `start` limits the wait for CONNECT; afterwards the client's periods apply

    # from the TCP transport
    def on_command(self, frame: Frame) -> None:
        """Handle a frame of the client."""
        self._session.on_frame(frame)

    def on_exception(self, error: Exception) -> None:
        """Report to the listener that the connection has failed."""
        self._heart_beat.end()
        self.listener.on_exception(error)

    # from the session
    @property
    def version(self) -> str:
        """The client's version; 1.0 until one is agreed."""
        return self._format.version or V1_0

    @property
    def has_version(self) -> bool:
        """Whether a version has been agreed."""
        return self._format.version is not None

    def to_client(self, frame: Frame) -> None:
        """Send a frame.

        Raises:
            ConnectionFailedException: the connection has ended.
        """
        self._tcp.oneway(frame)

    def to_broker(self, command: Command) -> None:
        """Pass a command to the broker. Responses may arrive before this returns."""
        self.listener.on_command(command)

    def call_next(self, function: Callable[[], object]) -> None:
        """Call `function()` in the loop's next iteration."""
        self._loop.call_next(function)

    def connected(self, periods: Periods) -> None:
        """Start heart-beats, as the broker has accepted the client."""
        self._connected.set()
        self._heart_beat.start(periods, self._options.grace_multiplier)

    def close(self) -> None:
        """Close the connection, after writing what is queued."""
        self._connected.set()
        self.listener.on_command(ShutdownInfo())
