"""The sessions of clients of protocols other than OpenWire.

    connection of the broker (pyjms_broker/connector/openwire)    commands
    ClientSession                                                 commands <-> frames
    TcpTransport with the format of the protocol                  frames <-> bytes

A session is the transport of the broker's connection: a client of any protocol is thus treated like
one of OpenWire, including limits and back-pressure.

The connection does not count what a session answers by itself, such as pings. If the client does
not read these answers, the session reads no further until it has.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeAlias, TypeVar

import anyio

from pyjms.errors import ConnectionFailedException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, LoopHandle, end_tasks, spawn
from pyjms.transport.base import Transport
from pyjms.transport.tcp import HIGH_WATER, TcpTransport, accepted_tcp
from pyjms.wire.format import WireFormat
from pyjms.wire.limits import UnfinishedFrame
from pyjms.wire.openwire.commands import (
    BaseCommand,
    Command,
    ConnectionId,
    ExceptionResponse,
    ProducerId,
    Response,
    SessionId,
    ShutdownInfo,
    Throwable,
)
from pyjms_broker.connector.openwire.connection import BrokerConnection

if TYPE_CHECKING:
    from pyjms_broker.connector.base import BrokerHost
    from pyjms_broker.connector.client_connector import Accepted, ClientOptions

F = TypeVar("F")

_MOST_UNREAD: Final = 64 * 1024
"""Bytes of answers for a client that does not read, on top of what was queued before."""
Done: TypeAlias = Callable[[], object]
Failed: TypeAlias = Callable[..., object]
"""Called with what `on_refusal` of the session makes of the broker's error."""


class State(Enum):
    """The state of a client."""

    NEW = auto()
    CONNECTED = auto()
    DISCONNECTING = auto()
    CLOSED = auto()


class ClientFormat(WireFormat[F], Protocol[F]):
    """The codec of a client's connection."""

    unfinished: UnfinishedFrame | None
    """Counts large incomplete frames."""

    def discard(self) -> None:
        """Drop the part of an incomplete frame, because nothing more is received."""


class ClientSession(Transport[Command], Generic[F]):
    """The transport of one client for the broker's connection. Use it on the broker's event loop.

    A subclass sets `identified` when the broker has accepted the client.

    Args:
        accepted: the connection.
        wire_format: its codec.
        options: the options of the connector.
        host: the broker.
        connection_id: the id of the client's JMS connection.
    """

    FIRST: ClassVar[str]
    """How people call the frame by which clients identify themselves."""

    def __init__(
        self,
        accepted: Accepted,
        wire_format: ClientFormat[F],
        options: ClientOptions,
        host: BrokerHost,
        connection_id: str,
    ) -> None:
        self.host = host
        unfinished = wire_format.unfinished = UnfinishedFrame(host.frame_budget)
        self._tcp: TcpTransport[F] = accepted_tcp(
            accepted.stream,
            wire_format,
            options.tcp,
            scheme=accepted.scheme,
            timeout=options.connect_attempt_timeout,
            unfinished=unfinished,
            tls=accepted.tls,
            layered=accepted.layered,
            discard=wire_format.discard,
            unsent_budget=host.unsent_budget,
        )
        self.to_client: Final = self._tcp.oneway
        """Sends a frame. Raises ConnectionFailedException if the connection has ended."""
        self._tcp.listener = self
        self._tcp.list_receiver = self.on_frames
        self._timeout = options.connect_attempt_timeout
        self._loop: LoopHandle
        self.connection: BrokerConnection
        """The client's connection in the broker."""
        self.identified = anyio.Event()
        """Set when the broker has accepted the client, or the session is closed."""
        self.keep_alive: BackgroundTask | None = None
        """Notices that the client is silent; ends with the session."""
        self.status = State.NEW
        self.client_id = ""
        self.connection_id = ConnectionId(connection_id)
        self.session_id = SessionId(connection_id, 1)
        self.producer_id = ProducerId(connection_id, 1, 1)
        self.numbers = itertools.count(1)
        """The counter of messages, consumers and whatever else the session numbers."""
        self.command_ids = itertools.count(1)
        self.requests: dict[int, tuple[Done | None, Failed | None]] = {}
        """What to call with the broker's responses, by the numbers of the commands."""
        self.is_paused = False
        """Whether the broker wants nothing to be read from the client for now."""
        self._draining: BackgroundTask | None = None
        self._most_queued = 0

    async def start(self) -> None:
        """Start, and wait until the client has identified itself."""
        assert isinstance(self.listener, BrokerConnection)
        self.connection = self.listener
        self._loop = LoopHandle()
        await self._tcp.start()
        with _clock.timeout(self._timeout):
            await self.identified.wait()
            return
        raise ConnectionFailedException(
            f"{self.remote_address}: no {self.FIRST} arrived within {self._timeout:g} s",
            hint="transport.connectAttemptTimeout (ms) sets the limit",
        )

    async def stop(self) -> None:
        await end_tasks(self.keep_alive, self._draining)
        await self._tcp.stop()

    def on_exception(self, error: Exception) -> None:
        """Report to the listener that the connection has failed."""
        if self.keep_alive is not None:
            self.keep_alive.cancel()
        self.listener.on_exception(error)

    def close(self) -> None:
        """Close the connection, after writing what is queued. Idempotent."""
        if self.status is not State.CLOSED:
            self.status = State.CLOSED
            self.identified.set()
            self.to_broker(ShutdownInfo())

    # from the client
    @abstractmethod
    def on_command(self, frame: F) -> None:
        """Handle a frame of the client."""

    def on_frames(self, frames: deque[F]) -> None:
        """Handle frames, taking them from the left, until there are none or reading is paused."""
        while frames and not self.is_paused:
            self.on_command(frames.popleft())
        self.limit_unread()

    def limit_unread(self) -> None:
        """Read no further for now if the client does not read what it is answered.

        Since it is congested, the broker sends it no messages: what is added are answers.
        """
        queued = self._tcp.queued_bytes or 0
        if queued <= HIGH_WATER:
            self._most_queued = 0
        elif not self._most_queued:
            self._most_queued = queued + _MOST_UNREAD
        elif self._draining is None and queued > self._most_queued:
            self._tcp.pause_reading()
            name = f"broker {self.remote_address} waits for the client to read"
            self._draining = spawn(self._wait_until_drained, name=name)

    # to the broker
    def to_broker(self, command: Command) -> None:
        """Pass a command to the broker. Responses may arrive before this returns."""
        self.listener.on_command(command)

    def request(
        self, command: BaseCommand, done: Done | None = None, failed: Failed | None = None
    ) -> None:
        """Send a command to the broker that gets a response, for which one of both is called."""
        command.command_id = number = next(self.command_ids)
        command.response_required = True
        self.requests[number] = (done, failed)
        self.to_broker(command)

    def on_response(self, response: Response) -> None:
        """Call what waits for a response of the broker."""
        request = self.requests.pop(response.correlation_id, None)
        if request is None:
            return
        done, failed = request
        if isinstance(response, ExceptionResponse):
            self.on_refusal(response.exception, failed)
        elif done is not None:
            done()

    def on_refusal(self, error: Throwable | None, failed: Failed | None) -> None:
        """Tell that the broker has refused a request; None: nothing waits for that."""

    def call_next(self, later: Callable[[], object]) -> None:
        """Call a function in the next turn of the event loop.

        The broker accepts no acknowledgement while it is dispatching, for example.
        """
        self._loop.call_next(later)

    # to the client
    async def _wait_until_drained(self) -> None:
        await self._tcp.drain()
        self._draining = None
        if not self.is_paused:
            self._tcp.resume_reading()

    def flush(self) -> None:
        self._tcp.flush()

    def defer(self, function: Callable[[], object]) -> bool:
        return self._tcp.defer(function)

    @property
    def congested(self) -> bool:
        return self._tcp.congested

    @property
    def queued_bytes(self) -> int | None:
        return self._tcp.queued_bytes

    async def drain(self) -> None:
        await self._tcp.drain()

    def pause_reading(self) -> None:
        self.is_paused = True
        self._tcp.pause_reading()

    def resume_reading(self) -> None:
        self.is_paused = False
        if self._draining is None:
            self._tcp.resume_reading()

    @property
    def remote_address(self) -> str:
        return self._tcp.remote_address

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        return self._tcp.peer_certificate

    @property
    def notices_silence(self) -> bool:
        return True  # `start` limits the first wait; afterwards the protocol's keep-alive does
