"""One client as the broker sees it: commands in, answers and dispatches out.

`on_command` looks the handler up by the command's type and answers what asks for it:
at once, when a Completion is done, or with the exception. What a client has opened goes
away with its connection, in ActiveMQ's order. (ActiveMQ C1-C9, M2, M6)
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

import anyio

from broker.completion import Completion
from broker.connector.base import BrokerHost, TransportConnector
from broker.connector.errors import log_bug, to_throwable
from broker.connector.handlers import HANDLERS, unsupported
from broker.connector.last_answers import LastAnswers
from broker.connector.late_acks import LateAcks
from broker.connector.state import ConnectionState, LateResponse, SessionState, message_size
from broker.context import ConsumerExchange, ProducerExchange
from pyjms import _clock
from pyjms._wakeup import BackgroundTask, spawn
from pyjms.errors import ConnectionFailedException, LocalProtocolError
from pyjms.transport.openwire import OpenWireTransport
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerInfo,
    Command,
    ConnectionId,
    ConsumerId,
    ExceptionResponse,
    LocalTransactionId,
    MessageDispatch,
    ProducerAck,
    ProducerId,
    Response,
)
from pyjms.wire.openwire.commands import (
    ConnectionError as ConnectionErrorCommand,
)

__all__ = ["LAST_DELIVERED_UNKNOWN", "BrokerConnection"]

logger = logging.getLogger(__name__)

LAST_DELIVERED_UNKNOWN = -2
_MOST_PARKED = 1000  # sends that wait for space before the client is read no further
_MOST_PARKED_BYTES = 64 * 1024 * 1024  # of one connection; well above any producer window


class BrokerConnection:
    """A connection that came in through a connector. Belongs to the broker's loop."""

    def __init__(
        self, host: BrokerHost, connector: TransportConnector, transport: OpenWireTransport
    ) -> None:
        self.host = host
        self.connector = connector
        self.broker = host.broker
        self.states: dict[ConnectionId, ConnectionState] = {}
        self.producers: dict[ProducerId, ProducerExchange] = {}
        self.consumers: dict[ConsumerId, ConsumerExchange] = {}
        self._unanswered: dict[ProducerId, deque[Completion]] = {}
        self._transport = transport
        self._oneway = transport.oneway
        self._outbound = transport
        self._late_acks = LateAcks(transport, self._handle)
        self._closed = False
        self._answers = LastAnswers()
        self._parked = 0
        self._parked_bytes = 0
        self._unwindowed = 0  # parked sends of producers without a window
        self._holds: set[str] = set()
        self._draining: BackgroundTask | None = None
        self._start_task: BackgroundTask | None = None
        self._stop_task: BackgroundTask | None = None
        self._late_stop: BackgroundTask | None = None
        self._stopped = anyio.Event()
        transport.listener = self

    @property
    def remote_address(self) -> str:
        return self._transport.remote_address

    @property
    def congested(self) -> bool:
        """Whether the client has more to read than it should."""
        return self._draining is not None

    def start_soon(self) -> None:
        """Negotiate with the client and serve it, in the background."""
        self.connector.connections.add(self)
        self._start_task = spawn(
            self._start, name=f"broker {self.remote_address} start", on_error=self._start_failed
        )

    async def _start(self) -> None:
        # queued until the negotiation is over, so it is the first command the client gets (C6)
        self._oneway(
            BrokerInfo(
                self.host.broker_id,
                self.connector.connect_uri,
                broker_name=self.host.broker_name,
            )
        )
        await self._transport.start()
        self._outbound = self._late_acks.transport = self._transport.outbound
        self._oneway = self._outbound.oneway

    def _start_failed(self, error: BaseException) -> None:
        logger.info("%s did not become a client: %s", self.remote_address, error)
        self.stop_soon()

    def stop_soon(self, error: Exception | None = None) -> None:
        if self._stop_task is None:
            self._stop_task = spawn(self._stop, error, name=f"broker {self.remote_address} stop")

    def stop_later(self, seconds: float, error: Exception) -> None:
        """Close the connection after `seconds`, time for the client to read its answer."""

        async def wait_and_stop() -> None:
            await _clock.sleep(seconds)
            self.stop_soon(error)

        if self._late_stop is None:
            self._late_stop = spawn(wait_and_stop, name=f"broker {self.remote_address} late stop")

    async def give_last_answers(self) -> None:
        """Wait until all that was asked is answered; `hold` it first. Cancellable."""
        await self._answers.wait(state.context for state in self.states.values())

    async def wait_stopped(self) -> None:
        """Wait until the connection is closed and forgotten."""
        await self._stopped.wait()

    def give_way(self, error: Exception) -> None:
        """Let a newer connection have this one's id, and what belongs to it. (C1, C8)"""
        logger.warning("%s gives way: %s", self.remote_address, error)
        self.release(error)
        self.stop_soon(error)

    async def _stop(self, error: Exception | None) -> None:
        try:
            self.release(error)
            for task in (self._start_task, self._late_stop, self._draining):
                if task is not None:
                    task.cancel()
                    await task.wait()
            await self._transport.stop()
        finally:
            self.connector.connections.discard(self)
            self._stopped.set()

    # from the transport
    def on_command(self, command: Command) -> None:
        if not self._late_acks.take(command):
            self._handle(command)

    def _handle(self, command: Command) -> None:
        if self._closed:
            return
        try:
            answer = HANDLERS.get(command.TYPE, unsupported)(self, command)
        except Exception as error:
            self._refuse(command, error)
            return
        if answer is None:
            if command.response_required:
                self.send_command(Response(command.command_id))
        elif isinstance(answer, Completion):
            self._answer_later(command, answer)
        elif command.response_required:
            answer.correlation_id = command.command_id
            self.send_command(answer)

    def on_exception(self, error: Exception) -> None:
        if not self._closed:
            logger.info("%s is gone: %s", self.remote_address, error)
        self.release(error)
        self.stop_soon(error)

    # to the client
    def dispatch(self, dispatch: MessageDispatch) -> None:
        if not self._closed and self._write(dispatch) and self._outbound.congested:
            self._dispatch_on_when_drained()

    def send_command(self, command: Command) -> None:
        if self._closed:
            return
        if self._write(command) and self._outbound.congested:
            self._read_on_when_drained()

    def _write(self, command: Command) -> bool:
        try:
            self._oneway(command)
        except ConnectionFailedException as error:
            logger.debug("%s takes nothing any more: %s", self.remote_address, error)
            return False
        except LocalProtocolError as error:
            logger.warning("%s cannot be told: %s", self.remote_address, error)
            self.stop_soon(error)
            return False
        return True

    def service_exception(self, error: Exception) -> None:
        identifier = next(iter(self.states), None)
        self.send_command(ConnectionErrorCommand(to_throwable(error), identifier))

    # a client that does not read: nothing for it piles up here
    def _read_on_when_drained(self) -> None:
        """Take no more commands, whose answers the client would not read either."""
        self.hold("answers")
        self._dispatch_on_when_drained()

    def _dispatch_on_when_drained(self) -> None:
        """Have all its subscriptions be full until it has read on."""
        if self._draining is None:
            self._set_congested(congested=True)
            self._draining = spawn(
                self._drain, name=f"broker {self.remote_address} waits for the client to read"
            )

    async def _drain(self) -> None:
        await self._transport.drained()
        self._draining = None
        self._set_congested(congested=False)
        self._release_hold("answers")
        for exchange in list(self.consumers.values()):
            if exchange.subscription is not None:
                exchange.subscription.window_freed()

    def _set_congested(self, *, congested: bool) -> None:
        for state in self.states.values():
            state.context.congested = congested

    def hold(self, reason: str) -> None:
        """Read no further until every reason is gone."""
        if not self._holds:
            self._transport.pause_reading()
        self._holds.add(reason)

    def _release_hold(self, reason: str) -> None:
        if reason in self._holds:
            self._holds.remove(reason)
            if not self._holds and not self._closed:
                self._transport.resume_reading()

    # sends that wait for space
    def park(self, message: ActiveMQMessage, window: bool, answer: Completion) -> None:
        """Let an unanswered send wait; without a window the whole connection waits with it. (M2)"""
        size = self._count_parked(message)
        self._answers.open += 1
        if not window:
            self._unwindowed += 1
            self.hold("space")

        def done(completion: Completion) -> None:
            self._answers.given()
            self._uncount_parked(size)
            if window:
                self.send_producer_ack(message)
            else:
                self._unwindowed -= 1
                if not self._unwindowed:
                    self._release_hold("space")
            if completion.error is not None:
                self._refuse(message, completion.error, acked=window)

        answer.then(done)

    def _count_parked(self, message: ActiveMQMessage) -> int:
        """Read no further while more of the client's messages wait than any honest one has."""
        size = message_size(message)
        self._parked += 1
        self._parked_bytes += size
        if self._parked > _MOST_PARKED or self._parked_bytes > _MOST_PARKED_BYTES:
            self.hold("parked")
        return size

    def _uncount_parked(self, size: int) -> None:
        self._parked -= 1
        self._parked_bytes -= size
        if (
            self._holds
            and self._parked <= _MOST_PARKED
            and self._parked_bytes <= _MOST_PARKED_BYTES
        ):
            self._release_hold("parked")

    def send_producer_ack(self, message: ActiveMQMessage) -> None:
        """Open the producer's window by the size of `message`. (M6)"""
        self.send_command(ProducerAck(message.producer_id, message_size(message)))

    # answers
    def _answer_later(self, command: Command, answer: Completion) -> None:
        size = -1
        if isinstance(command, ActiveMQMessage) and not answer.done:
            size = self._count_parked(command)
        self._answers.open += 1

        def done(completion: Completion) -> None:
            self._answers.given()
            if size >= 0:
                self._uncount_parked(size)
            if completion.error is not None:
                self._refuse(command, completion.error)
            elif command.response_required:
                response = answer.response if isinstance(answer, LateResponse) else Response()
                response.correlation_id = command.command_id
                self.send_command(response)

        answer.then(done)

    def _refuse(self, command: Command, error: Exception, *, acked: bool = False) -> None:
        log_bug(error, f"{type(command).__name__} of {self.remote_address}")
        if self.host.store_failed:
            return  # nobody knows how it ended; a client that fails over asks the next broker
        if command.response_required:
            self.send_command(ExceptionResponse(command.command_id, to_throwable(error)))
            return
        if self.host.rollback_only_on_async_exception:
            self._spoil_transaction(command, error)
        if isinstance(command, ActiveMQMessage) and not acked and self._has_window(command):
            self.send_producer_ack(command)  # refused or not, its bytes are off the window
        self.service_exception(error)

    def _has_window(self, message: ActiveMQMessage) -> bool:
        exchange = None if message.producer_id is None else self.producers.get(message.producer_id)
        return exchange is not None and exchange.info is not None and exchange.info.window_size > 0

    def _spoil_transaction(self, command: Command, error: Exception) -> None:
        xid = getattr(command, "transaction_id", None)
        if xid is None:
            return
        state: ConnectionState | None = next(iter(self.states.values()), None)
        if isinstance(xid, LocalTransactionId) and xid.connection_id is not None:
            state = self.states.get(xid.connection_id)
        if state is not None:
            self._try(self.broker.set_rollback_only, state.context, xid, error)

    # the end of what the client has
    def release(self, error: Exception | None) -> None:
        """Take everything of this client out of the broker. Idempotent. (C4)"""
        if self._closed:
            return
        self._closed = True
        for state in list(self.states.values()):
            self.remove_connection(state, LAST_DELIVERED_UNKNOWN, error)

    def remove_connection(
        self, state: ConnectionState, last_delivered: int, error: Exception | None
    ) -> None:
        """Close one JMS connection: sessions, temporary destinations, transactions, itself."""
        context = state.context
        for session in list(state.sessions.values()):
            self.remove_session(state, session, last_delivered)
        for destination in list(state.temporary):
            self._try(self.broker.remove_destination, context, destination, 0.0)
        state.temporary.clear()
        parked = tuple(context.parked) if state.info.fault_tolerant else ()
        self._try(self.broker.remove_connection, context, state.info, error)
        if self._closed:
            self.host.connections.leave(self._unanswered, parked)
            self._unanswered.clear()
        if state.info.connection_id is not None:
            self.states.pop(state.info.connection_id, None)
            self.host.connections.release(state.info.connection_id, self)

    def remove_session(
        self, state: ConnectionState, session: SessionState, last_delivered: int
    ) -> None:
        """Close a session: consumers, producers, itself."""
        context = state.context
        for consumer_id, consumer in list(session.consumers.items()):
            self.consumers.pop(consumer_id, None)
            state.consumers.remove(consumer.destination)
            self._try(self.broker.remove_consumer, context, consumer, last_delivered)
        session.consumers.clear()
        for producer_id, producer in list(session.producers.items()):
            exchange = self.producers.pop(producer_id, None)
            if self._closed and exchange is not None and exchange.unanswered:
                self._unanswered[producer_id] = exchange.unanswered
            state.producers.remove(producer.destination)
            self._try(self.broker.remove_producer, context, producer)
        session.producers.clear()
        if session.info.session_id is not None:
            state.sessions.pop(session.info.session_id, None)
        self._try(self.broker.remove_session, context, session.info)

    def _try(self, call: Callable[..., None], *args: object) -> None:
        """Go on with the rest whatever happens: a client that goes must leave nothing behind."""
        try:
            call(*args)
        except Exception:
            logger.exception("%s: cleaning up failed", self.remote_address)
