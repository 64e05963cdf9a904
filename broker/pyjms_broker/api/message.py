"""A message in the broker: the received command, and a reference with the broker's state.

The command is never changed after it was dispatched. Counters, owner and size are in the
reference. Properties are decoded on first use and cached.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.jms.metadata import DUPLICATE_ID_PROPERTY
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BaseCommand,
    Command,
    ConsumerId,
    MessageDispatch,
    MessageId,
    TransactionId,
)
from pyjms.wire.openwire.fast_writer import patch_raw, readdress_raw
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.completion import COMPLETED, Completion

if TYPE_CHECKING:
    from pyjms_broker.api.destination import BrokerDestination, RegionDestination
    from pyjms_broker.api.subscription import Subscription

_DUPLICATE_ID_BYTES: Final = DUPLICATE_ID_PROPERTY.encode()
MOST_REDELIVERIES: Final = 1 << 30
"""The largest accepted redelivery counter; that many redeliveries can still be added."""
_RELEASED_SIZE: Final = 1024
"""Bytes that count for a message of which only the reference is in memory."""


class Position(NamedTuple):
    """A message's position within its destination; positions sort in reading order."""

    level: int
    """0 if the destination ignores priorities; otherwise 9 minus the priority."""
    arrival: int
    """The number of its arrival in this destination, from 1."""


Positions: TypeAlias = Container[Position]
"""A set of positions, or an object that implements `in` for them."""


class StoredMessage(NamedTuple):
    """A message returned by a store."""

    position: Position
    message: ActiveMQMessage


class OperationContext(NamedTuple):
    """The transaction and durability of a store operation."""

    xid: TransactionId | None = None
    """The transaction of the operation; None: it takes effect at once."""
    response_required: bool = False
    """Whether a client waits for the response, so that the change is synced before.
    (activemq-persistence K13)"""


NO_TRANSACTION: Final = OperationContext()
SYNCED: Final = OperationContext(response_required=True)


class SubscriptionKey(NamedTuple):
    """The identity of a durable subscription. (activemq-broker T16)"""

    client_id: str
    subscription_name: str


class MessageReference:
    """One message of one destination.

    A queue has one per message; the subscriptions of a topic share one. Compares and hashes by
    identity, as the key of the broker's tables.
    """

    __slots__ = (
        "_properties",
        "acked",
        "cached",
        "dead_letter",
        "destination",
        "dropped",
        "expiration",
        "group_id",
        "message_id",
        "owner",
        "persistent",
        "position",
        "priority",
        "raw_is_numbered",
        "redelivery_counter",
        "reference_count",
        "size",
        "stored_holders",
    )

    def __init__(
        self, message: ActiveMQMessage, destination: BrokerDestination, minimum_size: int = 1024
    ) -> None:
        """Create a reference to `message`, which must have a message id.

        Raises:
            JMSException: the message id is missing.
        """
        message_id = message.message_id
        if message_id is None:
            raise JMSException("A message without a message id was sent")
        content = message.content
        properties = message.marshalled_properties
        self.cached: ActiveMQMessage | None = message
        """The message; None while only its store has it."""
        self.message_id: MessageId = message_id
        self.destination: RegionDestination = destination.base
        self.expiration: int = message.expiration
        self.priority: int = message.priority
        self.persistent: bool = message.persistent
        self.group_id: str | None = message.group_id
        counter = message.redelivery_counter  # any int, as clients may set it
        self.redelivery_counter: int = (
            counter if 0 <= counter < MOST_REDELIVERIES else 0 if counter < 0 else MOST_REDELIVERIES
        )
        self.owner: Subscription | None = None
        """The consumer to which a queue has dispatched it, exclusively."""
        self.acked: bool = False
        """Queues only: whether it is acknowledged in an open transaction."""
        self.dropped: bool = False
        """Whether it has left its destination."""
        self.position: Position | None = None
        """Its position in the store, once assigned."""
        self.dead_letter: Completion = COMPLETED
        """Done when its dead letter is stored; only then may the message leave its store."""
        self.raw_is_numbered: bool = False
        """Whether the marshalled form contains the broker's number, because a store wrote it."""
        self.reference_count: int = 0
        """Topics only: number of holders that keep it in memory."""
        self.stored_holders: int = 0
        """Topics only: how many of them are durable subscriptions that have it in the store."""
        self.size: int = (
            minimum_size
            + (0 if content is None else len(content))
            + (0 if properties is None else len(properties))
        )
        self._properties: dict[str, object] | None = None

    @property
    def message(self) -> ActiveMQMessage:
        """The message, read from its store if it has left memory.

        Raises:
            JMSException: it cannot be read.
        """
        message = self.cached
        if message is None:
            self.load()
            message = self.cached
        if message is None:
            raise JMSException(
                f"Message {self.message_id} of {self.destination.destination} is not in its store"
            )
        return message

    def load(self) -> bool:
        """Read the message from its store; return whether it is there.

        Raises:
            JMSException: it cannot be read.
        """
        message = self.destination.read_stored(self.message_id)
        if message is None:
            return False
        self.cached = message
        whole = self.destination.reference_to(message).size
        if not self.dropped:
            self.destination.memory.increase(whole - self.size)
        self.size = whole
        return True

    def leave_memory(self) -> int:
        """Keep the message in its store only; return the bytes freed, which the caller subtracts.

        The caller makes sure that its store keeps it as long as it is needed.
        """
        message, position = self.cached, self.position
        if message is None or position is None or not position.arrival:
            return 0
        self.cached = self._properties = None
        self.raw_is_numbered = False
        freed = max(0, self.size - _RELEASED_SIZE)
        self.size -= freed
        return freed

    def replace_message(self, message: ActiveMQMessage) -> None:
        """Replace the message with one that has different properties but the same headers."""
        self.cached = message
        self.raw_is_numbered = False
        self._properties = None

    @property
    def broker_sequence_id(self) -> int:
        """The broker-wide number of the message (activemq-broker Q3)."""
        return self.message_id.broker_sequence_id

    def increment_reference_count(self) -> None:
        """Retain the message in memory for another holder; the first adds its size to the usage.

        Topics only: the subscriptions of a topic share a message. Source: ActiveMQ
        MessageReference.incrementReferenceCount.
        """
        if not self.reference_count:
            self.destination.memory.increase(self.size)
        self.reference_count += 1

    def decrement_reference_count(self) -> None:
        """Release the message for a holder; the last drops it and frees its memory."""
        self.reference_count -= 1
        if not self.reference_count:
            self.dropped = True
            self.destination.memory.decrease(self.size)

    def is_expired(self) -> bool:
        """Whether its time to live has passed."""
        expiration = self.expiration
        return expiration > 0 and _clock.time_ms() > expiration

    def dispatch_to(
        self, consumer_id: ConsumerId | None, redelivery_counter: int, now: int = 0
    ) -> MessageDispatch:
        """Return a new dispatch of the message; the first sets the broker's timestamps.

        `now` is the time in ms since 1970, for callers that know it.
        """
        message = self.cached
        if message is None:
            message = self.message
        if not message.broker_out_time:
            now = message.broker_out_time = now or _clock.time_ms()
            waited = now - message.broker_in_time
            statistics = self.destination.statistics
            statistics.timed += 1
            statistics.total_time += waited
            if not statistics.min_time <= waited <= statistics.max_time:
                statistics.new_extreme_time(waited)
            if message.raw is not None:
                patch_raw(message, is_numbered=self.raw_is_numbered)
        return MessageDispatch(
            consumer_id, self.destination.destination, message, redelivery_counter
        )

    @property
    def properties(self) -> dict[str, object]:
        """The application's properties, decoded on first use. Read-only by convention."""
        properties = self._properties
        if properties is None:
            properties = self._properties = self.message.properties
        return properties

    @property
    def duplicate_id(self) -> str | None:
        """The sender's duplicate id (`_AMQ_DUPL_ID`), by which duplicates are dropped."""
        marshalled = self.message.marshalled_properties
        if marshalled is None or _DUPLICATE_ID_BYTES not in marshalled:
            return None
        value = self.properties.get(DUPLICATE_ID_PROPERTY)
        return None if value is None else str(value)

    def lookup(self, name: str) -> object:
        """Return a header or property as seen by selectors; None if there is none.

        Source: JMS 3.8.1.1; openwire-encoding 18.
        """
        header = _HEADERS.get(name)
        if header is not None:
            value = header(self)
            if value is not None or name not in _FIELD_OR_PROPERTY:
                return value
        return self.properties.get(name)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _transaction_text(reference: MessageReference) -> str | None:
    message = reference.message
    return _text(message.original_transaction_id or message.transaction_id)


def _broker_path(reference: MessageReference) -> str | None:
    path = reference.message.broker_path
    return None if path is None else ",".join(str(broker) for broker in path)


_HEADERS: Final[dict[str, Callable[[MessageReference], object]]] = {
    "JMSDestination": lambda r: r.destination.destination.qualified_name,
    "JMSReplyTo": lambda r: _text(r.message.reply_to),
    "JMSType": lambda r: r.message.type,
    "JMSDeliveryMode": lambda r: "PERSISTENT" if r.message.persistent else "NON_PERSISTENT",
    "JMSPriority": lambda r: r.message.priority,
    "JMSMessageID": lambda r: str(r.message_id),
    "JMSTimestamp": lambda r: r.message.timestamp,
    "JMSCorrelationID": lambda r: r.message.correlation_id,
    "JMSExpiration": lambda r: r.message.expiration,
    "JMSRedelivered": lambda r: r.redelivery_counter > 0,
    "JMSXDeliveryCount": lambda r: r.redelivery_counter + 1,
    "JMSXGroupID": lambda r: r.message.group_id,
    "JMSXGroupSeq": lambda r: None if r.message.group_id is None else r.message.group_sequence,
    "JMSXGroupFirstForConsumer": lambda r: r.message.jms_xgroup_first_for_consumer,
    "JMSXUserID": lambda r: r.message.user_id,
    "JMSXProducerTXID": _transaction_text,
    "JMSActiveMQBrokerInTime": lambda r: r.message.broker_in_time,
    "JMSActiveMQBrokerOutTime": lambda r: r.message.broker_out_time,
    "JMSActiveMQBrokerPath": _broker_path,
}
_FIELD_OR_PROPERTY: Final = frozenset({"JMSXUserID"})
"""Headers that default to the application's property of the same name."""


C = TypeVar("C", bound=Command)


def copy_command(command: C) -> C:
    """Return an unmarshalled command of the same class with the same field values."""
    kind: Any = type(command)
    values = _values_of(kind)
    if values is not None:
        copied: C = kind(*values(command))
        return copied
    copy = type(command)()
    for field in command.LAYOUT:
        setattr(copy, field.name, getattr(command, field.name))
    return copy


@cache
def _values_of(kind: type[Command]) -> Callable[[Command], tuple[Any, ...]] | None:
    """Return a getter of a message's field values in constructor order; None for other classes.

    Copying with the constructor takes half as long as setting each field.
    """
    if kind.LAYOUT is not ActiveMQMessage.LAYOUT:
        return None
    last = [field.name for field in BaseCommand.LAYOUT]
    names = [field.name for field in kind.LAYOUT if field.name not in last]
    return attrgetter(*names, *last)


def copy_for_destination(
    message: ActiveMQMessage, destination: Destination, original: Destination | None
) -> ActiveMQMessage:
    """Return a copy of `message` with the given destination and original destination.

    Body and properties are shared; the message id is copied, so that the broker can number each
    copy. The marshalled form of `message` is reused: code that sets a field of the copy must set
    its `raw` to None, as for any message.
    """
    copy = copy_command(message)
    message_id = message.message_id
    if message_id is not None:
        copy.message_id = MessageId(
            message_id.text_view,
            message_id.producer_id,
            message_id.producer_sequence_id,
            message_id.broker_sequence_id,
        )
    copy.destination = destination
    copy.original_destination = original
    readdress_raw(copy, message)
    return copy


def duplicate_id_of(message: ActiveMQMessage) -> str | None:
    """Return the duplicate id (`_AMQ_DUPL_ID`) of a message; None: it has none."""
    marshalled = message.marshalled_properties
    if marshalled is None or _DUPLICATE_ID_BYTES not in marshalled:
        return None
    value = message.properties.get(DUPLICATE_ID_PROPERTY)
    return None if value is None else str(value)


def remove_duplicate_id(copy: ActiveMQMessage) -> None:
    """Remove the duplicate id of a copy, which may occur in another message of its target.

    Source: Artemis does not reject moved messages as duplicates.
    """
    marshalled = copy.marshalled_properties
    if marshalled is None or _DUPLICATE_ID_BYTES not in marshalled:
        return
    try:
        properties = copy.properties
    except JMSException:
        return  # stores cannot read a duplicate id in them either
    if properties.pop(DUPLICATE_ID_PROPERTY, None) is not None:
        copy.marshalled_properties = encode_map(properties)
        copy.raw = None
