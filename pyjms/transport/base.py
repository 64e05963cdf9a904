"""Transports and the filters around them, generic over the command type.

A transport carries commands of one type `C` between two peers; if they travel as bytes, a wire
format (`pyjms.wire.format.WireFormat[C]`) converts them. This module and the TCP transport are
independent of a protocol: a protocol adds filters, as `pyjms.transport.openwire` does. The order
there, outermost first:

    ResponseCorrelator      numbers requests and matches responses to them
    WireFormatNegotiator    exchanges WireFormatInfo before anything else
    InactivityMonitor       sends KeepAliveInfo, detects a dead peer
    TcpTransport            sends and receives bytes, with an OpenWireFormat

Rules:

- Everything runs on one event loop; a transport is not thread-safe.
- Commands are sent by `oneway`, which never waits, and received by `listener.on_command`, which
  must not wait either: a message costs no task switch.
- Back-pressure is explicit. Downwards the sender checks `congested` and awaits `drain()`;
  upwards the receiver calls `pause_reading()` and `resume_reading()`.
- A transport fails once, and reports it in one way: by `listener.on_exception`, after the commands
  received before the failure, and never after `stop()`. From then on `oneway` raises.
- A filter that only passes commands down once it is started is bypassed: `outbound` is the
  transport through which the remaining filters send.

(activemq-edges U4)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

C = TypeVar("C")
C_contra = TypeVar("C_contra", contravariant=True)


class TransportListener(Protocol[C_contra]):
    """The receiver of a transport's commands and failure. All calls are made on the loop."""

    def on_command(self, command: C_contra) -> None:
        """Handle `command`. Must not block; an exception is a bug and ends the transport."""

    def on_exception(self, error: Exception) -> None:
        """Handle the transport's failure. Called once, and not after `stop()`."""


class Transport(Generic[C]):
    """A two-way channel of commands. Belongs to one loop; not thread-safe."""

    listener: TransportListener[C]
    """The receiver; set it before `start()`."""

    @abstractmethod
    async def start(self) -> None:
        """Connect and get ready to send. Set `listener` first.

        Raises:
            ConnectionFailedException: no connection, or the peer did not complete the handshake.
            RemoteProtocolError: the peer speaks another protocol.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Write what is queued, close, and wait for the background tasks. Idempotent."""

    @abstractmethod
    def oneway(self, command: C) -> None:
        """Queue `command` for writing and return at once.

        Raises:
            ConnectionFailedException: the transport is not started, stopped, or failed.
            LocalProtocolError: the command cannot be written (a string is too long ...).
        """

    runs_are_raw: bool = True
    """Whether `oneway_run` takes only messages that were received, with their bytes."""

    @property
    def run_room(self) -> int:
        """The bytes that `oneway_run` may queue before it is congested; 0: it queues nothing."""
        return 0

    def oneway_run(self, commands: Sequence[C]) -> int:
        """Queue the first of these commands as `oneway` would, in one step; return how many.

        It ends before one that needs `oneway`, which may raise, and once it is congested.
        """
        return 0

    def hold(self, command: C) -> None:
        """Queue `command` like `oneway`, but only to be sent with the next one, and then at once.

        For a command without effect of its own, such as the beginning of a transaction. A transport
        that cannot hold it back sends it.
        """
        self.oneway(command)

    def flush(self) -> None:
        """Send what is queued now, if the peer has sent something since the last send.

        A hint from a caller that is about to wait for a response. Without it, queued commands are
        sent at the end of the current loop turn.
        """

    @property
    @abstractmethod
    def congested(self) -> bool:
        """Whether more than the high-water mark is queued: await `drain()` before sending."""

    @abstractmethod
    async def drain(self) -> None:
        """Wait until the queue is below the low-water mark or the transport failed. Cancellable."""

    @property
    @abstractmethod
    def remote_address(self) -> str:
        """The peer's address, as `tcp://host:port` or `vm://name#n`."""

    @property
    def queued_bytes(self) -> int | None:
        """How many bytes wait to be sent; None: they are not counted."""
        return None

    def withdraw(self, command: C) -> bool:
        """Withdraw `command`, whose sender no longer waits in `drain`; return whether it was.

        False if it was sent or is queued for the peer. Only a transport that keeps commands while
        it has no peer can withdraw a command.
        """
        return False

    def defer(self, function: Callable[[], object]) -> bool:
        """Call `function()` after the responses to the current chunk of input have been sent.

        For work for which no peer waits. Returns False, and does not call the function, if no chunk
        is being processed, so that deferring has no advantage.
        """
        return False

    @property
    def outbound(self) -> Transport[C]:
        """The transport to send through once started, bypassing filters that only pass on.

        Valid for `oneway`, `oneway_run`, `hold`, `flush`, `defer`, `congested` and `drain`.
        """
        return self

    @property
    def queue(self) -> Transport[C]:
        """The transport that queues what is sent, once started.

        Valid for `flush`, `congested` and `drain`, which need none of the filters around it.
        """
        return self

    @abstractmethod
    def pause_reading(self) -> None:
        """Stop delivering commands, after the current one at the latest. Does not nest."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Deliver commands again."""

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        """The peer's verified TLS certificate as `ssl.SSLSocket.getpeercert` has it, or None."""
        return None

    @property
    def protocol(self) -> str:
        """The protocol that the peer speaks, if it is not that of the commands; empty: it is."""
        return ""

    @property
    def login(self) -> Any | None:
        """What the broker has found about a peer that has logged in before it names itself."""
        return None

    @property
    def notices_silence(self) -> bool:
        """Whether the transport detects a peer that has died without closing the connection."""
        return False

    @property
    def max_frame_size(self) -> int | None:
        """Bytes of the largest frame that the peer may send; None: no frames, or no peer."""
        return None

    @property
    def steals_links(self) -> bool:
        """Whether the peer's protocol lets a client take over its id from a former connection."""
        return False

    def link_of(self, member: Any) -> Any | None:
        """Return what the peer's protocol has of a consumer or producer with credit, by its id."""
        return None

    def on_destination_removed(self, consumer_id: Any) -> None:
        """Tell the peer, if its protocol can, that the destination of a consumer was removed."""

    def on_release(self, refused: Collection[Any], error: Exception | None) -> None:
        """Pass on the last commands of a lost client, whose state the listener removes next.

        Args:
            refused: the messages of the client that were never accepted.
            error: why the client is lost; None: it has disconnected, or the listener ends it.
        """


class TransportFilter(Transport[C]):
    """A transport around another one. By default it passes on everything in both directions."""

    def __init__(self, next_transport: Transport[C]) -> None:
        self.next = next_transport
        next_transport.listener = self

    async def start(self) -> None:
        await self.next.start()

    async def stop(self) -> None:
        await self.next.stop()

    def oneway(self, command: C) -> None:
        self.next.oneway(command)

    def flush(self) -> None:
        self.next.flush()

    def withdraw(self, command: C) -> bool:
        return self.next.withdraw(command)

    def defer(self, function: Callable[[], object]) -> bool:
        return self.next.defer(function)

    @property
    def queued_bytes(self) -> int | None:
        return self.next.queued_bytes

    @property
    def congested(self) -> bool:
        return self.next.congested

    async def drain(self) -> None:
        await self.next.drain()

    @property
    def queue(self) -> Transport[C]:
        return self.next.queue

    def pause_reading(self) -> None:
        self.next.pause_reading()

    def resume_reading(self) -> None:
        self.next.resume_reading()

    @property
    def remote_address(self) -> str:
        return self.next.remote_address

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        return self.next.peer_certificate

    @property
    def protocol(self) -> str:
        return self.next.protocol

    @property
    def login(self) -> Any | None:
        return self.next.login

    @property
    def notices_silence(self) -> bool:
        return self.next.notices_silence

    @property
    def max_frame_size(self) -> int | None:
        return self.next.max_frame_size

    @property
    def steals_links(self) -> bool:
        return self.next.steals_links

    def on_release(self, refused: Collection[Any], error: Exception | None) -> None:
        self.next.on_release(refused, error)

    def on_command(self, command: C) -> None:
        """Pass a command from the peer to the listener."""
        self.listener.on_command(command)

    def on_exception(self, error: Exception) -> None:
        """Pass the failure of the transport below to the listener."""
        self.listener.on_exception(error)
