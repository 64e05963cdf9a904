"""The connection of one OpenWire client: commands in, responses and dispatches out.

How a command is handled. The transport calls `on_command` for every command, in the order of
arrival, on the broker's event loop; nothing awaits. The handler for the command's type returns

- `COMPLETED`: a Response is sent if the command requires one;
- a Response: done, with a value;
- another Completion: the operation finishes later (the store's sync, space for a message). The
  response is sent from its callback. Later commands are handled meanwhile, and responses may
  overtake each other, because clients match them by correlation id.

An exception becomes an ExceptionResponse, or an unsolicited ConnectionError if no response is
required; the latter also makes an open transaction's commit fail. If the store has failed, nothing
is sent: the outcome of the operation is unknown, and a client that fails over asks the next broker.

Acknowledgements that nobody waits for are deferred until the responses to commands of the same
chunk are sent: a client that sends a request and an acknowledgement in one chunk waits only for the
response. The difference is not observable, because everything happens in one turn of the event
loop, before anything else is read.

Successive messages of a producer to one destination are accepted together, and so are successive
acknowledgements of a consumer: producer, destination and space are looked up once for all, and the
queue dispatches once. Only the usual ones take part, which nothing can refuse or delay and for
which nobody waits; any other one ends the run and is handled by itself. See `Broker.send_run`.

Back-pressure. The broker never buffers unbounded data for a client. It pauses reading from the
connection while at least one of these conditions holds (`ReadPause`), and resumes when none does:

| condition | begins | ends |
|---|---|---|
| responses | the client does not read, and has 64 KiB of responses on top of the rest | drained |
| space | a send without a producer window waits for memory or disk space | none waits any more |
| waiting sends | more sends wait for space than windows of normal clients allow | fewer wait |
| destinations | a command waits for many new destinations, or many removals | none waits any more |
| turn | the client's messages have taken much time | other clients had their turn |
| stopping | the connector is stopping | never |

A client that does not read for the moment is read further at first. Otherwise one whose reading
thread waits until its acknowledgements are sent, while another thread waits for a response, could
never read again.

While the transport is congested the connection's subscriptions also count as full, so nothing is
dispatched to it; once the transport is drained they are offered messages again. Producers with a
window are throttled by withholding their ProducerAcks, not by pausing the connection: their other
commands, such as acknowledgements, must still get through.

The life cycle: `start_soon` negotiates in the background, and a failure closes the connection;
`release`, called by whatever ends the connection first, removes the client's resources from the
broker, so that nothing more is dispatched to it; `stop_soon` then closes the transport in the
background. The last two are idempotent. If many clients are lost at once, their resources are
removed one after the other (`ConnectionEnds`). A request that was accepted before the connector
stops is completed, and `wait_for_responses` lets the client get the result: the outcome of a commit
is unknown if its response is lost. (activemq-broker C1 to C9, M2, M6)
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final, Literal, TypeAlias

import anyio
from anyio import lowlevel

from pyjms.errors import ConnectionFailedException, JMSException, LocalProtocolError
from pyjms.jms.destination import Destination, Queue
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.runtime.slices import Slices
from pyjms.transport.openwire.correlator import OpenWireTransport
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerInfo,
    Command,
    ConsumerId,
    ExceptionResponse,
    MessageAck,
    MessageDispatch,
    ProducerAck,
    ProducerId,
    RemoveInfo,
    Response,
    message_size,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms_broker.api.completion import COMPLETED, Completion, completion_of
from pyjms_broker.api.context import ClientLink, ProducerExchange, SecurityContext
from pyjms_broker.connector.base import TransportConnector
from pyjms_broker.connector.openwire.client_resources import ClientResources
from pyjms_broker.connector.openwire.throwables import (
    level_of_end,
    log_unexpected,
    refuse,
    to_throwable,
)
from pyjms_broker.filters.scheduler.schedule_properties import PREFIX as SCHEDULE_PREFIX

logger = get_logger(__name__)

_REFUSED_CONNECTION_DELAY = 2.0
"""Seconds until a refused client is disconnected, so that it reads why. (activemq-broker C2)"""
_MAXIMUM_WAITING_SENDS = 1000
_MAXIMUM_WAITING_BYTES = 64 * 1024 * 1024
"""The limit for one connection, well above any producer window."""
_WAITING_BYTES_UNDER_PRESSURE = 1024 * 1024
"""The limit for one connection while the memory for all clients' waiting sends is exceeded."""
_STATUS_PERIOD: Final = 5.0
"""Seconds between checks of blocked clients, as in ActiveMQ's TransportStatusDetector."""
_MAXIMUM_UNREAD_RESPONSES: Final = 64 * 1024
"""Bytes per connection in addition to those queued when it became congested; most responses
have 20 to 60."""
_STEPS_AT_ONCE: Final = 100
_END: Final = object()
ReadPause: TypeAlias = Literal[
    "responses", "space", "waiting sends", "destinations", "turn", "stopping"
]
"""The reason for not reading from a client."""
_WORK_AT_ONCE: Final = 0.02
"""Seconds of work per turn: a chunk may have hundreds of messages, each for many consumers."""
_FIRST_RUN: Final = 4
_LONGEST_RUN: Final = 64
"""Messages to a topic that are sent together: as many as the last ones have let expect to take half
of a turn's work, but at most twice as many as those."""


class DeferredResponse(Completion):
    """A completion whose response has a value."""

    __slots__ = ("response",)

    def __init__(self, response: Response) -> None:
        """Send `response` when the operation finishes without an error."""
        super().__init__()
        self.response = response


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
        self.host = connector.host
        self.broker = self.host.broker
        self.resources = ClientResources(self)
        # shortcuts to the same two tables for the most frequent commands
        self.producers = self.resources.producers
        self.consumers = self.resources.consumers
        self.cluster = connector.cluster
        self.serves_broker = False
        """Whether the client is the bridge of another broker."""
        self.is_own_bridge = False
        """Whether the client is a bridge of this broker."""
        self.handlers = handlers
        self._transport = transport
        self._outbound = transport
        self.runs_are_raw = True
        self._oneway = transport.oneway
        self._deferred_acks: deque[MessageAck] = deque()
        self._pending_responses = 0
        """Responses that are sent later, including those of sends that wait for space."""
        self._all_responses_sent: anyio.Event | None = None
        self.read_pauses: set[ReadPause] = set()
        """Why nothing is read from the client; empty: it is read."""
        self._paused_until: dict[ReadPause, int] = {}
        self._budget = self.host.frame_budget
        self._waiting_sends = 0
        self._waiting_bytes = 0
        self._draining: BackgroundTask | None = None
        self._most_queued = 0
        self._worked = 0.0
        self._topic_run = _FIRST_RUN
        self._turn: BackgroundTask | None = None
        self._closed = False
        self._releasing: Iterator[None] | None = None
        self.is_lost = False
        """Whether the client is gone; its resources are removed soon."""
        self._start_task: BackgroundTask | None = None
        self._stop_task: BackgroundTask | None = None
        self._delayed_stop: BackgroundTask | None = None
        self._stopped = anyio.Event()
        transport.listener = self

    @property
    def remote_address(self) -> str:
        return self._transport.remote_address

    def __str__(self) -> str:
        return self.remote_address

    @property
    def log_fields(self) -> dict[str, object]:
        """What JSON lines of the log about this connection tell of its client."""
        for state in self.resources.connections.values():
            return state.context.log_fields
        return {"connector": self.connector.name, "address": self.remote_address}

    @property
    def protocol(self) -> str:
        """The protocol that the client speaks."""
        return self._transport.protocol or "OpenWire"

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        """The client's TLS certificate, if it was verified."""
        return self._transport.peer_certificate

    @property
    def login(self) -> SecurityContext | None:
        """The client, if its protocol has authenticated it before its ConnectionInfo."""
        return self._transport.login

    @property
    def max_frame_size(self) -> int | None:
        """Bytes of the client's largest frame; None: no limit."""
        return self._transport.max_frame_size

    @property
    def steals_links(self) -> bool:
        """Whether the client's protocol lets it take over its id from a former connection."""
        return self._transport.steals_links

    @property
    def congested(self) -> bool:
        """Whether too much unread data is queued for the client."""
        return self._draining is not None

    async def drain(self) -> None:
        """Wait until the client has read most of the data, or is disconnected. Cancellable."""
        await self._outbound.drain()

    # life cycle
    def start_soon(self) -> None:
        """Negotiate with the client and serve it, in the background."""
        self.connector.connections.add(self)
        self._start_task = spawn(
            self._start, name=f"broker {self.remote_address} start", on_error=self._on_start_failure
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
        self._outbound = self._transport.outbound
        self.runs_are_raw = self._outbound.runs_are_raw
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

    def _on_start_failure(self, error: BaseException) -> None:
        self._log_end("could not connect", error)
        self.stop_soon()

    def stop_reading(self) -> None:
        """Stop handling commands, because the connector is stopping."""
        self._pause_reading("stopping")

    async def wait_for_responses(self) -> None:
        """Wait until all responses are sent; call `stop_reading` first. Cancellable."""
        if not self._are_responses_sent():
            self._all_responses_sent = anyio.Event()
            await self._all_responses_sent.wait()

    def _check_responses(self, all_sent: anyio.Event) -> None:
        """End the wait for all responses, if they are sent."""
        if self._are_responses_sent():
            all_sent.set()

    def _are_responses_sent(self) -> bool:
        """Return whether only sends that wait for space, which may never be there, are pending.

        Commits that wait for such sends are pending with them.
        """
        contexts = [state.context for state in self.resources.connections.values()]
        return self._pending_responses <= sum(
            len(context.blocked_sends) + sum(end.is_waiting for end in context.waiting_ends)
            for context in contexts
        )

    def stop_soon(self, error: Exception | None = None) -> None:
        """Close the connection in the background, after writing what is queued."""
        if self._stop_task is None:
            self._stop_task = spawn(self._stop, error, name=f"broker {self.remote_address} stop")

    def stop_later(self, error: Exception) -> None:
        """Close a refused client's connection, allowing it some time to read its response."""

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
        if consumer_id.identity in self.consumers:
            self.resources.remove(RemoveInfo(consumer_id))

    def give_way(self, error: Exception) -> None:
        """Yield to a newer connection with the same id. (activemq-broker C1, C8)"""
        if not self.is_lost:
            logger.warning("%s is disconnected: %s", self, error)
        self.release(error)
        self.stop_soon(error)

    def link_of(self, member: ConsumerId | ProducerId) -> ClientLink | None:
        return self._transport.link_of(member)

    def on_destination_removed(self, consumer_id: ConsumerId) -> None:
        self._transport.on_destination_removed(consumer_id)

    def owns_temporary(self, destination: Destination) -> bool:
        states = self.resources.connections.values()
        return any(destination in state.temporary for state in states)

    def release(self, error: Exception | None) -> None:
        """Remove this client's resources from the broker. Idempotent. (activemq-broker C4)"""
        for _ in self._release_in_steps(error):
            pass

    def _release_in_steps(self, error: Exception | None) -> Iterator[None]:
        if self._releasing is None and not self.connector.stopping:
            states = self.resources.connections.values()
            sends = [send for state in states for send in state.context.blocked_sends]
            try:
                self._transport.on_release([s.message for s in sends if not s.is_admitted], error)
            except Exception:  # what the client has in the broker must be removed anyway
                logger.exception("%s: the last commands of the client failed", self)
        if self._releasing is None:
            self._closed = True
            self._set_congested(True)  # nothing is dispatched between the steps
            self.cluster.client_left(self)
            self._releasing = self.resources.close(error)
        return self._releasing

    async def _stop(self, error: Exception | None) -> None:
        try:
            slices = Slices()
            for _ in self._release_in_steps(error):
                await slices.after_item()
            await end_tasks(self._start_task, self._delayed_stop, self._draining, self._turn)
            await self._transport.stop()
        finally:
            self.connector.connections.discard(self)
            self._stopped.set()

    # from the transport
    def on_command(self, command: Command) -> None:
        self.on_commands(deque((command,)))

    def on_commands(self, commands: deque[Command]) -> None:
        """Handle commands, taking them from the left, until there are none or reading is paused."""
        deferred = self._deferred_acks
        singly = 0
        while commands:
            command = commands.popleft()
            if singly:
                singly -= 1
            elif commands and isinstance(command, ActiveMQMessage):
                after = commands[0]
                if isinstance(after, ActiveMQMessage) and after.producer_id is command.producer_id:
                    sent, singly = self._send_run(command, commands)
                    if sent:
                        continue
            # acknowledgements outside a transaction, without response: only messages overtake them
            if (
                type(command) is MessageAck
                and command.transaction_id is None
                and not command.response_required
            ):
                if deferred or self._outbound.defer(self._handle_deferred_acks):
                    deferred.append(command)
                    continue
            elif deferred and not isinstance(command, ActiveMQMessage):
                self._handle_deferred_acks()
            if not self._closed:
                try:
                    result: object = self.handlers.get(command.TYPE, refuse)(self, command)
                except Exception as error:
                    self._send_error(command, error)
                else:
                    if type(result) is Completion and result is not COMPLETED:
                        self._respond_when_done(command, result)
                    elif result is not COMPLETED or command.response_required:
                        self._respond(command, result)
            if self.read_pauses:
                return

    def _handle_deferred_acks(self) -> None:
        deferred = self._deferred_acks
        in_runs = self.handlers[MessageAck.TYPE] is BrokerConnection.on_ack
        while deferred and not self._closed:
            ack, before = deferred[0], len(deferred)
            try:
                result: object = COMPLETED
                if in_runs and before > 1:
                    result = self._acknowledge_run(deferred)
                    in_runs = len(deferred) < before
                if len(deferred) == before:
                    deferred.popleft()
                    result = self.handlers[MessageAck.TYPE](self, ack)
            except Exception as error:
                self._send_error(ack, error)
            else:
                if result is not COMPLETED:
                    self._respond(ack, result)
        deferred.clear()

    def _acknowledge_run(self, acks: deque[MessageAck]) -> Completion:
        """Apply acknowledgements of one consumer together; see `Broker.acknowledge_run`."""
        consumer_id, plain = acks[0].consumer_id, self.broker.plain
        exchange = None if consumer_id is None else self.consumers.get(consumer_id.identity)
        if exchange is None or plain is None:
            return COMPLETED
        return plain.acknowledge_run(exchange, acks)

    def _respond(self, command: Command, result: object) -> None:
        if isinstance(result, Response):
            if command.response_required:
                result.correlation_id = command.command_id
                self.send_command(result)
        elif result is COMPLETED:
            self.send_command(Response(command.command_id))
        elif isinstance(result, Completion):
            self._respond_when_done(command, result)
        else:
            try:
                completion_of(result, self.broker, f"handling a {type(command).__name__}")
            except TypeError as error:
                self._send_error(command, error)

    # messages and acknowledgements
    def on_message(self, message: ActiveMQMessage) -> Completion:
        """Send a message; the producer gets a ProducerAck instead of a response if it has a window.

        Raises:
            JMSException: the client has no such producer; or what the filter chain raises.
        """
        producer_id = message.producer_id
        exchange = None if producer_id is None else self.producers.get(producer_id.identity)
        if exchange is None:
            raise JMSException(
                f"Cannot send message to {message.destination} with invalid (null) producer state"
            )
        if exchange.last_stored_sequence is not None and self._is_stored_replay(exchange, message):
            return self._on_stored_replay(exchange, message)
        message_id = message.message_id
        if message_id is not None and (
            message_id.producer_id is not producer_id or message_id.text_view is not None
        ):
            self.host.connections.check_message_id(exchange.context, message)
        exchange.sent_count += 1
        broker, destination = self.broker, message.destination
        properties, is_known = message.marshalled_properties, destination is exchange.destination
        if (
            # The region has already accepted a message of this producer for this destination, which
            # is thus neither composite nor one of the broker's own; and the message is not part of
            # a transaction and has no schedule: no filter that only acts on special messages has to
            # see it. See `Broker.plain`.
            is_known
            and message.transaction_id is None
            and (properties is None or SCHEDULE_PREFIX not in properties)
            and broker.plain is not None
        ):
            broker = broker.plain
        if is_known and type(destination) is Queue:
            result = broker.send(exchange, message)
        else:  # the message may be for thousands of consumers, or create its queue
            began = _clock.now()
            result = broker.send(exchange, message)
            self._count_work(_clock.now() - began)
        if type(result) is not Completion:
            completion_of(result, self.broker, "send")
        if message.response_required:
            if not result.done and exchange.unanswered is not None:
                while exchange.unanswered and exchange.unanswered[0].done:
                    exchange.unanswered.popleft()
                exchange.unanswered.append(result)
            return result
        info = exchange.info
        window = info is not None and info.window_size > 0
        if not result.done:
            self._wait_for_space(message, window, result)
            return COMPLETED
        if window and result.error is None:
            self._send_producer_ack(message)
        return result

    def _send_run(self, first: ActiveMQMessage, commands: deque[Command]) -> tuple[int, int]:
        """Send `first` and the messages at the head of `commands` together, as far as possible.

        Returns:
            How many were sent, and removed from `commands`; and if none was, how many of the
            following have to be sent singly, so that they are not looked at again and again.
        """
        producer_id, destination, plain = first.producer_id, first.destination, self.broker.plain
        producer = None if producer_id is None else self.producers.get(producer_id.identity)
        xid, exchange = first.transaction_id, producer
        if producer is not None and xid is not None:
            exchange = producer.within_open(xid)
        if (
            exchange is None
            or producer is None
            or plain is None
            or self._closed
            or destination is not exchange.destination
            or producer.last_stored_sequence is not None
            or (producer.info is not None and producer.info.window_size > 0)
            or self.handlers.get(first.TYPE) is not BrokerConnection.on_message
        ):
            return 0, 0
        is_topic = type(destination) is not Queue  # each message may be for thousands of consumers
        most = self._topic_run if is_topic else 1 + len(commands)
        run: list[ActiveMQMessage] = []
        for message in chain((first,), commands):
            if (
                len(run) == most
                or not isinstance(message, ActiveMQMessage)
                or message.producer_id is not producer_id
                or message.destination is not destination
                or message.transaction_id is not xid
                or (message.response_required and xid is not None)
                or (message_id := message.message_id) is None
                or message_id.producer_id is not producer_id
                or (message_id.text_view is not None and exchange.context.user is not None)
                or SCHEDULE_PREFIX in (message.marshalled_properties or b"")
            ):
                break
            run.append(message)
        began = _clock.now()
        sent = plain.send_run(exchange, run) if len(run) > 1 else 0
        producer.sent_count += sent
        if is_topic and sent:
            worked = _clock.now() - began
            expected = int(sent * _WORK_AT_ONCE / 2 / max(worked, 1e-6))
            self._topic_run = max(1, min(expected, 2 * self._topic_run, _LONGEST_RUN))
            self._count_work(worked)
        for _ in range(sent - 1):
            commands.popleft()
        responses = [Response(m.command_id) for m in islice(run, sent) if m.response_required]
        if responses:
            self._respond_run(responses)
        return sent, 0 if sent else max(0, len(run) - 1)

    def _respond_run(self, responses: list[Response]) -> None:
        """Send responses, in one step as far as the transport can."""
        count = self._outbound.oneway_run(responses) if self.run_room else 0
        for response in islice(responses, count, None):
            self.send_command(response)
        if count and self._outbound.congested:
            self._on_congestion()

    def _is_stored_replay(self, exchange: ProducerExchange, message: ActiveMQMessage) -> bool:
        """Return whether a message resent after a failover is stored. (activemq-broker T27)"""
        last_stored, message_id = exchange.last_stored_sequence, message.message_id
        if last_stored is None or message_id is None or not message.persistent:
            return False
        sequence = message_id.producer_sequence_id
        if sequence <= last_stored:
            return not self.host.connections.unstored_sends.pop(message.producer_id, sequence)
        exchange.last_stored_sequence = sequence
        return False

    def _on_stored_replay(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        """Respond as if the message were new, once the store has written the first one."""
        logger.debug("Suppressed %s, sent again after a failover", message.message_id)
        if message.response_required:
            return self.host.connections.pending_sends.get(message.producer_id, COMPLETED)
        if exchange.info is not None and exchange.info.window_size > 0:
            self._send_producer_ack(message)
        return COMPLETED

    def on_ack(self, ack: MessageAck) -> Completion:
        """Acknowledge messages; an unknown consumer is ignored, with a warning in a transaction."""
        consumer_id, broker = ack.consumer_id, self.broker
        exchange = None if consumer_id is None else self.consumers.get(consumer_id.identity)
        if exchange is None:
            level = logging.DEBUG if ack.transaction_id is None else logging.WARNING
            logger.log(level, "Ack for non existent subscription %s ignored", consumer_id)
            return COMPLETED
        if ack.transaction_id is None and broker.plain is not None:
            broker = broker.plain
        return broker.acknowledge(exchange, ack)

    def on_exception(self, error: Exception) -> None:
        self.is_lost = True
        self._set_congested(True)  # nothing is dispatched any more, even if `_end` has to wait
        self.host.connections.ends.add(self._end(error))

    def _end(self, error: Exception) -> Iterator[None]:
        if not self._closed:
            self._log_end("disconnected", error)
        yield from self._release_in_steps(error)
        self.stop_soon(error)

    def _log_end(self, what: str, error: BaseException) -> None:
        address = self.remote_address
        reason = str(error).removeprefix(f"{address}: ")
        logger.log(level_of_end(error), "%s %s: %s", self, what, reason)

    # to the client
    def dispatch(self, dispatch: MessageDispatch) -> None:
        if self._closed:
            return
        try:
            self._oneway(dispatch)
        except ConnectionFailedException as error:
            self._log_unsent(error)
            return
        if self._outbound.congested:
            self._on_congestion()

    @property
    def run_room(self) -> int:
        return 0 if self._closed else self._outbound.run_room

    def dispatch_run(self, dispatches: list[MessageDispatch]) -> int:
        count = self._outbound.oneway_run(dispatches)
        if self._outbound.congested:
            self._on_congestion()
        return count

    def send_command(self, command: Command) -> None:
        if self._closed:
            return
        try:
            self._oneway(command)
        except ConnectionFailedException as error:
            self._log_unsent(error)
            return
        except LocalProtocolError as error:
            if isinstance(command, ActiveMQMessage):  # of a duplex bridge, which dead-letters it
                raise
            name = type(command).__name__
            logger.warning("%s: %s cannot be sent: %s", self, name, error)
            self.stop_soon(error)
            return
        if self._outbound.congested:
            self._on_congestion()
            # further requests would only add responses
            queued = self._transport.queued_bytes
            if queued is None or queued > self._most_queued:
                self._pause_reading("responses")

    def _log_unsent(self, error: Exception) -> None:
        address = self.remote_address
        logger.debug("%s: the connection is closed, so this is not sent: %s", address, error)

    def service_exception(self, error: Exception) -> None:
        identifier = next(iter(self.resources.connections), None)
        self.send_command(ConnectionErrorCommand(to_throwable(error), identifier))

    def _send_producer_ack(self, message: ActiveMQMessage) -> None:
        """Open the producer's window by the size of `message`. (activemq-broker M6)"""
        self.send_command(ProducerAck(message.producer_id, message_size(message)))

    # a client that does not read
    def _on_congestion(self) -> None:
        """Treat the client as congested until it has read what is queued for it."""
        if self._draining is None:
            self._most_queued = (self._transport.queued_bytes or 0) + _MAXIMUM_UNREAD_RESPONSES
            self._set_congested(True)
            name = f"broker {self.remote_address} waits for the client to read"
            self._draining = spawn(self._wait_until_drained, name=name)

    async def _keeps_reading(self) -> bool:
        """Wait until the client has read; disconnect one that reads nothing between two checks."""
        while (queued := self._transport.queued_bytes) is not None:
            with _clock.timeout(_STATUS_PERIOD) as scope:
                await self._transport.drain()
            if not scope.cancelled_caught:
                return True
            if (self._transport.queued_bytes or 0) >= queued:
                reason = f"the client has read nothing for {_STATUS_PERIOD:g} s"
                self.give_way(ConnectionFailedException(reason))
                return False
        await self._transport.drain()
        return True

    async def _wait_until_drained(self) -> None:
        if not self.connector.enable_status_monitor:
            await self._transport.drain()
        elif not await self._keeps_reading():
            return
        self._draining = None
        if self.is_lost:
            return
        self._set_congested(False)
        self._resume_reading("responses")
        for exchange in list(self.consumers.values()):
            if exchange.subscription is not None:
                exchange.subscription.window_freed()

    def _set_congested(self, congested: bool) -> None:
        for state in self.resources.connections.values():
            state.context.congested = congested

    # pauses of reading
    def _pause_reading(self, reason: ReadPause) -> None:
        """Stop reading until `_resume_reading` was called for every reason."""
        if not self.read_pauses:
            self._transport.pause_reading()
        self.read_pauses.add(reason)

    def _resume_reading(self, reason: ReadPause) -> None:
        """Resume reading, unless there are other reasons not to read."""
        if reason in self.read_pauses:
            self.read_pauses.remove(reason)
            if not self.read_pauses and not self._closed:
                self._transport.resume_reading()

    def take_steps(self, steps: Iterator[None]) -> Completion:
        """Take the steps of a command now if they are few, else in slices, and read no further."""
        for _ in range(_STEPS_AT_ONCE):
            if next(steps, _END) is _END:
                return COMPLETED
        done = Completion()

        async def take_others() -> None:
            slices = Slices()
            try:
                for _ in steps:
                    await slices.after_item()
            finally:
                done.complete()

        spawn(take_others, name=f"broker {self.remote_address} removal")
        self.pause_until(done)
        return done

    def pause_until(self, done: Completion, reason: ReadPause = "destinations") -> None:
        """Stop reading until `done`, which is the end of a command; calls may overlap."""
        self._paused_until[reason] = self._paused_until.get(reason, 0) + 1
        self._pause_reading(reason)

        def resume(_done: Completion) -> None:
            self._paused_until[reason] -= 1
            if not self._paused_until[reason]:
                self._resume_reading(reason)

        done.then(resume)

    def _count_work(self, seconds: float) -> None:
        """Count the time that a message took; above a limit, let other clients go first."""
        self._worked += seconds
        if self._worked > _WORK_AT_ONCE and (self._turn is None or self._turn.done):
            self._worked = 0.0
            self._pause_reading("turn")
            self._turn = spawn(self._wait_for_others, name="broker lets other clients come first")

    async def _wait_for_others(self) -> None:
        await lowlevel.checkpoint()
        self._resume_reading("turn")

    # sends that wait for space
    def _wait_for_space(self, message: ActiveMQMessage, window: bool, stored: Completion) -> None:
        """Track a waiting send without a response; `window`: whether its producer has a window.

        Without a producer window the whole connection waits. (activemq-broker M2)
        """
        size = message_size(message)
        self._on_send_waits(size)
        self._pending_responses += 1

        def on_stored(completion: Completion) -> None:
            self._pending_responses -= 1
            if self._all_responses_sent is not None:
                self._check_responses(self._all_responses_sent)
            self._on_send_settled(size)
            if window:
                self._send_producer_ack(message)
            if completion.error is not None:
                self._send_error(message, completion.error, acked=window)

        stored.then(on_stored)
        if not window:
            self.pause_until(stored, "space")

    def _on_send_waits(self, size: int) -> None:
        """Count a send of `size` bytes that waits for space."""
        self._waiting_sends += 1
        self._waiting_bytes += size
        self._budget.held += size
        if (self._waiting_sends > 1 or size > _MAXIMUM_WAITING_BYTES) and (
            not self._is_within_limits()
        ):
            self._pause_reading("waiting sends")

    def _on_send_settled(self, size: int) -> None:
        """Count a send of `size` bytes as no longer waiting."""
        self._waiting_sends -= 1
        self._waiting_bytes -= size
        self._budget.held -= size
        if self._budget.waiting:
            self._budget.resume_waiting()
        if self.read_pauses and self._is_within_limits():
            self._resume_reading("waiting sends")

    def _is_within_limits(self) -> bool:
        # one message may be long; a second long one is not read while the budget is exceeded
        exceeded = self._waiting_sends > 1 and self._budget.exceeded
        size = _WAITING_BYTES_UNDER_PRESSURE if exceeded else _MAXIMUM_WAITING_BYTES
        return self._waiting_sends <= _MAXIMUM_WAITING_SENDS and self._waiting_bytes <= size

    # responses
    def _respond_when_done(self, command: Command, result: Completion) -> None:
        size = -1
        if isinstance(command, ActiveMQMessage) and not result.done:
            size = message_size(command)
            self._on_send_waits(size)
        self._pending_responses += 1

        def respond(completion: Completion) -> None:
            self._pending_responses -= 1
            if self._all_responses_sent is not None:
                self._check_responses(self._all_responses_sent)
            if size >= 0:
                self._on_send_settled(size)
            if completion.error is not None:
                self._send_error(command, completion.error)
            elif command.response_required:
                response = result.response if isinstance(result, DeferredResponse) else Response()
                response.correlation_id = command.command_id
                self.send_command(response)

        result.then(respond)

    def _send_error(self, command: Command, error: Exception, *, acked: bool = False) -> None:
        log_unexpected(error, type(command).__name__, self)
        if self.host.store_failed:
            return  # the outcome is unknown; a client that fails over asks the next broker
        # a received PartialCommand has no such field
        if getattr(command, "response_required", False):
            self.send_command(ExceptionResponse(command.command_id, to_throwable(error)))
            return
        if self.host.rollback_only_on_async_exception:
            self._set_rollback_only(command, error)
        if isinstance(command, ActiveMQMessage) and not acked and self._has_window(command):
            self._send_producer_ack(command)  # even if refused, it no longer fills the window
        self.service_exception(error)

    def _has_window(self, message: ActiveMQMessage) -> bool:
        producer_id = message.producer_id
        exchange = None if producer_id is None else self.producers.get(producer_id.identity)
        return exchange is not None and exchange.info is not None and exchange.info.window_size > 0

    def _set_rollback_only(self, command: Command, error: Exception) -> None:
        xid = getattr(command, "transaction_id", None)
        state = None if xid is None else self.resources.connection_of(xid)
        if xid is None or state is None:
            return
        try:
            self.broker.set_rollback_only(state.context, xid, error)
        except Exception:
            logger.exception("%s: %s cannot be marked rollback-only", self, xid)
