"""The handshake of OpenWire: both sides send WireFormatInfo before anything else.

`start()` returns when the peer's WireFormatInfo has been received and the common settings are in
effect. Commands sent before are queued here and sent immediately afterwards. Then the filter is no
longer needed: it connects the transport below directly with the listener, and `outbound` bypasses
it.

    state       ends with               effect
    waiting     WireFormatInfo          ready: queued commands are sent, start() returns
    waiting     another command         failed: start() raises RemoteProtocolError
    waiting     timeout, failure        failed: start() raises; the listener is not called
    ready       failure below           the listener's on_exception

(activemq-edges I1; openwire-encoding 6)
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from pyjms.errors import ConnectionFailedException, RemoteProtocolError
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import with_cleanup
from pyjms.transport.base import Transport, TransportFilter
from pyjms.wire.openwire.commands import Command, WireFormatInfo
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.settings import NegotiatedSettings

_MAGIC = b"ActiveMQ"
_MAX_WAITING = 1000  # commands sent before the handshake is complete; a client sends only a few


class WireFormatNegotiator(TransportFilter[Command]):
    """Agrees with the peer on version, encoding, frame size and keep-alive."""

    _ready = False
    _error: Exception | None = None

    def __init__(
        self,
        next_transport: Transport[Command],
        wire_format: OpenWireFormat,
        *,
        timeout: float | None,
        minimum_version: int = 0,
        on_negotiated: Callable[[NegotiatedSettings], None] | None = None,
    ) -> None:
        super().__init__(next_transport)
        self.wire_format = wire_format
        self._timeout = timeout
        self._minimum_version = minimum_version
        self._on_negotiated = on_negotiated
        self._waiting: list[Command] = []
        self._decided = anyio.Event()
        self._has_started = False

    async def start(self) -> None:
        """Start the transport below, send our WireFormatInfo and wait for the peer's.

        Raises:
            ConnectionFailedException: it did not arrive in time, or the connection was lost.
            RemoteProtocolError: the peer speaks another protocol, or too old a version.
        """
        await self.next.start()
        await with_cleanup(self._agree, self._stop_without_agreement)

    async def _agree(self) -> None:
        if self._error is None:
            self.next.oneway(self.wire_format.local_info())
        with _clock.timeout(self._timeout):
            await self._decided.wait()
        if self._error is not None:
            raise self._error
        if not self._ready:
            raise ConnectionFailedException(
                "Wire format negotiation timeout: peer did not send his wire format.",
                hint=f"is {self.remote_address} an OpenWire port?",
            )
        self._has_started = True

    async def _stop_without_agreement(self) -> None:
        if not self._has_started:
            with anyio.CancelScope(shield=True):
                await self.next.stop()

    @property
    def max_frame_size(self) -> int | None:
        return self.wire_format.max_frame_size

    @property
    def outbound(self) -> Transport[Command]:
        return self.next.outbound if self._ready else self

    def oneway(self, command: Command) -> None:
        if self._ready:
            self.next.oneway(command)
        elif self._error is not None:
            raise ConnectionFailedException(str(self._error)) from self._error
        elif len(self._waiting) >= _MAX_WAITING:
            raise ConnectionFailedException(
                f"{self.remote_address} has not sent its WireFormatInfo yet, and "
                f"{_MAX_WAITING} commands are queued until it does"
            )
        else:
            self._waiting.append(command)

    def on_command(self, command: Command) -> None:
        if self._ready:
            self.listener.on_command(command)
        elif isinstance(command, WireFormatInfo):
            self._negotiate(command)
        else:
            self._refuse(
                RemoteProtocolError(
                    f"{self.remote_address} sent {type(command).__name__} before its wire format"
                )
            )

    def on_exception(self, error: Exception) -> None:
        self._error = self._error or error
        if self._decided.is_set():
            self.listener.on_exception(error)
        else:
            self._decided.set()  # start() raises the error; the listener is not called

    def _negotiate(self, info: WireFormatInfo) -> None:
        if info.magic != _MAGIC:
            self._refuse(RemoteProtocolError("Remote wire format magic is invalid"))
            return
        if info.version < self._minimum_version:
            self._refuse(
                RemoteProtocolError(
                    f"Remote wire format ({info.version}) is lower the minimum version required "
                    f"({self._minimum_version})"
                )
            )
            return
        if self.wire_format.negotiated is None:
            self.wire_format.negotiate(info)
        self.next.listener = self.listener  # received commands bypass this filter from now on
        settings = self.wire_format.negotiated
        if settings is not None and self._on_negotiated is not None:
            self._on_negotiated(settings)
        self._ready = True
        waiting, self._waiting = self._waiting, []
        for command in waiting:
            self.next.oneway(command)
        self._decided.set()

    def _refuse(self, error: RemoteProtocolError) -> None:
        self._error = self._error or error
        self._decided.set()
