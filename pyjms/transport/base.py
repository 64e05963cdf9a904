"""What a transport is, and what a filter around one is.

A chain reads, outermost first: ResponseCorrelator, [failover,] WireFormatNegotiator,
InactivityMonitor, the transport that moves bytes. Commands go down by `oneway`, which
never waits, and come up by `listener.on_command`, which must not wait either: a message
costs no task switch on its way. Back-pressure is explicit: `congested` and `drained()`
downwards, `pause_reading()` and `resume_reading()` upwards. (ActiveMQ U4)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from pyjms.wire.openwire.commands import Command, Response

__all__ = ["RequestTransport", "Transport", "TransportFilter", "TransportListener"]


class TransportListener(Protocol):
    """Who hears what a transport brings. All calls come on the loop."""

    def on_command(self, command: Command) -> None:
        """Take a command. Must not block; an exception is a bug and ends the transport."""

    def on_exception(self, error: Exception) -> None:
        """Learn that the transport is dead. Called once, and not after `stop()`."""


class Transport(ABC):
    """A two-way channel of commands. Belongs to one loop; not for other threads."""

    listener: TransportListener

    @abstractmethod
    async def start(self) -> None:
        """Connect and get ready to send. Set `listener` first.

        Raises:
            ConnectionFailedException: nobody answers, or the peer is no OpenWire peer.
        """

    @abstractmethod
    async def stop(self) -> None:
        """Write what is queued, close, and wait for the background tasks. Idempotent."""

    @abstractmethod
    def oneway(self, command: Command) -> None:
        """Queue `command` for writing and return at once.

        Raises:
            ConnectionFailedException: the transport is stopped or dead.
            LocalProtocolError: the command cannot be written (a string too long ...).
        """

    def send_now(self) -> None:  # noqa: B027 - a hint; without a socket it means nothing
        """Have what is queued leave now, if the peer has sent something since the last time.

        A hint from who will wait for an answer; without it all leaves soon as well.
        """

    def put_off(self, function: Callable[[], object]) -> bool:
        """Call `function()` once what the commands that came with this one caused was sent.

        For what no peer waits for. False, and no call: nothing is gained by it here.
        """
        return False

    @property
    def inner(self) -> Transport:
        """The one to send through once it is started: without filters that only pass commands on.

        For `oneway`, `send_now`, `put_off`, `congested` and `drained`.
        """
        return self

    @property
    @abstractmethod
    def congested(self) -> bool:
        """Whether more is queued than should be: call `await drained()` before sending more."""

    @abstractmethod
    async def drained(self) -> None:
        """Wait until the queue is short again (or the transport dead). Cancellable."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Stop delivering commands soon; the peer feels the back-pressure. Nests not."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Deliver commands again."""

    @property
    @abstractmethod
    def remote_address(self) -> str:
        """The peer, as `tcp://host:port` or `vm://name#n`."""


class TransportFilter(Transport):
    """A transport around another: passes everything on until told otherwise."""

    def __init__(self, next_transport: Transport) -> None:
        self.next = next_transport
        next_transport.listener = self

    async def start(self) -> None:
        await self.next.start()

    async def stop(self) -> None:
        await self.next.stop()

    def oneway(self, command: Command) -> None:
        self.next.oneway(command)

    def send_now(self) -> None:
        self.next.send_now()

    def put_off(self, function: Callable[[], object]) -> bool:
        return self.next.put_off(function)

    @property
    def congested(self) -> bool:
        return self.next.congested

    async def drained(self) -> None:
        await self.next.drained()

    def pause_reading(self) -> None:
        self.next.pause_reading()

    def resume_reading(self) -> None:
        self.next.resume_reading()

    @property
    def remote_address(self) -> str:
        return self.next.remote_address

    def on_command(self, command: Command) -> None:
        self.listener.on_command(command)

    def on_exception(self, error: Exception) -> None:
        self.listener.on_exception(error)


class RequestTransport(TransportFilter, ABC):
    """The outermost filter: numbers commands and matches responses (ResponseCorrelator)."""

    @abstractmethod
    async def request(self, command: Command, timeout: float | None = None) -> Response:
        """Send `command` and wait for its response; at most `timeout` seconds.

        Cancelling stops the wait, not the command.

        Raises:
            JMSException: the broker refused; the class its answer names.
            RequestTimeoutException: time ran out.
            ConnectionFailedException: the transport died meanwhile.
        """

    @abstractmethod
    def request_soon(
        self, command: Command, on_response: Callable[[Response | Exception], None]
    ) -> None:
        """Send `command`; later call `on_response` on the loop, with the answer or the failure."""
