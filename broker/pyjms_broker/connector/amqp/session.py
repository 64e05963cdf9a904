"""The session of one AMQP client, which translates between its links and commands.

    connection of the broker (pyjms_broker/connector/openwire)    commands
    AmqpSession, links, transactions                              commands <-> links, deliveries
    engine (pyjms/wire/amqp)                                      links <-> frames
    TcpTransport with AmqpFormat                                  frames <-> bytes

An AMQP client is thus treated like an OpenWire client, including limits and back-pressure. A
command that requires a response is kept until the response arrives, which is within `to_broker`
unless it waits for a store or for space.

    AMQP                              broker
    Open, container-id                connection, client id
    Begin                             session
    link of a client that sends       producer                    (producer_links)
    link of a client that receives    consumer without prefetch   (consumer_links)
    link to the coordinator           transactions                (transactions)

The login is checked during SASL, before the client is known by its container-id; with the Open it
becomes a connection, which is not checked again. (amqp-connector A20 to A46)
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import anyio

from pyjms.errors import ConnectionFailedException, JMSException, LocalProtocolError
from pyjms.jms.destination import Destination, TemporaryQueue, TemporaryTopic
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import spawn
from pyjms.runtime.logging import get_logger
from pyjms.transport.tcp import HIGH_WATER, LOW_WATER
from pyjms.wire.amqp.deliveries import Delivery
from pyjms.wire.amqp.engine import Engine, EngineSettings, Stage
from pyjms.wire.amqp.format import AmqpFormat, Item
from pyjms.wire.amqp.links import Receiver, Sender
from pyjms.wire.amqp.performatives import Error, Open
from pyjms.wire.amqp.session import Session
from pyjms.wire.amqp.values import Symbol
from pyjms.wire.limits import UnfinishedFrame
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BaseCommand,
    Command,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    DestinationInfo,
    ExceptionResponse,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    ProducerId,
    RemoveInfo,
    Response,
    SessionId,
    SessionInfo,
    Throwable,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext, SecurityContext
from pyjms_broker.api.fields import MAX_NAME, name_fault
from pyjms_broker.connector.amqp.consumer_links import MOST_KEPT, ConsumerLink, attach_consumer
from pyjms_broker.connector.amqp.nodes import (
    CONNECTION_FORCED,
    DECODE_ERROR,
    ILLEGAL_STATE,
    INTERNAL_ERROR,
    INVALID_FIELD,
    OPEN_CONDITIONS,
    PRECONDITION_FAILED,
    RESOURCE_LIMIT,
    error_of,
)
from pyjms_broker.connector.amqp.producer_links import ProducerLink, attach_producer, producer_of
from pyjms_broker.connector.amqp.transactions import Transaction, attach_coordinator
from pyjms_broker.connector.base import MAXIMUM_PER_CONNECTION, BrokerHost
from pyjms_broker.connector.client_session import ClientSession, Failed, State

if TYPE_CHECKING:
    from pyjms_broker.connector.amqp.connector import AmqpOptions
    from pyjms_broker.connector.client_connector import Accepted

logger = get_logger(__name__)

I = TypeVar("I")  # noqa: E741 - an item, or several
R = TypeVar("R")

_CHANNEL_MAX: Final = 32_767
_CHECKS: Final = 4
"""A client is checked so many times in its idle time-out."""
_LEAST_PERIOD: Final = 0.01
"""Seconds between checks at least, whatever the client's time-out is."""
EXTERNAL: Final = "EXTERNAL"
_MECHANISMS: Final = ("PLAIN", "ANONYMOUS")
_CAPABILITIES: Final = ("ANONYMOUS-RELAY", "DELAYED_DELIVERY")
_PROVIDER: Final = ConnectionMetaData()
_OWN_PROPERTIES: Final = {
    Symbol("product"): _PROVIDER.jms_provider_name,
    Symbol("version"): _PROVIDER.provider_version,
    Symbol("platform"): "Python",
    Symbol("queue-prefix"): "queue://",
    Symbol("topic-prefix"): "topic://",
}
_STOPS: Final = "The broker is stopping"
_CLOSED: Final = "The broker has closed the connection"
_REMOVE: Final = 1
"""`DestinationInfo.operation_type` of a removal."""
_CLIENT_ID_FIELD: Final = {Symbol("invalid-field"): Symbol("container-id")}


class AmqpSession(ClientSession[Item]):
    """The transport of one client for the broker's connection. Use it on the broker's event loop.

    Args:
        accepted: the connection.
        options: the options of the connector.
        host: the broker.
        connection_id: the id of the client's JMS connection.
    """

    FIRST: ClassVar[str] = "Open"

    def __init__(
        self, accepted: Accepted, options: AmqpOptions, host: BrokerHost, connection_id: str
    ) -> None:
        wire_format = AmqpFormat(options.largest_frame)
        super().__init__(accepted, wire_format, options, host, connection_id)
        self.runs_are_raw = False
        self.options = options
        self._engine: Engine | None = None
        self.consumers: dict[ConsumerId | None, ConsumerLink] = {}
        self.producers: dict[ProducerId, ProducerLink] = {}
        self.transactions: dict[bytes, Transaction] = {}
        """The open ones, by the ids that the client has."""
        self._accepted = accepted
        self._credentials = ConnectionInfo()
        self._security: SecurityContext | None = None
        self._transaction_numbers = itertools.count(1)
        self._published: dict[int, Delivery] = {}
        """The messages that the broker has not answered, by the numbers of their commands."""
        self._with_unsent_acks: dict[ConsumerLink, None] = {}
        self._together: deque[Command] = deque()
        """Messages and acknowledgements of one chunk of input, which go to the broker together."""
        self.held_links: dict[ConsumerLink, None] = {}
        """Those that get no messages until the client has settled more."""
        self._is_sending = False
        self._reason = _CLOSED
        """Why the broker closes the connection."""
        self._windows: anyio.Event | None = None
        """Set when the client's session windows have room again, or the session has ended."""

    @property
    def engine(self) -> Engine:
        """The state of the client's connection, sessions and links.

        It is created with the first frame, when the client's certificate is known.
        """
        if self._engine is None:
            self._engine = self._create_engine()
        return self._engine

    def _create_engine(self) -> Engine:
        options = self.options
        has_certificate = self.peer_certificate is not None
        settings = EngineSettings(
            mechanisms=(EXTERNAL, *_MECHANISMS) if has_certificate else _MECHANISMS,
            allow_non_sasl=options.allow_non_sasl,
            max_frame_size=options.largest_frame,
            channel_max=_CHANNEL_MAX,
            max_message_size=options.max_frame_size,
            max_sessions=MAXIMUM_PER_CONNECTION,
            max_links=2 * MAXIMUM_PER_CONNECTION,
            max_name=MAX_NAME,
            max_names=self.host.client_memory_limit,
        )
        partial_messages = UnfinishedFrame(self.host.frame_budget)
        partial_messages.fail = self._tcp.fail
        engine = Engine(self, self.to_client, settings, partial_messages)
        engine.defer = self._tcp.defer
        return engine

    @property
    def protocol(self) -> str:
        return "AMQP 1.0"

    @property
    def login(self) -> SecurityContext | None:
        return self._security

    def defer(self, function: Callable[[], object]) -> bool:
        return self._tcp.defer(function)

    @property
    def congested(self) -> bool:
        return self._tcp.congested or self.engine.queued > HIGH_WATER

    async def drain(self) -> None:
        """Wait until the client has read, and has opened the windows of its sessions."""
        await self._tcp.drain()
        while self.engine.queued > LOW_WATER:
            self._windows = self._windows or anyio.Event()
            await self._windows.wait()
            await self._tcp.drain()

    def on_exception(self, error: Exception) -> None:
        self._discard()
        super().on_exception(error)

    def _discard(self) -> None:
        self.engine.discard()
        self._end_wait()

    def _end_wait(self) -> None:
        waiting, self._windows = self._windows, None
        if waiting is not None:
            waiting.set()

    def on_release(self, refused: Collection[ActiveMQMessage], error: Exception | None) -> None:
        if error is not None:
            self._reason = error.reason if isinstance(error, JMSException) else str(error)

    async def stop(self) -> None:
        """Close the connection: with the reason, if the broker does it and not the client."""
        if self.status is not State.CLOSED and self.engine.stage == Stage.OPEN:
            reason = _STOPS if self._accepted.connector.stopping else self._reason
            error = Error(CONNECTION_FORCED, reason)
            self.call_unless_lost(partial(self.engine.close, error))
        self._discard()
        await super().stop()

    def link_of(self, member: ConsumerId | ProducerId) -> ConsumerLink | ProducerLink | None:
        if isinstance(member, ConsumerId):
            return self.consumers.get(member)
        return self.producers.get(member)

    def on_destination_removed(self, consumer_id: ConsumerId) -> None:
        link = self.consumers.get(consumer_id)
        if link is not None:
            # the broker is removing it, and cannot remove the consumer meanwhile
            self.call_next(partial(self.call_unless_lost, link.on_destination_removed))

    # from the client
    def on_frames(self, frames: deque[Item]) -> None:
        while frames and not self.is_paused:
            is_closed = self.status is State.CLOSED
            taken = None if is_closed else self._receive(self.engine.receive_run, frames)
            if not taken and frames:  # a run that has failed may have been the rest
                self.on_command(frames.popleft())
        self.limit_unread()
        self.send_together()
        if self.held_links:
            self.release_links()

    def on_command(self, item: Item) -> None:
        """Handle a frame. (amqp-connector A173)"""
        if self.status is not State.CLOSED:
            self._receive(self.engine.receive, item)

    def _receive(self, receive: Callable[[I], R], given: I) -> R | None:
        """Give the engine what the client has sent; an error ends the connection."""
        try:
            result = receive(given)
            if self._windows is not None and self.engine.queued <= LOW_WATER:
                self._end_wait()
            return result
        except ConnectionFailedException as error:
            logger.debug("An AMQP client has disconnected: %s", error)
        except JMSException as error:
            self.fail(Error(DECODE_ERROR, "Could not process AMQP commands"), error.reason)
        except Exception as error:
            logger.exception("%s: a frame could not be handled", self)
            self.fail(Error(INTERNAL_ERROR, "Could not process AMQP commands"), repr(error))
        return None

    def release_links(self) -> None:
        """Give the links that wait for settlements their credit again, if there are enough."""
        if self.engine.kept <= MOST_KEPT:
            released, self.held_links = self.held_links, {}
            for link in released:
                self.call_unless_lost(link.offer_credit)

    def call_unless_lost(self, call: Callable[[], object]) -> None:
        """Call a function that may send frames, although the client may have disconnected."""
        try:
            call()
        except ConnectionFailedException as error:
            logger.debug("An AMQP client has disconnected: %s", error)

    # login and connection (events of the engine)
    def on_login(self, mechanism: str, user: str | None, password: str | None) -> None:
        """Check a login. (amqp-connector A25)"""
        info = ConnectionInfo(self.connection_id, None, password, user)
        info.client_ip = self.remote_address
        context = ConnectionContext()
        context.introduce(info)
        context.certificate = self.peer_certificate
        context.connector_name = self._accepted.connector.name
        context.connector_url = self._accepted.connector.connect_uri
        self._credentials = info

        def on_checked(checked: Completion) -> None:
            if checked.error is None:
                self._security = context.security
                self.call_unless_lost(self.engine.accept_login)
            else:
                reason = checked.error
                logger.info("%s: the login (%s) is refused: %s", self, mechanism, reason)
                self.call_unless_lost(self.engine.refuse_login)

        try:
            checked = self.host.broker.authenticate(context, info)
        except JMSException as error:
            checked = Completion()
            checked.complete(error)
        checked.then(on_checked)

    def on_open(self, peer: Open) -> None:
        """Register the client. (amqp-connector A33 to A37)"""
        if peer.idle_time_out and not self.options.use_inactivity_monitor:
            self._refuse(Error(PRECONDITION_FAILED, "Cannot send idle frames"))
            return
        fault = name_fault(peer.container_id)
        if fault is not None:
            text = f"The container-id {fault}"
            self._refuse(Error(INVALID_FIELD, text, dict(_CLIENT_ID_FIELD)))
            return
        self.client_id = peer.container_id
        given = self._credentials
        info = ConnectionInfo(
            self.connection_id, self.client_id or None, given.password, given.user_name
        )
        self.request(info, partial(self._on_connected, peer), self._on_refused)

    def _on_refused(self, failure: Throwable | None) -> None:
        error = error_of(failure, OPEN_CONDITIONS, ILLEGAL_STATE)
        if failure is not None and failure.class_name == "javax.jms.InvalidClientIDException":
            error.info = dict(_CLIENT_ID_FIELD)
        self._refuse(error)

    def _refuse(self, error: Error) -> None:
        logger.info("%s: the client is refused: %s", self, error.description)
        self.engine.refuse_open(error)

    def _on_connected(self, peer: Open) -> None:
        self.status = State.CONNECTED
        self.identified.set()
        idle = self.options.idle_timeout if self.options.use_inactivity_monitor else 0.0
        self.engine.open(
            Open(
                self.host.broker_name,
                max_frame_size=self.options.largest_frame,
                channel_max=_CHANNEL_MAX,
                idle_time_out=round(idle * 500) or None,
                offered_capabilities=list(_CAPABILITIES),
                properties=dict(_OWN_PROPERTIES),
            )
        )
        self._start_keep_alive((peer.idle_time_out or 0) / 1000, idle)

    def _start_keep_alive(self, client: float, own: float) -> None:
        """Send empty frames to a client with a time-out, and disconnect a silent one.

        Both are in seconds; 0: never. (amqp-connector A38, A39)
        """
        periods = [seconds / _CHECKS for seconds in (client, own) if seconds]
        if not periods:
            return
        tcp, period = self._tcp, max(min(periods), _LEAST_PERIOD)

        async def watch() -> None:
            now = _clock.now()
            sent, received = tcp.sent_commands, tcp.received_bytes
            last_sent = last_received = now
            while True:
                await _clock.sleep(period)
                now = _clock.now()
                if sent != tcp.sent_commands or tcp.writing:
                    sent, last_sent = tcp.sent_commands, now
                elif client and now - last_sent >= client / 2 - period / 2:
                    self.call_unless_lost(self.engine.keep_alive)
                    sent, last_sent = tcp.sent_commands, now
                if received != tcp.received_bytes or tcp.reading_paused:
                    received, last_received = tcp.received_bytes, now
                elif own and now - last_received >= own:
                    error = Error(RESOURCE_LIMIT, "local-idle-timeout expired")
                    self.fail(error, f"it sent nothing for {own:g} s")
                    return

        name = f"broker {self.remote_address} idle time-out"
        self.keep_alive = spawn(watch, name=name, on_error=tcp.fail)

    def on_close(self, error: Error | None) -> None:
        """End the connection as its client asks for it. (amqp-connector A40)"""
        if error is not None:
            logger.info("%s reports: %s: %s", self, error.condition, error.description)
        self.send_unsent_acks()
        self.consumers.clear()
        self.producers.clear()
        self.to_broker(RemoveInfo(self.connection_id))

    def on_finish(self) -> None:
        """Close the connection, as nothing more is sent."""
        self.close()

    def fail(self, error: Error, reason: str = "") -> None:
        """End the connection because of an error."""
        if self.status is not State.CLOSED:
            logger.info(
                "%s is disconnected (%s): %s", self, error.condition, reason or error.description
            )
            self.call_unless_lost(lambda: self.engine.close(error))
            self.close()

    def __str__(self) -> str:
        return self.remote_address

    # sessions and links (events of the engine)
    def on_begin(self, session: Session) -> None:
        """Add a session. (amqp-connector A45, A46)"""
        session_id = SessionId(str(self.connection_id), next(self.numbers))
        session.context = session_id

        def on_refusal(failure: Throwable | None) -> None:
            session.end(error_of(failure, OPEN_CONDITIONS, RESOURCE_LIMIT))

        self.request(SessionInfo(session_id), failed=on_refusal)  # it is answered at once

    def on_end(self, session: Session, error: Error | None) -> None:
        """Remove a session with its links."""
        if error is not None:
            logger.info("%s ends a session: %s: %s", self, error.condition, error.description)
        self.send_unsent_acks()
        attached = [link.context for link in session.links.values() if link.context is not None]
        for link in attached:
            link.forget()
        self.to_broker(RemoveInfo(session.context))
        for link in attached:
            if link.dynamic is not None:
                self.remove_temporary(link.dynamic)

    def on_attach(self, link: Receiver | Sender) -> None:
        """Add a producer, a consumer, or a link for transactions."""
        if isinstance(link, Sender):
            attach_consumer(self, link)
        elif link.is_coordinator:
            attach_coordinator(self, link)
        else:
            attach_producer(self, link)

    # to the broker
    def publish(self, messages: list[ActiveMQMessage], deliveries: list[Delivery]) -> None:
        """Send messages to the broker with the others of the chunk; their link gets the answers."""
        ids, published = self.command_ids, self._published
        for message, delivery in zip(messages, deliveries, strict=True):
            message.command_id = number = next(ids)
            message.response_required = True
            published[number] = delivery
        self._together += messages

    def acknowledge(self, ack: MessageAck) -> None:
        """Send an acknowledgement to the broker with the others of the chunk, without response."""
        ack.command_id = next(self.command_ids)
        self._together.append(ack)

    def send_together(self) -> None:
        """Send what the chunk has brought, also if the broker wants nothing more to be read."""
        if not self._is_sending:
            self._is_sending = True
            try:
                while self._together:
                    self.connection.on_commands(self._together)
            finally:
                self._is_sending = False

    def to_broker(self, command: Command) -> None:
        if self._together:
            self.send_together()
        super().to_broker(command)

    def send(self, command: BaseCommand) -> None:
        """Send a command without response to the broker."""
        command.command_id = next(self.command_ids)
        self.to_broker(command)

    def create_temporary(
        self,
        kind: type[TemporaryQueue | TemporaryTopic],
        done: Callable[[Destination], object],
        failed: Failed,
    ) -> None:
        """Create the destination of a dynamic node."""
        destination = kind(f"{self.connection_id}:{next(self.numbers)}")
        info = DestinationInfo(self.connection_id, destination)
        self.request(info, partial(done, destination), failed)

    def remove_temporary(self, destination: Destination) -> None:
        """Remove the destination of a dynamic node. (amqp-connector A59)"""
        self.request(DestinationInfo(self.connection_id, destination, _REMOVE))

    def new_transaction(self) -> LocalTransactionId:
        """Return the id of a new transaction."""
        return LocalTransactionId(next(self._transaction_numbers), self.connection_id)

    def acknowledge_later(self, link: ConsumerLink) -> None:
        """Send the acknowledgements of a link that its client does not send, soon."""
        # while it is dispatching, the broker does not accept acknowledgements
        if not self._with_unsent_acks and not self.defer(self.send_unsent_acks):
            self.call_next(self.send_unsent_acks)
        self._with_unsent_acks[link] = None

    def send_unsent_acks(self) -> None:
        """Send such acknowledgements now."""
        waiting, self._with_unsent_acks = self._with_unsent_acks, {}
        acks: deque[Command] = deque()
        for link in waiting:
            acks += link.take_unsent()
        if self._together:
            self.send_together()
        while acks:  # a pause of reading does not hold them back
            self.connection.on_commands(acks)

    # from the broker
    def oneway(self, command: Command) -> None:
        """Handle a command from the broker: a response, a message or a notification.

        Raises:
            ConnectionFailedException: the connection has ended.
            LocalProtocolError: the message cannot be converted.
        """
        if isinstance(command, MessageDispatch):
            link = self.consumers.get(command.consumer_id)
            if link is not None:
                link.dispatch(command)
        elif isinstance(command, Response):
            self.on_response(command)
        elif isinstance(command, ConnectionErrorCommand):
            self.fail(error_of(command.exception, OPEN_CONDITIONS, INTERNAL_ERROR))
        elif isinstance(command, ConsumerControl) and command.close:
            link = self.consumers.get(command.consumer_id)
            if link is not None:
                # the broker cannot remove the consumer while it is dispatching
                self.call_next(partial(self.call_unless_lost, link.on_closed_by_broker))

    @property
    def run_room(self) -> int:
        queued = self._tcp.queued_bytes
        return 0 if queued is None else max(0, HIGH_WATER - queued - self.engine.queued)

    def oneway_run(self, commands: Sequence[Command]) -> int:
        first, count = commands[0], 0
        try:
            if isinstance(first, MessageDispatch):
                link = self.consumers.get(first.consumer_id)
                count = 0 if link is None else link.dispatch_run(commands)
            else:
                count = self._accept_run(commands)
            for command in islice(commands, count, None):
                self.oneway(command)
                count += 1
        except ConnectionFailedException as error:
            logger.debug("An AMQP client has disconnected: %s", error)
        except LocalProtocolError:
            pass  # the broker sends the message by itself, and gets the error
        return count

    def _accept_run(self, responses: Sequence[Command]) -> int:
        """Tell the links that the broker has messages; return how many responses did so."""
        published, count = self._published, 0
        accepted: list[Delivery] = []
        for response in responses:
            number = response.correlation_id if type(response) is Response else 0
            delivery = published.pop(number, None)
            if delivery is None:
                break
            count += 1
            if accepted and (
                accepted[-1].link is not delivery.link
                or accepted[-1].context is not delivery.context
            ):
                producer_of(accepted[0]).on_accepted(accepted)
                accepted = []
            accepted.append(delivery)
        if accepted:
            producer_of(accepted[0]).on_accepted(accepted)
        return count

    def on_refusal(self, error: Throwable | None, failed: Failed | None) -> None:
        if failed is not None:
            failed(error)
        else:
            logger.info("%s: a request is refused: %s", self, error)

    def on_response(self, response: Response) -> None:
        delivery = self._published.pop(response.correlation_id, None)
        if delivery is None:
            super().on_response(response)
        elif isinstance(response, ExceptionResponse):
            producer_of(delivery).on_refusal(delivery, response.exception)
        else:
            producer_of(delivery).on_accepted([delivery])
