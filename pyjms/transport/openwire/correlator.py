"""The outermost filter of a client: it numbers commands and matches responses to requests.

One counter numbers every command, from 1. A command that requires a response gets exactly
one outcome: the peer's response, or the transport's failure. (activemq-edges U4;
openwire-encoding 10)

An exception that a broker sends becomes an exception of `pyjms.errors`, by its Java class name:
ActiveMQ 5 sends `javax.jms` names, ActiveMQ 6 `jakarta.jms`. An unknown class becomes a plain
JMSException with the same text. (openwire-encoding 5 and 14)

`ReconnectingTransport` is the interface of transports that reconnect by themselves.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from anyio.lowlevel import checkpoint

from pyjms import errors
from pyjms.errors import (
    ConnectionFailedException,
    JMSException,
    RequestTimeoutException,
    XAException,
)
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import Waiter
from pyjms.runtime.logging import get_logger
from pyjms.transport.base import Transport, TransportFilter
from pyjms.transport.openwire.negotiator import WireFormatNegotiator
from pyjms.wire.openwire.commands import Command, ExceptionResponse, Response, Throwable
from pyjms.wire.openwire.schema import CURRENT_VERSION

logger: Final = get_logger(__name__)

_JMS: tuple[type[JMSException], ...] = (
    errors.IllegalStateException,
    errors.InvalidClientIDException,
    errors.InvalidDestinationException,
    errors.InvalidSelectorException,
    JMSException,
    errors.JMSSecurityException,
    errors.MessageEOFException,
    errors.MessageFormatException,
    errors.MessageNotReadableException,
    errors.MessageNotWriteableException,
    errors.ResourceAllocationException,
    errors.TransactionInProgressException,
    errors.TransactionRolledBackException,
)
_CLASSES: dict[str, type[JMSException]] = {
    **{f"{at}.jms.{kind.__name__}": kind for at in ("javax", "jakarta") for kind in _JMS},
    "java.lang.SecurityException": errors.JMSSecurityException,
    "java.lang.IllegalStateException": errors.IllegalStateException,
    "java.lang.UnsupportedOperationException": errors.UnsupportedOperationException,
    "javax.transaction.xa.XAException": XAException,
    "org.apache.activemq.ConfigurationException": errors.ConfigurationException,
    "org.apache.activemq.ConnectionClosedException": errors.ConnectionClosedException,
    "org.apache.activemq.DestinationDoesNotExistException": (
        errors.DestinationDoesNotExistException
    ),
    "org.apache.activemq.transport.RequestTimedOutIOException": errors.RequestTimeoutException,
}
_XA_CODE = re.compile(r"xaErrorCode:(-?\d+)")
_MAX_CAUSES = 10  # a limit, because the peer determines the length of the chain


def from_throwable(throwable: Throwable | None) -> JMSException:
    """Return the exception for `throwable`; its causes are chained as `linked_exception`."""
    return _build(throwable, _MAX_CAUSES)


def _build(throwable: Throwable | None, causes: int) -> JMSException:
    if throwable is None:
        return JMSException("The broker refused the command without giving a reason")
    text = throwable.message or ""
    kind = _CLASSES.get(throwable.class_name or "")
    if kind is None:
        error = JMSException(text or str(throwable.class_name))
    elif kind is XAException:
        code = _XA_CODE.search(text)
        error = XAException(text, xa_error_code=int(code.group(1)) if code else 0)
    else:
        error = kind(text)
    if throwable.cause is not None and causes > 0:
        error.linked_exception = error.__cause__ = _build(throwable.cause, causes - 1)
    return error


OpenWireTransport = Transport[Command]

_LAST_ID = 0x7FFF_FFFF  # command ids are i32 on the wire; the next id is 1 again


class RequestTransport(TransportFilter[Command]):
    """A transport that can send requests, as the factories of client transports return it."""

    @property
    def wire_version(self) -> int:
        """The OpenWire version agreed on with the peer; the current one if none was negotiated."""
        return CURRENT_VERSION

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
            elif timeout is None:
                await waiter.wait()
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

    def describe_arrivals(self) -> str:
        """Return what has arrived in place of an awaited response; "" if that is unknown."""
        return ""

    @abstractmethod
    def request_soon(
        self, command: Command, on_response: Callable[[Response | Exception], None]
    ) -> None:
        """Send `command` and return; call `on_response` on the loop with the outcome, once."""

    @abstractmethod
    def abandon(self, command: Command) -> None:
        """Forget the request of `command`, whose caller no longer waits for the response."""


class ResponseCorrelator(RequestTransport):
    """Numbers the commands of a transport and matches responses by the numbers.

    ActiveMQ: ResponseCorrelator.
    """

    def __init__(self, next_transport: Transport[Command]) -> None:
        super().__init__(next_transport)
        self._outbound = next_transport
        self._last_id = 0
        self._pending: dict[int, Callable[[Response | Exception], None]] = {}
        self._error: Exception | None = None
        self._unexpected = 0
        self._is_paused = False

    async def start(self) -> None:
        await self.next.start()
        self._outbound = self.next.outbound

    async def stop(self) -> None:
        try:
            await self.next.stop()
        finally:
            self.fail_pending(stop_error(self.remote_address))

    @property
    def wire_version(self) -> int:
        negotiator = self.next
        if isinstance(negotiator, WireFormatNegotiator):
            settings = negotiator.wire_format.negotiated
            if settings is not None:
                return settings.version
        return CURRENT_VERSION

    def describe_arrivals(self) -> str:
        negotiator = self.next
        frame = 0
        if isinstance(negotiator, WireFormatNegotiator):
            frame = negotiator.wire_format.incomplete_frame
        if frame:
            return f"a frame of {frame} bytes has not arrived whole"
        if self._unexpected:
            return f"it answered {self._unexpected} commands that nobody has sent"
        return "it sent nothing that answers it"

    @property
    def congested(self) -> bool:
        return self._outbound.congested

    async def drain(self) -> None:
        await self._outbound.drain()

    def flush(self) -> None:
        self._outbound.flush()

    def oneway(self, command: Command) -> None:
        number = self._last_id = self._last_id + 1 if self._last_id < _LAST_ID else 1
        command.command_id = number
        command.response_required = False
        self._outbound.oneway(command)

    def hold(self, command: Command) -> None:
        number = self._last_id = self._last_id + 1 if self._last_id < _LAST_ID else 1
        command.command_id = number
        command.response_required = False
        self._outbound.hold(command)

    def request_soon(
        self, command: Command, on_response: Callable[[Response | Exception], None]
    ) -> None:
        if self._error is not None:
            raise fresh_error(self._error)
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

    def pause_reading(self) -> None:
        self._is_paused = True
        self.next.pause_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        self.next.resume_reading()

    def on_commands(self, commands: deque[Command]) -> None:
        """Pass commands on, from the left, until there are none or reading is paused."""
        listener = self.listener
        while commands:
            command = commands.popleft()
            if isinstance(command, Response):
                self.on_command(command)
            else:
                listener.on_command(command)
            if self._is_paused:
                return

    def on_command(self, command: Command) -> None:
        """Pass a response to its request, and any other command to the listener."""
        if not isinstance(command, Response):
            self.listener.on_command(command)
            return
        on_response = self._pending.pop(command.correlation_id, None)
        if on_response is None:
            self._unexpected += 1
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
            on_response(fresh_error(error))

    def on_exception(self, error: Exception) -> None:
        self.fail_pending(error)
        self.listener.on_exception(error)


def fresh_error(error: Exception) -> ConnectionFailedException:
    """Return a new exception for one caller, whose cause is `error`.

    Raising one object twice would mix tracebacks.
    """
    fresh = ConnectionFailedException(str(error) or type(error).__name__)
    fresh.linked_exception = fresh.__cause__ = error
    return fresh


def stop_error(address: str) -> ConnectionFailedException:
    """Return the exception of a send through a transport that was stopped."""
    return ConnectionFailedException(f"The transport to {address} was stopped")


class InterruptionListener(Protocol):
    """The receiver of interruptions. Both methods are called on the loop and must not block."""

    def transport_interrupted(self, error: Exception) -> None:
        """Handle the loss of the peer, because of `error`. ActiveMQ: transportInterupted."""

    def transport_resumed(self) -> None:
        """Handle the connection to a new peer. ActiveMQ: transportResumed."""


class InterruptionListeners:
    """Passes interruptions on to any number of listeners, whose exceptions are logged."""

    def __init__(self) -> None:
        self._listeners: list[InterruptionListener] = []

    def add(self, listener: InterruptionListener) -> None:
        """Call `listener` at each interruption and resumption."""
        self._listeners.append(listener)

    def remove(self, listener: InterruptionListener) -> None:
        """Call `listener` no more; does nothing if it was not added."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def transport_interrupted(self, error: Exception) -> None:
        """Tell all of them."""
        for listener in list(self._listeners):
            _call(listener.transport_interrupted, error)

    def transport_resumed(self) -> None:
        """Tell all of them."""
        for listener in list(self._listeners):
            _call(listener.transport_resumed)


def _call(function: Callable[..., None], *arguments: object) -> None:
    try:
        function(*arguments)
    except Exception:
        logger.exception("A transport listener failed")


_NOBODY: Final[InterruptionListener | None] = None
"""mypyc leaves out a literal None as the default of an attribute whose type is a protocol."""


class ReconnectingTransport(RequestTransport):
    """A transport that survives the loss of its peer.

    `oneway` does not raise while there is no peer: `congested` is true, and `drain` waits.
    Requests wait for the next peer. It fails, once, when it gives up.
    """

    interruptions: InterruptionListener | None = _NOBODY
    """The receiver of interruptions; set it before `start()`."""

    @property
    def queue(self) -> Transport[Command]:
        return self
