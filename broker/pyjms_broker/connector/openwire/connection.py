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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, TypeAlias

import anyio

from pyjms import _clock
from pyjms._forwarding import DelegatedAttribute
from pyjms._logger import get_logger
from pyjms._wakeup import BackgroundTask, end_tasks, spawn
from pyjms.errors import ConnectionFailedException, LocalProtocolError
from pyjms.jms.destination import Destination
from pyjms.transport.openwire import OpenWireTransport
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerInfo,
    Command,
    ConsumerId,
    ExceptionResponse,
    MessageDispatch,
    ProducerAck,
    RemoveInfo,
    Response,
)
from pyjms.wire.openwire.commands import (
    ConnectionError as ConnectionErrorCommand,
)
from pyjms.wire.openwire.message_size import message_size
from pyjms_broker.api.completion import COMPLETED, Completion, checked
from pyjms_broker.connector.base import TransportConnector
from pyjms_broker.connector.openwire.back_pressure import BackPressure, ReadPause
from pyjms_broker.connector.openwire.client_resources import ClientResources
from pyjms_broker.connector.openwire.connection_state import DeferredResponse
from pyjms_broker.connector.openwire.deferred_acks import DeferredAcks
from pyjms_broker.connector.openwire.pending_responses import PendingResponses
from pyjms_broker.connector.openwire.throwables import (
    level_of_end,
    log_unexpected,
    refuse,
    to_throwable,
)

__all__ = ["BrokerConnection", "CommandHandler", "CommandResult"]

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
