"""The connection of one OpenWire client: commands in, responses and dispatches out.

How a command is handled. The transport calls `on_command` for every command, in the order of
arrival, on the broker's event loop; nothing awaits. Acknowledgements without a response may be
deferred to the end of their chunk (`deferred_acks`). The handler for the command's type returns

- `COMPLETED`: a Response is sent if the command requires one;
- a Response: done, with a value;
- another Completion: the operation finishes later (the store's sync, space for a message). The
  response is sent from its callback. Later commands are handled meanwhile, and responses may
  overtake each other, because clients match them by correlation id.

An exception becomes an ExceptionResponse, or an unsolicited ConnectionError if no response is
required; the latter also makes an open transaction's commit fail. If the store has failed, nothing
is sent: the outcome of the operation is unknown, and a client that fails over asks the next broker.
`back_pressure` describes when reading from a client is paused.

The life cycle: `start_soon` negotiates in the background, and a failure closes the connection;
`release`, called by whatever ends the connection first, immediately removes the client's resources
from the broker, so that nothing more is dispatched to it; `stop_soon` then closes the transport in
the background. The last two are idempotent. (activemq-broker C1 to C9, M2, M6)

Back-pressure on one client: pauses of reading from it, and of dispatching to it.

The broker never buffers unbounded data for a client. It pauses reading from the connection while at
least one of these conditions holds (`ReadPause`), and resumes when none does:

| condition | begins | ends |
|---|---|---|
| RESPONSES | the client does not read, and has 64 KiB of responses on top of the rest | drained |
| SPACE | a send without a producer window waits for memory or disk space | none waits any more |
| WAITING_SENDS | more sends wait for space than windows of normal clients allow | fewer wait |
| DESTINATIONS | a command waits until its many new destinations exist | none waits any more |
| TURN | the client's messages have taken much time | other clients had their turn |
| STOPPING | the connector is stopping | never |

A client that does not read for the moment is read further at first. Otherwise one whose reading
thread waits until its acknowledgements are sent, while another thread waits for a response, could
never read again.

While the transport is congested the connection's subscriptions also count as full, so nothing is
dispatched to it; once the transport is drained they are offered messages again. Producers with a
window are throttled by withholding their ProducerAcks, not by pausing the connection: their other
commands, such as acknowledgements, must still get through. (activemq-broker M2, M6)

Deferral of acknowledgements until the responses to commands of the same chunk are sent.

A client that sends a request and an acknowledgement in one chunk waits only for the response.
Handling the acknowledgement afterwards shortens that wait. The difference is not observable,
because everything happens in one turn of the event loop, before anything else is read.

The count of a client's pending responses, so that a stopping broker can send them.

A request that was accepted before the stop is completed, and the client should get the result: the
outcome of a commit is unknown if its response is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto
from operator import attrgetter
from typing import Any, Final, TypeAlias

import anyio
from anyio import lowlevel

from pyjms.errors import ConnectionFailedException, LocalProtocolError
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.forwarding import DelegatedAttribute
from pyjms.runtime.logging import get_logger
from pyjms.transport.openwire import OpenWireTransport
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerInfo,
    Command,
    ConsumerId,
    ExceptionResponse,
    MessageAck,
    MessageDispatch,
    ProducerAck,
    RemoveInfo,
    Response,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms.wire.openwire.message_size import message_size
from pyjms_broker.api.completion import COMPLETED, Completion, checked
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.connector.base import BrokerHost, TransportConnector
from pyjms_broker.connector.openwire.client_resources import ClientResources, DeferredResponse
from pyjms_broker.connector.openwire.throwables import (
    level_of_end,
    log_unexpected,
    refuse,
    to_throwable,
)

__all__ = ["BrokerConnection", "CommandHandler", "CommandResult", "DeferredAcks", "ReadPause"]

_MAXIMUM_WAITING_SENDS = 1000
_MAXIMUM_WAITING_BYTES = 64 * 1024 * 1024
"""The limit for one connection, well above any producer window."""
_MAXIMUM_UNREAD_RESPONSES: Final = 64 * 1024
"""Bytes per connection in addition to those queued when it became congested; most responses
have 20 to 60."""
_WAITING_BYTES_UNDER_PRESSURE = 1024 * 1024
"""The limit for one connection while the memory for all clients' waiting sends is exceeded."""
_WORK_AT_ONCE: Final = 0.05
"""Seconds of work per turn: a chunk may have hundreds of messages, each for many consumers."""


class ReadPause(Enum):
    """The reason for not reading from a client."""

    RESPONSES = auto()
    SPACE = auto()
    WAITING_SENDS = auto()
    DESTINATIONS = auto()
    TURN = auto()
    STOPPING = auto()


class BackPressure:
    """Pauses and resumes reading from one client, and tracks whether the client keeps up."""

    __slots__ = (
        "_budget",
        "_closed",
        "_creations",
        "_draining",
        "_most_queued",
        "_pauses",
        "_resume_dispatch",
        "_set_congested",
        "_transport",
        "_turn",
        "_unwindowed_sends",
        "_waiting_bytes",
        "_waiting_sends",
        "_worked",
    )

    def __init__(
        self,
        transport: OpenWireTransport,
        host: BrokerHost,
        set_congested: Callable[[bool], None],
        resume_dispatch: Callable[[], None],
    ) -> None:
        """Watch `transport`.

        Args:
            transport: the client's outermost transport.
            host: counts the waiting sends of all clients.
            set_congested: called with True when the client falls behind, False when it catches up.
            resume_dispatch: called after the latter, to offer messages to its consumers again.
        """
        self._transport = transport
        self._budget = host.frame_budget
        self._set_congested = set_congested
        self._resume_dispatch = resume_dispatch
        self._pauses: set[ReadPause] = set()
        self._draining: BackgroundTask | None = None
        self._most_queued = 0
        self._waiting_sends = 0
        self._waiting_bytes = 0
        self._unwindowed_sends = 0
        self._creations = 0
        self._worked = 0.0
        self._turn: BackgroundTask | None = None
        self._closed = False

    @property
    def congested(self) -> bool:
        """Whether too much unread data is queued for the client."""
        return self._draining is not None

    def pause_reading(self, reason: ReadPause) -> None:
        """Stop reading until `resume_reading` was called for every reason."""
        if not self._pauses:
            self._transport.pause_reading()
        self._pauses.add(reason)

    def resume_reading(self, reason: ReadPause) -> None:
        """Resume reading, unless there are other reasons not to read."""
        if reason in self._pauses:
            self._pauses.remove(reason)
            if not self._pauses and not self._closed:
                self._transport.resume_reading()

    def client_is_behind(self) -> None:
        """Treat the client as congested until it has read what is queued for it."""
        if self._draining is None:
            self._most_queued = (self._transport.queued_bytes or 0) + _MAXIMUM_UNREAD_RESPONSES
            self._set_congested(True)
            name = f"broker {self._transport.remote_address} waits for the client to read"
            self._draining = spawn(self._wait_until_drained, name=name)

    def response_queued(self) -> None:
        """Handle a response that was queued for a congested client.

        Reading pauses if many are queued, since further requests would only add responses.
        """
        self.client_is_behind()
        queued = self._transport.queued_bytes
        if queued is None or queued > self._most_queued:
            self.pause_reading(ReadPause.RESPONSES)

    async def _wait_until_drained(self) -> None:
        await self._transport.drained()
        self._draining = None
        self._set_congested(False)
        self.resume_reading(ReadPause.RESPONSES)
        self._resume_dispatch()

    # sends that wait for space
    def send_waits(self, size: int) -> None:
        """Count a send of `size` bytes that waits for space."""
        self._waiting_sends += 1
        self._waiting_bytes += size
        self._budget.hold(size)
        if not self._within_limits():
            self.pause_reading(ReadPause.WAITING_SENDS)

    def send_finished(self, size: int) -> None:
        """Count a send of `size` bytes as no longer waiting."""
        self._waiting_sends -= 1
        self._waiting_bytes -= size
        self._budget.release(size)
        if self._pauses and self._within_limits():
            self.resume_reading(ReadPause.WAITING_SENDS)

    def unwindowed_send_waits(self) -> None:
        """Stop reading while a send that is not limited by a producer window waits for space."""
        self._unwindowed_sends += 1
        self.pause_reading(ReadPause.SPACE)

    def unwindowed_send_finished(self) -> None:
        """Resume reading once no such send waits any more."""
        self._unwindowed_sends -= 1
        if not self._unwindowed_sends:
            self.resume_reading(ReadPause.SPACE)

    # messages that take a long time
    def worked(self, seconds: float) -> None:
        """Count the time that a message took; above a limit, let other clients go first."""
        self._worked += seconds
        if self._worked > _WORK_AT_ONCE and (self._turn is None or self._turn.done):
            self._worked = 0.0
            self.pause_reading(ReadPause.TURN)
            self._turn = spawn(self._wait_for_others, name="broker lets other clients come first")

    async def _wait_for_others(self) -> None:
        await lowlevel.checkpoint()
        self.resume_reading(ReadPause.TURN)

    # commands that create many destinations
    def pause_until(self, done: Completion) -> None:
        """Stop reading until `done`: until the destinations of a command exist."""
        self._creations += 1
        self.pause_reading(ReadPause.DESTINATIONS)
        done.then(self._creation_ended)

    def _creation_ended(self, _done: Completion) -> None:
        self._creations -= 1
        if not self._creations:
            self.resume_reading(ReadPause.DESTINATIONS)

    def _within_limits(self) -> bool:
        # one message may be long; a second long one is not read while the budget is exceeded
        exceeded = self._budget.exceeded and self._waiting_sends > 1
        size = _WAITING_BYTES_UNDER_PRESSURE if exceeded else _MAXIMUM_WAITING_BYTES
        return self._waiting_sends <= _MAXIMUM_WAITING_SENDS and self._waiting_bytes <= size

    # the end
    def close(self) -> None:
        """Never resume reading, because the connection is closed."""
        self._closed = True

    async def stop(self) -> None:
        """Stop waiting for the client to read, and for other clients."""
        await end_tasks(self._draining, self._turn)


class DeferredAcks:
    """The deferred acknowledgements of one connection.

    Only messages of the same chunk overtake them.
    """

    __slots__ = ("_deferred", "_handle", "transport")

    def __init__(self, transport: OpenWireTransport, handle: Callable[[Command], None]) -> None:
        self.transport = transport
        self._handle = handle
        self._deferred: deque[MessageAck] = deque()

    def defer(self, command: Command) -> bool:
        """Defer `command` if possible; return whether it is deferred.

        If it is not, deferred acknowledgements that it must not overtake are handled now.
        """
        if type(command) is MessageAck:
            # outside a transaction, and nobody waits for a response
            if command.transaction_id is None and not command.response_required:
                if self._deferred or self.transport.defer(self.handle_all):
                    self._deferred.append(command)
                    return True
                return False
        elif isinstance(command, ActiveMQMessage):
            return False
        if self._deferred:
            self.handle_all()
        return False

    def handle_all(self) -> None:
        """Handle the deferred acknowledgements in order."""
        deferred = self._deferred
        while deferred:
            self._handle(deferred.popleft())


class PendingResponses:
    """The pending responses of one connection.

    Sends that wait for space, and commits that wait for such sends, are excluded, because space may
    never become available.
    """

    __slots__ = ("_all_sent", "_contexts", "count")

    def __init__(self) -> None:
        self.count = 0
        """The number of pending responses: add 1 for each delayed one, which `sent` subtracts."""
        self._all_sent: anyio.Event | None = None
        self._contexts: tuple[ConnectionContext, ...] = ()

    def sent(self) -> None:
        """Count one response as sent."""
        self.count -= 1
        if self._all_sent is not None and self._are_sent():
            self._all_sent.set()

    async def wait(self, contexts: Iterable[ConnectionContext]) -> None:
        """Wait for all, except those that wait for space in `contexts`. Cancellable."""
        self._contexts = tuple(contexts)
        if not self._are_sent():
            self._all_sent = anyio.Event()
            await self._all_sent.wait()

    def _are_sent(self) -> bool:
        return self.count <= sum(map(_waiting_for_space, self._contexts))


def _waiting_for_space(context: ConnectionContext) -> int:
    ends = sum(transaction.is_waiting for transaction in context.waiting_ends)
    return len(context.blocked_sends) + ends


logger = get_logger(__name__)

_REFUSED_CONNECTION_DELAY = 2.0
"""Seconds until a refused client is disconnected, so that it reads why. (activemq-broker C2)"""

CommandResult: TypeAlias = Completion | Response
CommandHandler: TypeAlias = Callable[["BrokerConnection", Any], CommandResult]


class BrokerConnection:
    """The connection of a client accepted by a connector. Use it on the broker's event loop.

    Args:
        connector: the connector that accepted the client.
        transport: the client's transport, not started yet.
        handlers: the handlers by command type.
    """

    def __init__(
        self,
        connector: TransportConnector,
        transport: OpenWireTransport,
        handlers: Mapping[int, CommandHandler],
    ) -> None:
        self.connector = connector
        self.host = host = connector.host
        self.broker = host.broker
        self.resources = ClientResources(self)
        # shortcuts to the same two tables for the most frequent commands
        self.producers = self.resources.producers
        self.consumers = self.resources.consumers
        self.cluster = connector.cluster
        self.audits_bridges = connector.audit_network_producers
        self._handler_of = handlers.get
        self._transport = transport
        self._outbound = transport
        self._oneway = transport.oneway
        self._deferred_acks = DeferredAcks(transport, self._handle)
        self._pending_responses = PendingResponses()
        self._back_pressure = BackPressure(
            transport, host, self._set_congested, self._resume_dispatch
        )
        self.pause_until = self._back_pressure.pause_until
        self.worked = self._back_pressure.worked
        self._closed = False
        self.serves_broker = False
        """Whether the client is the bridge of another broker."""
        self._start_task: BackgroundTask | None = None
        self._stop_task: BackgroundTask | None = None
        self._delayed_stop: BackgroundTask | None = None
        self._stopped = anyio.Event()
        transport.listener = self

    remote_address = DelegatedAttribute[str](attrgetter("_transport"), read_only=True)
    peer_certificate = DelegatedAttribute[Any](attrgetter("_transport"), read_only=True)

    @property
    def congested(self) -> bool:
        """Whether too much unread data is queued for the client."""
        return self._back_pressure.congested

    async def drained(self) -> None:
        """Wait until the client has read most of the data, or is disconnected. Cancellable."""
        await self._outbound.drained()

    def handle_by(self, handlers: Mapping[int, CommandHandler]) -> None:
        """Handle commands by another table from now on."""
        self._handler_of = handlers.get

    # life cycle
    def start_soon(self) -> None:
        """Negotiate with the client and serve it, in the background."""
        self.connector.connections.add(self)
        self._start_task = spawn(
            self._start, name=f"broker {self.remote_address} start", on_error=self._start_failed
        )

    async def _start(self) -> None:
        # queued until the end of the negotiation: it is the first command that the client gets
        # (activemq-broker C6)
        self._oneway(
            BrokerInfo(
                self.host.broker_id,
                self.connector.connect_uri,
                broker_name=self.host.broker_name,
            )
        )
        await self._transport.start()
        self._outbound = self._deferred_acks.transport = self._transport.outbound
        self._oneway = self._outbound.oneway
        timeout = self.host.connection_info_timeout
        if timeout and not self._transport.notices_silence:
            await self._wait_for_connection_info(timeout)

    async def _wait_for_connection_info(self, timeout: float) -> None:
        """Close the connection of a client that does not identify itself in time.

        An inactivity monitor makes this unnecessary, as it closes the connections of dead clients:
        ActiveMQ's clients send their ConnectionInfo only when they need it.
        """
        added = self.resources.connection_added
        with _clock.timeout(timeout):
            await added.wait()
        if not added.is_set():
            self.on_exception(
                ConnectionFailedException(
                    f"{self.remote_address}: no ConnectionInfo arrived within {timeout:g} s"
                )
            )

    def _start_failed(self, error: BaseException) -> None:
        level = level_of_end(error)
        logger.log(level, "%s could not connect: %s", self.remote_address, self._reason(error))
        self.stop_soon()

    def stop_reading(self) -> None:
        """Stop handling commands, because the connector is stopping."""
        self._back_pressure.pause_reading(ReadPause.STOPPING)

    async def wait_for_responses(self) -> None:
        """Wait until all responses are sent; call `stop_reading` first. Cancellable."""
        await self._pending_responses.wait(
            state.context for state in self.resources.connections.values()
        )

    def stop_soon(self, error: Exception | None = None) -> None:
        """Close the connection in the background, after writing what is queued."""
        if self._stop_task is None:
            self._stop_task = spawn(self._stop, error, name=f"broker {self.remote_address} stop")

    def refused(self, error: Exception) -> None:
        """Close the connection soon, allowing the client some time to read its response."""

        async def wait_and_stop() -> None:
            await _clock.sleep(_REFUSED_CONNECTION_DELAY)
            self.stop_soon(error)

        if self._delayed_stop is None:
            name = f"broker {self.remote_address} delayed stop"
            self._delayed_stop = spawn(wait_and_stop, name=name)

    async def wait_stopped(self) -> None:
        """Wait until the connection is closed and removed from its connector."""
        await self._stopped.wait()

    def remove_consumer(self, consumer_id: ConsumerId) -> None:
        if consumer_id in self.consumers:
            self.resources.remove_consumer(RemoveInfo(consumer_id))

    def give_way(self, error: Exception) -> None:
        """Yield to a newer connection with the same id. (activemq-broker C1, C8)"""
        logger.warning("%s is disconnected: %s", self.remote_address, error)
        self.release(error)
        self.stop_soon(error)

    def owns_temporary(self, destination: Destination) -> bool:
        """Return whether the client has created this temporary destination."""
        return self.resources.owns_temporary(destination)

    def release(self, error: Exception | None) -> None:
        """Remove this client's resources from the broker. Idempotent. (activemq-broker C4)"""
        if not self._closed:
            self._closed = True
            self.cluster.client_left(self)
            self._back_pressure.close()
            self.resources.close(error)

    async def _stop(self, error: Exception | None) -> None:
        try:
            self.release(error)
            await end_tasks(self._start_task, self._delayed_stop)
            await self._back_pressure.stop()
            await self._transport.stop()
        finally:
            self.connector.connections.discard(self)
            self._stopped.set()

    # from the transport
    def on_command(self, command: Command) -> None:
        if not self._deferred_acks.defer(command):
            self._handle(command)

    def _handle(self, command: Command) -> None:
        if self._closed:
            return
        try:
            result = self._handler_of(command.TYPE, refuse)(self, command)
            if result is not COMPLETED and not isinstance(result, Response):
                checked(result, self.broker, f"handling a {type(command).__name__}")
        except Exception as error:
            self._send_error(command, error)
            return
        if result is COMPLETED:
            if command.response_required:
                self.send_command(Response(command.command_id))
        elif isinstance(result, Completion):
            self._respond_when_done(command, result)
        elif command.response_required:
            result.correlation_id = command.command_id
            self.send_command(result)

    def on_exception(self, error: Exception) -> None:
        if not self._closed:
            level = level_of_end(error)
            logger.log(level, "%s disconnected: %s", self.remote_address, self._reason(error))
        self.release(error)
        self.stop_soon(error)

    def _reason(self, error: BaseException) -> str:
        return str(error).removeprefix(f"{self.remote_address}: ")

    # to the client
    def dispatch(self, dispatch: MessageDispatch) -> None:
        if not self._closed and self._write(dispatch) and self._outbound.congested:
            self._back_pressure.client_is_behind()

    def send_command(self, command: Command) -> None:
        if self._closed:
            return
        if self._write(command) and self._outbound.congested:
            self._back_pressure.response_queued()

    def _write(self, command: Command) -> bool:
        try:
            self._oneway(command)
        except ConnectionFailedException as error:
            logger.debug(
                "%s: the connection is closed, so this is not sent: %s", self.remote_address, error
            )
            return False
        except LocalProtocolError as error:
            name = type(command).__name__
            logger.warning("%s: %s cannot be sent: %s", self.remote_address, name, error)
            self.stop_soon(error)
            return False
        return True

    def service_exception(self, error: Exception) -> None:
        identifier = next(iter(self.resources.connections), None)
        self.send_command(ConnectionErrorCommand(to_throwable(error), identifier))

    def _set_congested(self, congested: bool) -> None:
        for state in self.resources.connections.values():
            state.context.congested = congested

    def _resume_dispatch(self) -> None:
        for exchange in list(self.consumers.values()):
            if exchange.subscription is not None:
                exchange.subscription.window_freed()

    # sends that wait for space
    def wait_for_space(self, message: ActiveMQMessage, window: bool, stored: Completion) -> None:
        """Track a waiting send without a response; `window`: whether its producer has a window.

        Without a producer window the whole connection waits. (activemq-broker M2)
        """
        size = message_size(message)
        self._back_pressure.send_waits(size)
        self._pending_responses.count += 1
        if not window:
            self._back_pressure.unwindowed_send_waits()

        def done(completion: Completion) -> None:
            self._pending_responses.sent()
            self._back_pressure.send_finished(size)
            if window:
                self.send_producer_ack(message)
            else:
                self._back_pressure.unwindowed_send_finished()
            if completion.error is not None:
                self._send_error(message, completion.error, acked=window)

        stored.then(done)

    def send_producer_ack(self, message: ActiveMQMessage) -> None:
        """Open the producer's window by the size of `message`. (activemq-broker M6)"""
        self.send_command(ProducerAck(message.producer_id, message_size(message)))

    # responses
    def _respond_when_done(self, command: Command, result: Completion) -> None:
        size = -1
        if isinstance(command, ActiveMQMessage) and not result.done:
            size = message_size(command)
            self._back_pressure.send_waits(size)
        self._pending_responses.count += 1

        def done(completion: Completion) -> None:
            self._pending_responses.sent()
            if size >= 0:
                self._back_pressure.send_finished(size)
            if completion.error is not None:
                self._send_error(command, completion.error)
            elif command.response_required:
                response = result.response if isinstance(result, DeferredResponse) else Response()
                response.correlation_id = command.command_id
                self.send_command(response)

        result.then(done)

    def _send_error(self, command: Command, error: Exception, *, acked: bool = False) -> None:
        log_unexpected(error, f"{type(command).__name__} of {self.remote_address}")
        if self.host.store_failed:
            return  # the outcome is unknown; a client that fails over asks the next broker
        # a received PartialCommand has no such field
        if getattr(command, "response_required", False):
            self.send_command(ExceptionResponse(command.command_id, to_throwable(error)))
            return
        if self.host.rollback_only_on_async_exception:
            self._set_rollback_only(command, error)
        if isinstance(command, ActiveMQMessage) and not acked and self._has_window(command):
            self.send_producer_ack(command)  # even if refused, it no longer fills the window
        self.service_exception(error)

    def _has_window(self, message: ActiveMQMessage) -> bool:
        exchange = None if message.producer_id is None else self.producers.get(message.producer_id)
        return exchange is not None and exchange.info is not None and exchange.info.window_size > 0

    def _set_rollback_only(self, command: Command, error: Exception) -> None:
        xid = getattr(command, "transaction_id", None)
        state = None if xid is None else self.resources.connection_of(xid)
        if xid is None or state is None:
            return
        try:
            self.broker.set_rollback_only(state.context, xid, error)
        except Exception:
            logger.exception("%s: %s cannot be marked rollback-only", self.remote_address, xid)
