"""The interfaces through which the parts of the client use the objects that created them.

    factory -> connection -> session -> delivery, producer -> interfaces -> duplicates, options

Imports go to the right only. At run time there are references to the left as well: a consumer
asks its session whether delivery is started, a session sends through its connection. These
references have the types below, so that a consumer, producer or ledger can be read and tested
without the classes of its owners.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from pyjms.client.duplicates import ConnectionAudit
from pyjms.client.listener_turns import ListenerTurns
from pyjms.client.options import ClientOptions
from pyjms.client.refusals import RefusalLog
from pyjms.client.tasks import OwnedTasks
from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException
from pyjms.jms.api import CompletionListener, MessageTransformer
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic
from pyjms.jms.message import Acknowledger, Message
from pyjms.management import JMSConnectionStats, JMSSessionStats
from pyjms.transport.openwire import RequestTransport
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerId,
    Command,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerId,
    Response,
    TransactionId,
)

__all__ = [
    "AsynchronousSends",
    "BrokerIdentity",
    "ClientConnection",
    "ClientSession",
    "DispatchTarget",
    "ListenerDispatch",
    "ListenerTarget",
    "SessionAcknowledgement",
    "Transaction",
    "WindowedProducer",
]

_T = TypeVar("_T", TemporaryQueue, TemporaryTopic)


class DispatchTarget(Protocol):
    """A consumer as an entry of the connection's dispatch table."""

    consumer_id: ConsumerId

    def dispatch(self, dispatch: MessageDispatch) -> None:
        """Accept a message from the broker. Synchronous; must not block."""

    def interrupted(self) -> None:
        """Drop the lost broker's messages: the next broker dispatches them again."""


class WindowedProducer(Protocol):
    """A producer as an entry of the connection's table of producers."""

    producer_id: ProducerId

    def on_producer_ack(self, size: int) -> None:
        """Reduce the unacknowledged bytes by `size`: the broker has acknowledged them."""

    def interrupted(self) -> None:
        """Expect no further acknowledgement of messages that were sent to the lost broker."""


class BrokerIdentity(Protocol):
    """The identity that a broker announces."""

    broker_id: BrokerId | None
    """None before BrokerInfo has been received."""


class ClientConnection(Protocol):
    """The connection as used by its sessions and the objects that they create."""

    connection_id: ConnectionId
    options: ClientOptions
    transport: RequestTransport
    is_started: bool
    failure: Exception | None
    """Why the connection failed; None: it has not."""
    audit: ConnectionAudit | None
    """The duplicate audit; None if `check_for_duplicates` is off."""
    transformer: MessageTransformer | None
    """The message transformer of new sessions."""
    stats: JMSConnectionStats | None
    """The statistics; None if `stats_enabled` is off."""
    listener_turns: ListenerTurns
    """The turns of its listeners, which `always_session_async=False` makes them take."""
    refusals: RefusalLog
    """The log of messages that the connection's consumers refuse."""
    optimizes_acks: bool
    """Whether AUTO sessions acknowledge in ranges."""
    shared_subscriptions: dict[str, set[Queue]]
    """The queues of the shared durable subscriptions used here, by their names."""

    @property
    def broker_commands(self) -> BrokerIdentity:
        """The broker's identity, as announced in BrokerInfo."""

    @property
    def registered_client_id(self) -> str | None:
        """The client id under which the broker knows the connection."""

    @property
    def has_own_client_id(self) -> bool:
        """Whether the application set the client id, as durable subscriptions require."""

    def check_open(self) -> None:
        """Raise if the connection is closed or has failed."""

    # --- sending

    def oneway(self, command: Command, /) -> None:
        """Queue `command` for writing. Synchronous."""

    def oneway_if_open(self, command: Command) -> None:
        """Queue `command` unless the transport has failed."""

    def send_now(self) -> None:
        """Send the queued commands now."""

    async def request(self, command: Command, timeout: float | None = None) -> Response:
        """Send `command` and wait for its response, at most `timeout` seconds."""

    # --- temporary destinations

    async def create_temporary(self, kind: type[_T], /) -> _T:
        """Create a temporary destination of this connection."""

    async def delete_temporary(self, destination: Destination, /) -> None:
        """Delete a temporary destination of this connection."""

    def check_sendable(self, destination: Destination, /) -> None:
        """Raise if `destination` is a temporary destination that no longer exists."""

    def check_consumable(self, destination: Destination, /) -> None:
        """Raise if `destination` is a temporary destination that cannot be consumed here."""

    # --- registration

    def next_transaction_id(self) -> LocalTransactionId:
        """Return the id of a new local transaction."""

    def add_consumer(self, consumer: DispatchTarget) -> None:
        """Route the dispatches for a consumer's id to the consumer."""

    def remove_consumer(self, consumer_id: ConsumerId) -> None:
        """Stop routing dispatches to a consumer, and drop its duplicate audit."""

    def add_producer(self, producer: WindowedProducer) -> None:
        """Route producer acknowledgements to this producer."""

    def remove_producer(self, producer_id: ProducerId) -> None:
        """Stop routing producer acknowledgements to a producer."""

    def consumers_holding(self, message_id: MessageId | None) -> list[ConsumerId]:
        """Return the consumers whose open transactions have received this message."""

    # --- failures

    def report(self, error: JMSException) -> None:
        """Pass an error that no caller would see to the exception listener, or log it."""

    def fail(self, error: JMSException) -> None:
        """Fail the connection and close its transport, after an error that it cannot survive."""

    def warn_once(self, text: str) -> None:
        """Log a warning, unless this connection has logged it before."""

    def failed_error(self) -> JMSException:
        """Return a new exception with the reason why the connection has failed."""


class Transaction(Protocol):
    """A session's transaction. `id` is None while there is none."""

    @property
    def id(self) -> TransactionId | None: ...

    def begin(self) -> TransactionId:
        """Return the id of the transaction; begin one if there is none."""

    def redelivered(self) -> None:
        """Record that a message delivered before an interruption was dispatched again."""


class SessionAcknowledgement(Protocol):
    """The acknowledgements of a session as used by its consumers."""

    @property
    def waits_for_responses(self) -> bool:
        """Whether the broker's responses to acknowledgements are awaited."""

    async def wait(self) -> None:
        """Wait for pending responses; raise if the broker refused an acknowledgement."""

    async def wait_or_report(self) -> None:
        """Wait for pending responses; report refused acknowledgements."""

    def acknowledger_for(
        self, acknowledge_one: Callable[[MessageDispatch], None] | None
    ) -> Acknowledger:
        """Return the function behind `message.acknowledge()`; INDIVIDUAL: `acknowledge_one`."""


class ListenerTarget(Protocol):
    """A target of the session's dispatcher: a consumer's listener, or completion listeners."""

    is_queued: bool
    """Set while the dispatcher has it in its queue."""

    @property
    def listener_name(self) -> str:
        """The description of the listener in messages about failures."""

    async def deliver_one(self) -> bool:
        """Make one call; return whether more calls are due."""


class ListenerDispatch(Protocol):
    """The session's listener dispatcher as used by consumers and producers."""

    @property
    def is_busy(self) -> bool:
        """Whether a listener of the session is running."""

    @property
    def is_own_call(self) -> bool:
        """Whether the caller runs inside a listener of this session."""

    def wake(self, consumer: ListenerTarget) -> None:
        """Schedule the listener of `consumer`."""

    def at_end_of_burst(self, function: Callable[[], object]) -> bool:
        """Call `function()` when the burst of listener calls ends; False: no burst is running."""

    async def wait_idle(self, consumer: ListenerTarget | None = None) -> None:
        """Wait until no listener (of `consumer`) is running."""


class AsynchronousSends(Protocol):
    """The asynchronous sends of a session as used by its producers."""

    def check(self, call: str) -> None:
        """Raise if a completion listener makes this `call`, which would wait for the listener."""

    def check_sendable(self, message: Message) -> None:
        """Raise if `message` is being sent asynchronously."""

    async def send(
        self, command: ActiveMQMessage, message: Message, listener: CompletionListener
    ) -> None:
        """Send `command`; `listener` is called with the outcome."""

    async def finish(self, producer_id: ProducerId | None = None) -> None:
        """Wait for all completion listeners (of a producer), at most for the close timeout."""


class SingleUse(Protocol):
    """Detects that two tasks or threads use a session at the same time."""

    @property
    def thread(self) -> int:
        """The identifier of the thread of the session's event loop."""

    @property
    def ending(self) -> str | None:
        """The call in progress that ends the unit of work, or None."""

    def check(self, call: str, /) -> None:
        """Raise IllegalStateException if `call` must not be made now."""


class ClientSession(Protocol):
    """The session as used by its consumers, producers and browsers."""

    connection: ClientConnection
    transformer: MessageTransformer | None
    """The message transformer of new producers and consumers."""
    tasks: OwnedTasks
    is_started: bool
    reorders: bool
    """Whether messages may be delivered in another order than the broker's."""
    has_listener: bool
    """Whether the session or one of its consumers has a listener: receive() is refused."""

    @property
    def acknowledge_mode(self) -> AcknowledgeMode: ...
    @property
    def transacted(self) -> bool: ...
    @property
    def transaction(self) -> Transaction: ...
    @property
    def acks(self) -> SessionAcknowledgement: ...
    @property
    def use(self) -> SingleUse: ...
    @property
    def stats(self) -> JMSSessionStats | None:
        """The statistics; None if `stats_enabled` is off."""

    @property
    def dispatcher(self) -> ListenerDispatch: ...
    @property
    def completions(self) -> AsynchronousSends: ...
    @property
    def has_own_listener(self) -> bool:
        """Whether the session itself has a listener, which replaces those of its consumers."""

    def send_ack(self, ack: MessageAck, /) -> None:
        """Send an acknowledgement. Synchronous."""

    def check_open(self) -> None:
        """Raise if the session is closed or its connection has failed."""

    def listeners_changed(self) -> None:
        """Update `has_listener`."""

    def message_before_start(self) -> None:
        """Record that a message arrived before the connection was started."""

    def consumer_closed(self, consumer_id: ConsumerId) -> None:
        """Remove a consumer that was closed by the application."""

    def producer_closed(self, producer_id: ProducerId) -> None:
        """Remove a producer that was closed by the application."""
