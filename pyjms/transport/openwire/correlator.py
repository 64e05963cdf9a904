"""The outermost filter of a client: it numbers commands and matches responses to requests.

One counter numbers every command, from 1. A command that requires a response gets exactly
one outcome: the peer's response, or the transport's failure. (activemq-edges U4;
openwire-encoding 10)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from anyio.lowlevel import checkpoint

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms._wakeup import Waiter
from pyjms.errors import ConnectionFailedException, RequestTimeoutException
from pyjms.transport.base import Channel, Transport, TransportFilter
from pyjms.transport.openwire.negotiator import WireFormatNegotiator
from pyjms.transport.openwire.remote_errors import from_throwable
from pyjms.wire.openwire.commands import Command, ExceptionResponse, Response
from pyjms.wire.openwire.schema import CURRENT_VERSION

__all__ = ["Correlator", "RequestChannel", "RequestTransport", "ResponseCorrelator"]

logger: Final = get_logger(__name__)

_LAST_ID = 0x7FFF_FFFF  # command ids are i32 on the wire; the next id is 1 again


class RequestChannel(Channel[Command], ABC):
    """A channel that can send requests."""

    async def request(self, command: Command, timeout: float | None = None) -> Response:
        """Send `command` and wait at most `timeout` seconds for its response; None: for ever.

        Cancelling ends the wait; the command stays sent.

        Raises:
            JMSException: the broker refused the command; the class depends on its error.
            RequestTimeoutException: no response arrived in time.
            ConnectionFailedException: the transport failed before the response arrived.
        """
        waiter = Waiter()
        outcomes: list[Response | Exception] = []

        def complete(outcome: Response | Exception) -> None:
            outcomes.append(outcome)
            waiter.wake()

        self.request_soon(command, complete)
        self.flush()
        try:
            if outcomes:
                await checkpoint()  # let other tasks run even without a wait
            else:
                await _clock.wait(waiter, timeout)
        finally:
            if not outcomes:
                self.abandon(command)
        if not outcomes:
            raise RequestTimeoutException(
                f"No response from the broker to {type(command).__name__} within {timeout:g} s",
                hint=f"the transport to {self.remote_address} is open; the broker may be busy",
            )
        if isinstance(outcomes[0], Exception):
            raise outcomes[0]
        return outcomes[0]

    @abstractmethod
    def request_soon(
        self, command: Command, on_response: Callable[[Response | Exception], None]
    ) -> None:
        """Send `command` and return; call `on_response` on the loop with the outcome, once."""

    @abstractmethod
    def abandon(self, command: Command) -> None:
        """Forget the request of `command`, whose caller no longer waits for the response."""


class RequestTransport(TransportFilter[Command], RequestChannel, ABC):
    """A transport that can send requests, as the factories of client transports return it."""

    @property
    def wire_version(self) -> int:
        """The OpenWire version agreed on with the peer; the current one if none was negotiated."""
        return CURRENT_VERSION

    @property
    def max_frame_size(self) -> int | None:
        """Bytes of the largest frame that the peer may send; None: there are no frames, or no peer.

        That of the transport to the current peer, where there is one after the other.
        """
        current = getattr(self, "next", None)
        return current.max_frame_size if isinstance(current, RequestTransport) else None


class Correlator(RequestChannel):
    """Numbers the commands of a channel and matches responses by the numbers."""

    def __init__(self, channel: Channel[Command]) -> None:
        self._channel = channel
        self._outbound = channel
        self._last_id = 0
        self._pending: dict[int, Callable[[Response | Exception], None]] = {}
        self._error: Exception | None = None

    async def start(self) -> None:
        await self._channel.start()

    async def stop(self) -> None:
        try:
            await self._channel.stop()
        finally:
            self.fail_pending(
                ConnectionFailedException(f"The transport to {self.remote_address} was stopped")
            )

    @property
    def remote_address(self) -> str:
        return self._channel.remote_address

    @property
    def congested(self) -> bool:
        return self._outbound.congested

    async def drained(self) -> None:
        await self._outbound.drained()

    def flush(self) -> None:
        self._outbound.flush()

    def oneway(self, command: Command) -> None:
        number = self._last_id = self._last_id + 1 if self._last_id < _LAST_ID else 1
        command.command_id = number
        command.response_required = False
        self._outbound.oneway(command)

    def request_soon(
        self, command: Command, on_response: Callable[[Response | Exception], None]
    ) -> None:
        if self._error is not None:
            raise _fresh(self._error)
        number = self._last_id = self._last_id + 1 if self._last_id < _LAST_ID else 1
        command.command_id = number
        command.response_required = True
        self._pending[number] = on_response
        try:
            self._outbound.oneway(command)
        except Exception:
            self._pending.pop(number, None)
            raise

    def abandon(self, command: Command) -> None:
        self._pending.pop(command.command_id, None)

    def on_command(self, command: Command) -> None:
        """Pass a response to its request, and any other command to the listener."""
        if not isinstance(command, Response):
            self.listener.on_command(command)
            return
        on_response = self._pending.pop(command.correlation_id, None)
        if on_response is None:
            logger.debug("No request waits for response %d", command.correlation_id)
        elif isinstance(command, ExceptionResponse):
            on_response(from_throwable(command.exception))
        else:
            on_response(command)

    def fail_pending(self, error: Exception) -> None:
        """Fail the requests that have no response yet, and all later ones."""
        self._error = self._error or error
        pending, self._pending = self._pending, {}
        for on_response in pending.values():
            on_response(_fresh(error))


class ResponseCorrelator(Correlator, RequestTransport):
    """The correlator as a transport filter. ActiveMQ: ResponseCorrelator."""

    def __init__(self, next_transport: Transport[Command]) -> None:
        RequestTransport.__init__(self, next_transport)
        Correlator.__init__(self, next_transport)

    async def start(self) -> None:
        await super().start()
        self._outbound = self.next.outbound

    @property
    def wire_version(self) -> int:
        negotiator = self.next
        if isinstance(negotiator, WireFormatNegotiator):
            settings = negotiator.wire_format.negotiated
            if settings is not None:
                return settings.version
        return CURRENT_VERSION

    @property
    def max_frame_size(self) -> int | None:
        negotiator = self.next
        if isinstance(negotiator, WireFormatNegotiator):
            return negotiator.wire_format.max_frame_size
        return None

    def on_exception(self, error: Exception) -> None:
        self.fail_pending(error)
        self.listener.on_exception(error)


def _fresh(error: Exception) -> Exception:
    """Return a new exception for one caller: raising one object twice would mix tracebacks."""
    fresh = ConnectionFailedException(str(error) or type(error).__name__)
    fresh.linked_exception = fresh.__cause__ = error
    return fresh
