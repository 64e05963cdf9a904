"""The 57 data structures of OpenWire, and `TYPES`: type code to class.

A class names its type code, `TYPE`, and lists its fields in `LAYOUT` in wire order; the marshallers
iterate over it. `__slots__`, `TYPE`, `LAYOUT` and the constructor are generated from
config/codegen/commands.yaml, with filled lines. Constructors take a class's fields in wire order,
then `command_id` and `response_required`. Fields are plain attributes in snake_case.

Identifiers compare and hash by value and are shared freely: do not change them. The one exception
is `MessageId.broker_sequence_id`, which the broker sets when it accepts the message; it is not part
of the identity. Every other structure is mutable and compares by identity, so that it can be a dict
key or a member of a set; `contents` returns a representation that compares by value.
(openwire-encoding 9)
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar, Final, NamedTuple

from pyjms.jms.destination import Destination
from pyjms.wire.limits import MAX_PROPERTY_VALUES
from pyjms.wire.openwire import kinds
from pyjms.wire.openwire.primitives import decode_map

# fmt: off


class Field(NamedTuple):
    """A field: its attribute, its kind on the wire, and the first protocol version that has it.

    `of` names the class of the values of a nested, cached or array field; "any" is any class.
    """

    name: str
    kind: int
    since: int
    of: str = ""


class DataStructure:
    """Base of everything with a type code. Compares by identity, unless it is an identifier."""

    __slots__ = ()
    TYPE: ClassVar[int] = 0
    LAYOUT: ClassVar[tuple[Field, ...]] = ()
    MARSHALL_AWARE: ClassVar[bool] = False
    OLDER_LAYOUTS: ClassVar[dict[int, tuple[Field, ...]]] = {}

    def __repr__(self) -> str:
        fields = [
            f"{f.name}={getattr(self, f.name)!r}"
            for f in self.LAYOUT
            if f.name not in ("content", "marshalled_properties", "password")
        ]
        return f"{type(self).__name__}({', '.join(fields)})"


class Identifier(DataStructure):
    """An immutable id, which compares and hashes by value.

    `identity` has its type code and the values of its fields: the key to use where ids are looked
    up for each message, since a tuple is hashed and compared without calling Python code.
    """

    __slots__ = ("identity",)
    identity: tuple[object, ...]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Identifier) and self.identity == other.identity)

    def __hash__(self) -> int:
        return hash(self.identity)


class Command(DataStructure):
    """A data structure that is sent in its own frame."""

    __slots__ = ("command_id", "response_required")
    command_id: int
    response_required: bool


class BaseCommand(Command):
    """A command with an id, which may require a response."""

    __slots__ = ()
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("command_id", kinds.INT, 1),
        Field("response_required", kinds.BOOLEAN, 1),
    )

    def __init__(self, command_id: int = 0, response_required: bool = False) -> None:
        self.command_id = command_id
        self.response_required = response_required


def contents(value: object) -> object:
    """Return the contents of `value` in a form that compares by value: its type and all fields.

    Nested structures and lists are converted recursively. Identifiers and other values, which
    already compare by value, are returned unchanged. For tests and diagnostics only, as it is slow.
    """
    if isinstance(value, list):
        return [contents(item) for item in value]
    if not isinstance(value, DataStructure) or isinstance(value, Identifier):
        return value
    return (type(value).__name__, {f.name: contents(getattr(value, f.name)) for f in value.LAYOUT})


class StackTraceElement(NamedTuple):
    """One line of a Java stack trace."""

    declaring_class: str | None
    method: str | None
    file: str | None
    line: int


class Throwable(NamedTuple):
    """An exception as sent on the wire: Java class name, message, stack trace and cause."""

    class_name: str | None
    message: str | None
    stack_trace: tuple[StackTraceElement, ...] = ()
    cause: Throwable | None = None


class BrokerId(Identifier):
    """A broker."""

    # generated: BrokerId
    __slots__ = ("value",)
    TYPE: ClassVar[int] = 124
    LAYOUT: ClassVar[tuple[Field, ...]] = (Field("value", kinds.STRING, 1),)

    def __init__(self, value: str | None = None) -> None:
        self.value = value
        self.identity = (124, value)
    # end generated

    def __str__(self) -> str:
        return self.value or ""


class ConnectionId(Identifier):
    """A connection: `ID:host-port-millis-n:1`."""

    # generated: ConnectionId
    __slots__ = ("value",)
    TYPE: ClassVar[int] = 120
    LAYOUT: ClassVar[tuple[Field, ...]] = (Field("value", kinds.STRING, 1),)

    def __init__(self, value: str | None = None) -> None:
        self.value = value
        self.identity = (120, value)
    # end generated

    def __str__(self) -> str:
        return self.value or ""


class SessionId(Identifier):
    """A session of a connection, from 1; -1 is the one that needs no SessionInfo."""

    # generated: SessionId
    __slots__ = ("connection_id", "value")
    TYPE: ClassVar[int] = 121
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("connection_id", kinds.STRING, 1), Field("value", kinds.LONG, 1),
    )

    def __init__(self, connection_id: str | None = None, value: int = 0) -> None:
        self.connection_id = connection_id
        self.value = value
        self.identity = (121, connection_id, value)
    # end generated

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.value}"


class ConsumerId(Identifier):
    """A consumer of a session."""

    # generated: ConsumerId
    __slots__ = ("connection_id", "session_id", "value")
    TYPE: ClassVar[int] = 122
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("connection_id", kinds.STRING, 1), Field("session_id", kinds.LONG, 1),
        Field("value", kinds.LONG, 1),
    )

    def __init__(
        self, connection_id: str | None = None, session_id: int = 0, value: int = 0,
    ) -> None:
        self.connection_id = connection_id
        self.session_id = session_id
        self.value = value
        self.identity = (122, connection_id, session_id, value)
    # end generated

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.session_id}:{self.value}"


class ProducerId(Identifier):
    """A producer of a session."""

    # generated: ProducerId
    __slots__ = ("connection_id", "session_id", "value")
    TYPE: ClassVar[int] = 123
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("connection_id", kinds.STRING, 1), Field("value", kinds.LONG, 1),
        Field("session_id", kinds.LONG, 1),
    )

    def __init__(
        self, connection_id: str | None = None, value: int = 0, session_id: int = 0,
    ) -> None:
        self.connection_id = connection_id
        self.value = value
        self.session_id = session_id
        self.identity = (123, connection_id, session_id, value)
    # end generated

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.session_id}:{self.value}"


class MessageId(Identifier):
    """A message: its producer and that producer's sequence number, from 1."""

    # generated: MessageId
    __slots__ = ("broker_sequence_id", "producer_id", "producer_sequence_id", "text_view")
    TYPE: ClassVar[int] = 110
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("text_view", kinds.STRING, 10),
        Field("producer_id", kinds.CACHED, 1, "ProducerId"),
        Field("producer_sequence_id", kinds.LONG, 1),
        Field("broker_sequence_id", kinds.LONG, 1),
    )

    def __init__(
        self, text_view: str | None = None, producer_id: ProducerId | None = None,
        producer_sequence_id: int = 0, broker_sequence_id: int = 0,
    ) -> None:
        self.text_view = text_view
        self.producer_id = producer_id
        self.producer_sequence_id = producer_sequence_id
        self.broker_sequence_id = broker_sequence_id
        self.identity = (
            None if producer_id is None else producer_id.identity, producer_sequence_id,
        )
    # end generated

    def __str__(self) -> str:
        if self.text_view is not None:
            return self.text_view if self.text_view.startswith("ID:") else f"ID:{self.text_view}"
        return f"{self.producer_id}:{self.producer_sequence_id}"


class TransactionId(Identifier):
    """A local or an XA transaction."""

    __slots__ = ()


class LocalTransactionId(TransactionId):
    """A transaction of one connection, from 1."""

    # generated: LocalTransactionId
    __slots__ = ("connection_id", "value")
    TYPE: ClassVar[int] = 111
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("value", kinds.LONG, 1), Field("connection_id", kinds.CACHED, 1, "ConnectionId"),
    )

    def __init__(self, value: int = 0, connection_id: ConnectionId | None = None) -> None:
        self.value = value
        self.connection_id = connection_id
        self.identity = (111, value, None if connection_id is None else connection_id.identity)
    # end generated

    def __str__(self) -> str:
        return f"TX:{self.connection_id}:{self.value}"


class XATransactionId(TransactionId):
    """A branch of a distributed transaction."""

    # generated: XATransactionId
    __slots__ = ("branch_qualifier", "format_id", "global_transaction_id")
    TYPE: ClassVar[int] = 112
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("format_id", kinds.INT, 1), Field("global_transaction_id", kinds.BYTES, 1),
        Field("branch_qualifier", kinds.BYTES, 1),
    )

    def __init__(
        self, format_id: int = 0, global_transaction_id: bytes | None = None,
        branch_qualifier: bytes | None = None,
    ) -> None:
        self.format_id = format_id
        self.global_transaction_id = global_transaction_id
        self.branch_qualifier = branch_qualifier
        self.identity = (112, format_id, global_transaction_id, branch_qualifier)
    # end generated

    def __str__(self) -> str:
        gtrid = _signed_hex(self.global_transaction_id)
        bqual = _signed_hex(self.branch_qualifier)
        return f"XID:[{self.format_id},globalId={gtrid},branchId={bqual}]"


def _signed_hex(data: bytes | None) -> str:
    """Print each byte as Java's Integer.toHexString does: sign-extended, unpadded."""
    return "".join(f"{b | 0xFFFFFF00 if b > 127 else b:x}" for b in data or b"")


class BrokerInfo(BaseCommand):
    """Describes a broker; a network bridge sends it to introduce itself."""

    # generated: BrokerInfo
    __slots__ = (
        "broker_id", "broker_name", "broker_upload_url", "broker_url", "connection_id",
        "duplex_connection", "fault_tolerant_configuration", "master_broker",
        "network_connection", "network_properties", "peer_broker_infos", "slave_broker",
    )
    TYPE: ClassVar[int] = 2
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("broker_id", kinds.CACHED, 1, "BrokerId"),
        Field("broker_url", kinds.STRING, 1),
        Field("peer_broker_infos", kinds.ARRAY, 1, "BrokerInfo"),
        Field("broker_name", kinds.STRING, 1), Field("slave_broker", kinds.BOOLEAN, 1),
        Field("master_broker", kinds.BOOLEAN, 1),
        Field("fault_tolerant_configuration", kinds.BOOLEAN, 1),
        Field("duplex_connection", kinds.BOOLEAN, 2),
        Field("network_connection", kinds.BOOLEAN, 2), Field("connection_id", kinds.LONG, 2),
        Field("broker_upload_url", kinds.STRING, 3),
        Field("network_properties", kinds.STRING, 3),
    )

    def __init__(
        self, broker_id: BrokerId | None = None, broker_url: str | None = None,
        peer_broker_infos: list[BrokerInfo | None] | None = None,
        broker_name: str | None = None, slave_broker: bool = False, master_broker: bool = False,
        fault_tolerant_configuration: bool = False, duplex_connection: bool = False,
        network_connection: bool = False, connection_id: int = 0,
        broker_upload_url: str | None = None, network_properties: str | None = None,
        command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.broker_id = broker_id
        self.broker_url = broker_url
        self.peer_broker_infos = peer_broker_infos
        self.broker_name = broker_name
        self.slave_broker = slave_broker
        self.master_broker = master_broker
        self.fault_tolerant_configuration = fault_tolerant_configuration
        self.duplex_connection = duplex_connection
        self.network_connection = network_connection
        self.connection_id = connection_id
        self.broker_upload_url = broker_upload_url
        self.network_properties = network_properties
    # end generated


class ConnectionInfo(BaseCommand):
    """Opens a connection, with its ids and credentials."""

    # generated: ConnectionInfo
    __slots__ = (
        "broker_master_connector", "broker_path", "client_id", "client_ip", "client_master",
        "connection_id", "failover_reconnect", "fault_tolerant", "manageable", "password",
        "user_name",
    )
    TYPE: ClassVar[int] = 3
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("connection_id", kinds.CACHED, 1, "ConnectionId"),
        Field("client_id", kinds.STRING, 1), Field("password", kinds.STRING, 1),
        Field("user_name", kinds.STRING, 1), Field("broker_path", kinds.ARRAY, 1, "BrokerId"),
        Field("broker_master_connector", kinds.BOOLEAN, 1),
        Field("manageable", kinds.BOOLEAN, 1), Field("client_master", kinds.BOOLEAN, 2),
        Field("fault_tolerant", kinds.BOOLEAN, 6),
        Field("failover_reconnect", kinds.BOOLEAN, 6), Field("client_ip", kinds.STRING, 8),
    )

    def __init__(
        self, connection_id: ConnectionId | None = None, client_id: str | None = None,
        password: str | None = None, user_name: str | None = None,
        broker_path: list[BrokerId | None] | None = None, broker_master_connector: bool = False,
        manageable: bool = False, client_master: bool = True, fault_tolerant: bool = False,
        failover_reconnect: bool = False, client_ip: str | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.connection_id = connection_id
        self.client_id = client_id
        self.password = password
        self.user_name = user_name
        self.broker_path = broker_path
        self.broker_master_connector = broker_master_connector
        self.manageable = manageable
        self.client_master = client_master
        self.fault_tolerant = fault_tolerant
        self.failover_reconnect = failover_reconnect
        self.client_ip = client_ip
    # end generated


class SessionInfo(BaseCommand):
    """Opens a session."""

    # generated: SessionInfo
    __slots__ = ("session_id",)
    TYPE: ClassVar[int] = 4
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("session_id", kinds.CACHED, 1, "SessionId"),
    )

    def __init__(
        self, session_id: SessionId | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.session_id = session_id
    # end generated


class NetworkBridgeFilter(DataStructure):
    """Limits the messages and consumers that a network bridge forwards."""

    # generated: NetworkBridgeFilter
    __slots__ = ("consumer_ttl", "message_ttl", "network_broker_id")
    TYPE: ClassVar[int] = 91
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("network_broker_id", kinds.CACHED, 1, "BrokerId"),
        Field("message_ttl", kinds.INT, 10), Field("consumer_ttl", kinds.INT, 10),
    )
    OLDER_LAYOUTS: ClassVar[dict[int, tuple[Field, ...]]] = dict.fromkeys(
        range(1, 10),
        (
            Field("message_ttl", kinds.INT, 1),
            Field("network_broker_id", kinds.CACHED, 1, "BrokerId"),
        ),
    )

    def __init__(
        self, network_broker_id: BrokerId | None = None, message_ttl: int = 0,
        consumer_ttl: int = 0,
    ) -> None:
        self.network_broker_id = network_broker_id
        self.message_ttl = message_ttl
        self.consumer_ttl = consumer_ttl
    # end generated


class ConsumerInfo(BaseCommand):
    """Opens a consumer."""

    # generated: ConsumerInfo
    __slots__ = (
        "additional_predicate", "broker_path", "browser", "client_id", "consumer_id",
        "destination", "dispatch_async", "exclusive", "maximum_pending_message_limit",
        "network_consumer_path", "network_subscription", "no_local", "no_range_acks",
        "optimized_acknowledge", "prefetch_size", "priority", "retroactive", "selector",
        "subscription_name",
    )
    TYPE: ClassVar[int] = 5
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("consumer_id", kinds.CACHED, 1, "ConsumerId"),
        Field("browser", kinds.BOOLEAN, 1),
        Field("destination", kinds.CACHED, 1, "Destination"),
        Field("prefetch_size", kinds.INT, 1),
        Field("maximum_pending_message_limit", kinds.INT, 1),
        Field("dispatch_async", kinds.BOOLEAN, 1), Field("selector", kinds.STRING, 1),
        Field("client_id", kinds.STRING, 10), Field("subscription_name", kinds.STRING, 1),
        Field("no_local", kinds.BOOLEAN, 1), Field("exclusive", kinds.BOOLEAN, 1),
        Field("retroactive", kinds.BOOLEAN, 1), Field("priority", kinds.BYTE, 1),
        Field("broker_path", kinds.ARRAY, 1, "BrokerId"),
        Field("additional_predicate", kinds.NESTED, 1, "NetworkBridgeFilter"),
        Field("network_subscription", kinds.BOOLEAN, 1),
        Field("optimized_acknowledge", kinds.BOOLEAN, 1),
        Field("no_range_acks", kinds.BOOLEAN, 1),
        Field("network_consumer_path", kinds.ARRAY, 4, "ConsumerId"),
    )

    def __init__(
        self, consumer_id: ConsumerId | None = None, browser: bool = False,
        destination: Destination | None = None, prefetch_size: int = 0,
        maximum_pending_message_limit: int = 0, dispatch_async: bool = False,
        selector: str | None = None, client_id: str | None = None,
        subscription_name: str | None = None, no_local: bool = False, exclusive: bool = False,
        retroactive: bool = False, priority: int = 0,
        broker_path: list[BrokerId | None] | None = None,
        additional_predicate: NetworkBridgeFilter | None = None,
        network_subscription: bool = False, optimized_acknowledge: bool = False,
        no_range_acks: bool = False,
        network_consumer_path: list[ConsumerId | None] | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.consumer_id = consumer_id
        self.browser = browser
        self.destination = destination
        self.prefetch_size = prefetch_size
        self.maximum_pending_message_limit = maximum_pending_message_limit
        self.dispatch_async = dispatch_async
        self.selector = selector
        self.client_id = client_id
        self.subscription_name = subscription_name
        self.no_local = no_local
        self.exclusive = exclusive
        self.retroactive = retroactive
        self.priority = priority
        self.broker_path = broker_path
        self.additional_predicate = additional_predicate
        self.network_subscription = network_subscription
        self.optimized_acknowledge = optimized_acknowledge
        self.no_range_acks = no_range_acks
        self.network_consumer_path = network_consumer_path
    # end generated


class ProducerInfo(BaseCommand):
    """Opens a producer; without a destination it is anonymous."""

    # generated: ProducerInfo
    __slots__ = ("broker_path", "destination", "dispatch_async", "producer_id", "window_size")
    TYPE: ClassVar[int] = 6
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("producer_id", kinds.CACHED, 1, "ProducerId"),
        Field("destination", kinds.CACHED, 1, "Destination"),
        Field("broker_path", kinds.ARRAY, 1, "BrokerId"),
        Field("dispatch_async", kinds.BOOLEAN, 2), Field("window_size", kinds.INT, 3),
    )

    def __init__(
        self, producer_id: ProducerId | None = None, destination: Destination | None = None,
        broker_path: list[BrokerId | None] | None = None, dispatch_async: bool = False,
        window_size: int = 0, command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.producer_id = producer_id
        self.destination = destination
        self.broker_path = broker_path
        self.dispatch_async = dispatch_async
        self.window_size = window_size
    # end generated


class DestinationInfo(BaseCommand):
    """Adds (operation_type 0) or removes (1) a destination."""

    # generated: DestinationInfo
    __slots__ = ("broker_path", "connection_id", "destination", "operation_type", "timeout")
    TYPE: ClassVar[int] = 8
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("connection_id", kinds.CACHED, 1, "ConnectionId"),
        Field("destination", kinds.CACHED, 1, "Destination"),
        Field("operation_type", kinds.BYTE, 1), Field("timeout", kinds.LONG, 1),
        Field("broker_path", kinds.ARRAY, 1, "BrokerId"),
    )

    def __init__(
        self, connection_id: ConnectionId | None = None, destination: Destination | None = None,
        operation_type: int = 0, timeout: int = 0,
        broker_path: list[BrokerId | None] | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.connection_id = connection_id
        self.destination = destination
        self.operation_type = operation_type
        self.timeout = timeout
        self.broker_path = broker_path
    # end generated


class RemoveInfo(BaseCommand):
    """Removes the connection, session, consumer or producer `object_id`."""

    # generated: RemoveInfo
    __slots__ = ("last_delivered_sequence_id", "object_id")
    TYPE: ClassVar[int] = 12
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("object_id", kinds.CACHED, 1, "any"),
        Field("last_delivered_sequence_id", kinds.LONG, 5),
    )

    def __init__(
        self, object_id: DataStructure | Destination | None = None,
        last_delivered_sequence_id: int = -2, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.object_id = object_id
        self.last_delivered_sequence_id = last_delivered_sequence_id
    # end generated


class RemoveSubscriptionInfo(BaseCommand):
    """Deletes a durable subscription."""

    # generated: RemoveSubscriptionInfo
    __slots__ = ("client_id", "connection_id", "subscription_name")
    TYPE: ClassVar[int] = 9
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("connection_id", kinds.CACHED, 1, "ConnectionId"),
        Field("subscription_name", kinds.STRING, 1), Field("client_id", kinds.STRING, 1),
    )

    def __init__(
        self, connection_id: ConnectionId | None = None, subscription_name: str | None = None,
        client_id: str | None = None, command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.connection_id = connection_id
        self.subscription_name = subscription_name
        self.client_id = client_id
    # end generated


# Structures that clients do not use: of older journals and of stores, and between brokers.


class JournalTopicAck(DataStructure):
    """Journal: a topic acknowledgement."""

    # generated: JournalTopicAck
    __slots__ = (
        "client_id", "destination", "message_id", "message_sequence_id", "subscription_name",
        "transaction_id",
    )
    TYPE: ClassVar[int] = 50
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("destination", kinds.NESTED, 1, "Destination"),
        Field("message_id", kinds.NESTED, 1, "MessageId"),
        Field("message_sequence_id", kinds.LONG, 1),
        Field("subscription_name", kinds.STRING, 1), Field("client_id", kinds.STRING, 1),
        Field("transaction_id", kinds.NESTED, 1, "TransactionId"),
    )

    def __init__(
        self, destination: Destination | None = None, message_id: MessageId | None = None,
        message_sequence_id: int = 0, subscription_name: str | None = None,
        client_id: str | None = None, transaction_id: TransactionId | None = None,
    ) -> None:
        self.destination = destination
        self.message_id = message_id
        self.message_sequence_id = message_sequence_id
        self.subscription_name = subscription_name
        self.client_id = client_id
        self.transaction_id = transaction_id
    # end generated


class JournalQueueAck(DataStructure):
    """Journal: a queue acknowledgement."""

    # generated: JournalQueueAck
    __slots__ = ("destination", "message_ack")
    TYPE: ClassVar[int] = 52
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("destination", kinds.NESTED, 1, "Destination"),
        Field("message_ack", kinds.NESTED, 1, "MessageAck"),
    )

    def __init__(
        self, destination: Destination | None = None, message_ack: MessageAck | None = None,
    ) -> None:
        self.destination = destination
        self.message_ack = message_ack
    # end generated


class JournalTrace(DataStructure):
    """Journal: a line of text."""

    # generated: JournalTrace
    __slots__ = ("message",)
    TYPE: ClassVar[int] = 53
    LAYOUT: ClassVar[tuple[Field, ...]] = (Field("message", kinds.STRING, 1),)

    def __init__(self, message: str | None = None) -> None:
        self.message = message
    # end generated


class JournalTransaction(DataStructure):
    """Journal: a transaction's step."""

    # generated: JournalTransaction
    __slots__ = ("transaction_id", "type", "was_prepared")
    TYPE: ClassVar[int] = 54
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("transaction_id", kinds.NESTED, 1, "TransactionId"), Field("type", kinds.BYTE, 1),
        Field("was_prepared", kinds.BOOLEAN, 1),
    )

    def __init__(
        self, transaction_id: TransactionId | None = None, type: int = 0,  # noqa: A002 - the wire's name
        was_prepared: bool = False,
    ) -> None:
        self.transaction_id = transaction_id
        self.type = type
        self.was_prepared = was_prepared
    # end generated


class SubscriptionInfo(DataStructure):
    """A durable subscription."""

    # generated: SubscriptionInfo
    __slots__ = (
        "client_id", "destination", "no_local", "selector", "subscribed_destination",
        "subscription_name",
    )
    TYPE: ClassVar[int] = 55
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("client_id", kinds.STRING, 1),
        Field("destination", kinds.CACHED, 1, "Destination"),
        Field("selector", kinds.STRING, 1), Field("subscription_name", kinds.STRING, 1),
        Field("subscribed_destination", kinds.NESTED, 3, "Destination"),
        Field("no_local", kinds.BOOLEAN, 11),
    )

    def __init__(
        self, client_id: str | None = None, destination: Destination | None = None,
        selector: str | None = None, subscription_name: str | None = None,
        subscribed_destination: Destination | None = None, no_local: bool = False,
    ) -> None:
        self.client_id = client_id
        self.destination = destination
        self.selector = selector
        self.subscription_name = subscription_name
        self.subscribed_destination = subscribed_destination
        self.no_local = no_local
    # end generated


class DiscoveryEvent(DataStructure):
    """A broker found by a discovery agent."""

    # generated: DiscoveryEvent
    __slots__ = ("broker_name", "service_name")
    TYPE: ClassVar[int] = 40
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("service_name", kinds.STRING, 1), Field("broker_name", kinds.STRING, 1),
    )

    def __init__(
        self, service_name: str | None = None, broker_name: str | None = None,
    ) -> None:
        self.service_name = service_name
        self.broker_name = broker_name
    # end generated


class BrokerSubscriptionInfo(BaseCommand):
    """The durable subscriptions of a broker, for its bridges."""

    # generated: BrokerSubscriptionInfo
    __slots__ = ("broker_id", "broker_name", "subscription_infos")
    TYPE: ClassVar[int] = 92
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("broker_id", kinds.NESTED, 12, "BrokerId"),
        Field("broker_name", kinds.STRING, 12),
        Field("subscription_infos", kinds.ARRAY, 12, "ConsumerInfo"),
    )

    def __init__(
        self, broker_id: BrokerId | None = None, broker_name: str | None = None,
        subscription_infos: list[ConsumerInfo | None] | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.broker_id = broker_id
        self.broker_name = broker_name
        self.subscription_infos = subscription_infos
    # end generated


MESSAGE_OVERHEAD: Final = 1024
"""Bytes counted for a message in addition to properties and body. (openwire-encoding 8)"""


class ActiveMQMessage(BaseCommand):
    """A message without a body; the base of all message types.

    `raw` is not a field: the body as received (loose, uncached, version 12, without size and
    type), kept so that the broker stores and dispatches the same bytes; `sequence_at` is where the
    broker's sequence id is in it, if the fast reader has read it. See `openwire.fast_writer`.
    """

    # generated: ActiveMQMessage
    __slots__ = (
        "arrival", "broker_in_time", "broker_out_time", "broker_path", "cluster", "compressed",
        "content", "correlation_id", "data_structure", "destination", "droppable", "expiration",
        "group_id", "group_sequence", "jms_xgroup_first_for_consumer", "marshalled_properties",
        "message_id", "original_destination", "original_transaction_id", "persistent",
        "priority", "producer_id", "raw", "received_by_df_bridge", "redelivery_counter",
        "reply_to", "sequence_at", "target_consumer_id", "timestamp", "transaction_id", "type",
        "user_id",
    )
    TYPE: ClassVar[int] = 23
    MARSHALL_AWARE: ClassVar[bool] = True
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("producer_id", kinds.CACHED, 1, "ProducerId"),
        Field("destination", kinds.CACHED, 1, "Destination"),
        Field("transaction_id", kinds.CACHED, 1, "TransactionId"),
        Field("original_destination", kinds.CACHED, 1, "Destination"),
        Field("message_id", kinds.NESTED, 1, "MessageId"),
        Field("original_transaction_id", kinds.CACHED, 1, "TransactionId"),
        Field("group_id", kinds.STRING, 1), Field("group_sequence", kinds.INT, 1),
        Field("correlation_id", kinds.STRING, 1), Field("persistent", kinds.BOOLEAN, 1),
        Field("expiration", kinds.LONG, 1), Field("priority", kinds.BYTE, 1),
        Field("reply_to", kinds.NESTED, 1, "Destination"), Field("timestamp", kinds.LONG, 1),
        Field("type", kinds.STRING, 1), Field("content", kinds.BYTES, 1),
        Field("marshalled_properties", kinds.BYTES, 1),
        Field("data_structure", kinds.NESTED, 1, "any"),
        Field("target_consumer_id", kinds.CACHED, 1, "ConsumerId"),
        Field("compressed", kinds.BOOLEAN, 1), Field("redelivery_counter", kinds.INT, 1),
        Field("broker_path", kinds.ARRAY, 1, "BrokerId"), Field("arrival", kinds.LONG, 1),
        Field("user_id", kinds.STRING, 1), Field("received_by_df_bridge", kinds.BOOLEAN, 1),
        Field("droppable", kinds.BOOLEAN, 2), Field("cluster", kinds.ARRAY, 3, "BrokerId"),
        Field("broker_in_time", kinds.LONG, 3), Field("broker_out_time", kinds.LONG, 3),
        Field("jms_xgroup_first_for_consumer", kinds.BOOLEAN, 10),
    )
    raw: bytes | None
    sequence_at: int | None

    def __init__(
        self, producer_id: ProducerId | None = None, destination: Destination | None = None,
        transaction_id: TransactionId | None = None,
        original_destination: Destination | None = None, message_id: MessageId | None = None,
        original_transaction_id: TransactionId | None = None, group_id: str | None = None,
        group_sequence: int = 0, correlation_id: str | None = None, persistent: bool = False,
        expiration: int = 0, priority: int = 0, reply_to: Destination | None = None,
        timestamp: int = 0, type: str | None = None,  # noqa: A002 - the wire's name
        content: bytes | None = None, marshalled_properties: bytes | None = None,
        data_structure: DataStructure | Destination | None = None,
        target_consumer_id: ConsumerId | None = None, compressed: bool = False,
        redelivery_counter: int = 0, broker_path: list[BrokerId | None] | None = None,
        arrival: int = 0, user_id: str | None = None, received_by_df_bridge: bool = False,
        droppable: bool = False, cluster: list[BrokerId | None] | None = None,
        broker_in_time: int = 0, broker_out_time: int = 0,
        jms_xgroup_first_for_consumer: bool = False, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.producer_id = producer_id
        self.destination = destination
        self.transaction_id = transaction_id
        self.original_destination = original_destination
        self.message_id = message_id
        self.original_transaction_id = original_transaction_id
        self.group_id = group_id
        self.group_sequence = group_sequence
        self.correlation_id = correlation_id
        self.persistent = persistent
        self.expiration = expiration
        self.priority = priority
        self.reply_to = reply_to
        self.timestamp = timestamp
        self.type = type
        self.content = content
        self.marshalled_properties = marshalled_properties
        self.data_structure = data_structure
        self.target_consumer_id = target_consumer_id
        self.compressed = compressed
        self.redelivery_counter = redelivery_counter
        self.broker_path = broker_path
        self.arrival = arrival
        self.user_id = user_id
        self.received_by_df_bridge = received_by_df_bridge
        self.droppable = droppable
        self.cluster = cluster
        self.broker_in_time = broker_in_time
        self.broker_out_time = broker_out_time
        self.jms_xgroup_first_for_consumer = jms_xgroup_first_for_consumer
        self.raw = None
        self.sequence_at = None
    # end generated

    @property
    def properties(self) -> dict[str, object]:
        """The application's properties, decoded at each use: changes of the result have no effect.

        Raises:
            JMSException: they are damaged.
        """
        data = self.marshalled_properties
        return dict(decode_map(data, MAX_PROPERTY_VALUES)) if data else {}


class ActiveMQBytesMessage(ActiveMQMessage):
    """A message of raw bytes."""

    # generated: ActiveMQBytesMessage
    __slots__ = ()
    TYPE: ClassVar[int] = 24
    # end generated


class ActiveMQMapMessage(ActiveMQMessage):
    """A message of names and typed values."""

    # generated: ActiveMQMapMessage
    __slots__ = ()
    TYPE: ClassVar[int] = 25
    # end generated


class ActiveMQObjectMessage(ActiveMQMessage):
    """A message with a serialized Java object, opaque here."""

    # generated: ActiveMQObjectMessage
    __slots__ = ()
    TYPE: ClassVar[int] = 26
    # end generated


class ActiveMQStreamMessage(ActiveMQMessage):
    """A message of a sequence of typed values."""

    # generated: ActiveMQStreamMessage
    __slots__ = ()
    TYPE: ClassVar[int] = 27
    # end generated


class ActiveMQTextMessage(ActiveMQMessage):
    """A message of text."""

    # generated: ActiveMQTextMessage
    __slots__ = ()
    TYPE: ClassVar[int] = 28
    # end generated


class ActiveMQBlobMessage(ActiveMQMessage):
    """A message that refers to a large body stored elsewhere."""

    # generated: ActiveMQBlobMessage
    __slots__ = ("deleted_by_broker", "mime_type", "remote_blob_url")
    TYPE: ClassVar[int] = 29
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *ActiveMQMessage.LAYOUT, Field("remote_blob_url", kinds.STRING, 3),
        Field("mime_type", kinds.STRING, 3), Field("deleted_by_broker", kinds.BOOLEAN, 3),
    )

    def __init__(
        self, remote_blob_url: str | None = None,
        mime_type: str | None = "application/octet-stream", deleted_by_broker: bool = False,
    ) -> None:
        super().__init__()
        self.remote_blob_url = remote_blob_url
        self.mime_type = mime_type
        self.deleted_by_broker = deleted_by_broker
    # end generated


def message_size(message: ActiveMQMessage) -> int:
    """Return a message's size in bytes, as both ends count it in windows, limits and caches."""
    content, properties = message.content, message.marshalled_properties
    return MESSAGE_OVERHEAD + len(content or b"") + len(properties or b"")


class AckType(IntEnum):
    """MessageAck.ack_type. (openwire-encoding 12)"""

    DELIVERED = 0
    POISON = 1
    STANDARD = 2
    REDELIVERED = 3
    INDIVIDUAL = 4
    UNMATCHED = 5
    EXPIRED = 6


class TransactionType(IntEnum):
    """TransactionInfo.type. (openwire-encoding 13)"""

    BEGIN = 0
    PREPARE = 1
    COMMIT_ONE_PHASE = 2
    COMMIT_TWO_PHASE = 3
    ROLLBACK = 4
    RECOVER = 5
    FORGET = 6
    END = 7


class MessagePull(BaseCommand):
    """Requests one message without prefetch; `timeout` in ms, 0 for ever, -1 do not wait."""

    # generated: MessagePull
    __slots__ = ("consumer_id", "correlation_id", "destination", "message_id", "timeout")
    TYPE: ClassVar[int] = 20
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("consumer_id", kinds.CACHED, 2, "ConsumerId"),
        Field("destination", kinds.CACHED, 2, "Destination"), Field("timeout", kinds.LONG, 2),
        Field("correlation_id", kinds.STRING, 3),
        Field("message_id", kinds.NESTED, 3, "MessageId"),
    )

    def __init__(
        self, consumer_id: ConsumerId | None = None, destination: Destination | None = None,
        timeout: int = 0, correlation_id: str | None = None,
        message_id: MessageId | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.consumer_id = consumer_id
        self.destination = destination
        self.timeout = timeout
        self.correlation_id = correlation_id
        self.message_id = message_id
    # end generated


class MessageDispatch(BaseCommand):
    """A message for a consumer; without a message, the end of a browse or of a pull.

    `rollback_cause` is the client's own and not sent: why its listener failed, as in ActiveMQ.
    """

    # generated: MessageDispatch
    __slots__ = (
        "consumer_id", "destination", "message", "redelivery_counter", "rollback_cause",
    )
    TYPE: ClassVar[int] = 21
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("consumer_id", kinds.CACHED, 1, "ConsumerId"),
        Field("destination", kinds.CACHED, 1, "Destination"),
        Field("message", kinds.NESTED, 1, "ActiveMQMessage"),
        Field("redelivery_counter", kinds.INT, 1),
    )
    rollback_cause: BaseException | None

    def __init__(
        self, consumer_id: ConsumerId | None = None, destination: Destination | None = None,
        message: ActiveMQMessage | None = None, redelivery_counter: int = 0,
        command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.consumer_id = consumer_id
        self.destination = destination
        self.message = message
        self.redelivery_counter = redelivery_counter
        self.rollback_cause = None
    # end generated


class MessageAck(BaseCommand):
    """What happened to the messages from first to last, as AckType says."""

    # generated: MessageAck
    __slots__ = (
        "ack_type", "consumer_id", "destination", "first_message_id", "last_message_id",
        "message_count", "poison_cause", "transaction_id",
    )
    TYPE: ClassVar[int] = 22
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("destination", kinds.CACHED, 1, "Destination"),
        Field("transaction_id", kinds.CACHED, 1, "TransactionId"),
        Field("consumer_id", kinds.CACHED, 1, "ConsumerId"), Field("ack_type", kinds.BYTE, 1),
        Field("first_message_id", kinds.NESTED, 1, "MessageId"),
        Field("last_message_id", kinds.NESTED, 1, "MessageId"),
        Field("message_count", kinds.INT, 1), Field("poison_cause", kinds.THROWABLE, 7),
    )

    def __init__(
        self, destination: Destination | None = None,
        transaction_id: TransactionId | None = None, consumer_id: ConsumerId | None = None,
        ack_type: int = 0, first_message_id: MessageId | None = None,
        last_message_id: MessageId | None = None, message_count: int = 0,
        poison_cause: Throwable | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.destination = destination
        self.transaction_id = transaction_id
        self.consumer_id = consumer_id
        self.ack_type = ack_type
        self.first_message_id = first_message_id
        self.last_message_id = last_message_id
        self.message_count = message_count
        self.poison_cause = poison_cause
    # end generated


class MessageDispatchNotification(BaseCommand):
    """Tells a slave broker which consumer received a message."""

    # generated: MessageDispatchNotification
    __slots__ = ("consumer_id", "delivery_sequence_id", "destination", "message_id")
    TYPE: ClassVar[int] = 90
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("consumer_id", kinds.CACHED, 1, "ConsumerId"),
        Field("destination", kinds.CACHED, 1, "Destination"),
        Field("delivery_sequence_id", kinds.LONG, 1),
        Field("message_id", kinds.NESTED, 1, "MessageId"),
    )

    def __init__(
        self, consumer_id: ConsumerId | None = None, destination: Destination | None = None,
        delivery_sequence_id: int = 0, message_id: MessageId | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.consumer_id = consumer_id
        self.destination = destination
        self.delivery_sequence_id = delivery_sequence_id
        self.message_id = message_id
    # end generated


class TransactionInfo(BaseCommand):
    """A step of a transaction; see TransactionType."""

    # generated: TransactionInfo
    __slots__ = ("connection_id", "transaction_id", "type")
    TYPE: ClassVar[int] = 7
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("connection_id", kinds.CACHED, 1, "ConnectionId"),
        Field("transaction_id", kinds.CACHED, 1, "TransactionId"), Field("type", kinds.BYTE, 1),
    )

    def __init__(
        self, connection_id: ConnectionId | None = None,
        transaction_id: TransactionId | None = None, type: int = 0,  # noqa: A002 - the wire's name
        command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.connection_id = connection_id
        self.transaction_id = transaction_id
        self.type = type
    # end generated


class WireFormatInfo(Command):
    """The first command of each side: version and offered settings."""

    # generated: WireFormatInfo
    __slots__ = ("magic", "marshalled_properties", "version")
    TYPE: ClassVar[int] = 1
    MARSHALL_AWARE: ClassVar[bool] = True
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("magic", kinds.MAGIC, 1), Field("version", kinds.INT, 1),
        Field("marshalled_properties", kinds.BYTES, 1),
    )

    def __init__(
        self, magic: bytes = b"ActiveMQ", version: int = 0,
        marshalled_properties: bytes | None = None,
    ) -> None:
        self.magic = magic
        self.version = version
        self.marshalled_properties = marshalled_properties
    # end generated


class KeepAliveInfo(BaseCommand):
    """Shows that the sender is alive."""

    # generated: KeepAliveInfo
    __slots__ = ()
    TYPE: ClassVar[int] = 10
    # end generated


class ShutdownInfo(BaseCommand):
    """The sender is about to close."""

    # generated: ShutdownInfo
    __slots__ = ()
    TYPE: ClassVar[int] = 11
    # end generated


class ControlCommand(BaseCommand):
    """A command given by name; clients do not use it."""

    # generated: ControlCommand
    __slots__ = ("command",)
    TYPE: ClassVar[int] = 14
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("command", kinds.STRING, 1),
    )

    def __init__(
        self, command: str | None = None, command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.command = command
    # end generated


class FlushCommand(BaseCommand):
    """Asks the peer to flush its buffers; clients do not use it."""

    # generated: FlushCommand
    __slots__ = ()
    TYPE: ClassVar[int] = 15
    # end generated


class ConnectionError(BaseCommand):  # noqa: A001 - the wire's name
    """An error that is not the response to a command."""

    # generated: ConnectionError
    __slots__ = ("connection_id", "exception")
    TYPE: ClassVar[int] = 16
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("exception", kinds.THROWABLE, 1),
        Field("connection_id", kinds.NESTED, 1, "ConnectionId"),
    )

    def __init__(
        self, exception: Throwable | None = None, connection_id: ConnectionId | None = None,
        command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.exception = exception
        self.connection_id = connection_id
    # end generated


class ConsumerControl(BaseCommand):
    """Changes an open consumer: its prefetch, or closes it."""

    # generated: ConsumerControl
    __slots__ = ("close", "consumer_id", "destination", "flush", "prefetch", "start", "stop")
    TYPE: ClassVar[int] = 17
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("destination", kinds.NESTED, 6, "Destination"),
        Field("close", kinds.BOOLEAN, 1), Field("consumer_id", kinds.NESTED, 1, "ConsumerId"),
        Field("prefetch", kinds.INT, 1), Field("flush", kinds.BOOLEAN, 2),
        Field("start", kinds.BOOLEAN, 2), Field("stop", kinds.BOOLEAN, 2),
    )

    def __init__(
        self, destination: Destination | None = None, close: bool = False,
        consumer_id: ConsumerId | None = None, prefetch: int = 0, flush: bool = False,
        start: bool = False, stop: bool = False, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.destination = destination
        self.close = close
        self.consumer_id = consumer_id
        self.prefetch = prefetch
        self.flush = flush
        self.start = start
        self.stop = stop
    # end generated


class ConnectionControl(BaseCommand):
    """Tells a client of cluster changes, or asks it to close or resume."""

    # generated: ConnectionControl
    __slots__ = (
        "close", "connected_brokers", "exit", "fault_tolerant", "rebalance_connection",
        "reconnect_to", "resume", "suspend", "token",
    )
    TYPE: ClassVar[int] = 18
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("close", kinds.BOOLEAN, 1), Field("exit", kinds.BOOLEAN, 1),
        Field("fault_tolerant", kinds.BOOLEAN, 1), Field("resume", kinds.BOOLEAN, 1),
        Field("suspend", kinds.BOOLEAN, 1), Field("connected_brokers", kinds.STRING, 6),
        Field("reconnect_to", kinds.STRING, 6), Field("rebalance_connection", kinds.BOOLEAN, 6),
        Field("token", kinds.BYTES, 8),
    )

    def __init__(
        self, close: bool = False, exit: bool = False,  # noqa: A002 - the wire's name
        fault_tolerant: bool = False, resume: bool = False, suspend: bool = False,
        connected_brokers: str | None = None, reconnect_to: str | None = None,
        rebalance_connection: bool = False, token: bytes | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.close = close
        self.exit = exit
        self.fault_tolerant = fault_tolerant
        self.resume = resume
        self.suspend = suspend
        self.connected_brokers = connected_brokers
        self.reconnect_to = reconnect_to
        self.rebalance_connection = rebalance_connection
        self.token = token
    # end generated


class ProducerAck(BaseCommand):
    """Returns `size` bytes to a producer's window."""

    # generated: ProducerAck
    __slots__ = ("producer_id", "size")
    TYPE: ClassVar[int] = 19
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("producer_id", kinds.NESTED, 3, "ProducerId"),
        Field("size", kinds.INT, 3),
    )

    def __init__(
        self, producer_id: ProducerId | None = None, size: int = 0, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.producer_id = producer_id
        self.size = size
    # end generated


class PartialCommand(Command):
    """A part of a command, in one datagram."""

    # generated: PartialCommand
    __slots__ = ("command_id", "data")
    TYPE: ClassVar[int] = 60
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("command_id", kinds.INT, 1), Field("data", kinds.BYTES, 1),
    )

    def __init__(self, command_id: int = 0, data: bytes | None = None) -> None:
        self.command_id = command_id
        self.data = data
    # end generated


class LastPartialCommand(PartialCommand):
    """The last part of a command."""

    # generated: LastPartialCommand
    __slots__ = ()
    TYPE: ClassVar[int] = 61
    # end generated


class ReplayCommand(BaseCommand):
    """Requests that datagrams are sent again."""

    # generated: ReplayCommand
    __slots__ = ("first_nak_number", "last_nak_number")
    TYPE: ClassVar[int] = 65
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("first_nak_number", kinds.INT, 1),
        Field("last_nak_number", kinds.INT, 1),
    )

    def __init__(
        self, first_nak_number: int = 0, last_nak_number: int = 0, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.first_nak_number = first_nak_number
        self.last_nak_number = last_nak_number
    # end generated


class Response(BaseCommand):
    """The command succeeded."""

    # generated: Response
    __slots__ = ("correlation_id",)
    TYPE: ClassVar[int] = 30
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("correlation_id", kinds.INT, 1),
    )

    def __init__(
        self, correlation_id: int = 0, command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.correlation_id = correlation_id
    # end generated


class ExceptionResponse(Response):
    """The command failed."""

    # generated: ExceptionResponse
    __slots__ = ("exception",)
    TYPE: ClassVar[int] = 31
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *Response.LAYOUT, Field("exception", kinds.THROWABLE, 1),
    )

    def __init__(
        self, correlation_id: int = 0, exception: Throwable | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.correlation_id = correlation_id
        self.exception = exception
    # end generated


class DataResponse(Response):
    """The command succeeded, with a value."""

    # generated: DataResponse
    __slots__ = ("data",)
    TYPE: ClassVar[int] = 32
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *Response.LAYOUT, Field("data", kinds.NESTED, 1, "any"),
    )

    def __init__(
        self, correlation_id: int = 0, data: DataStructure | Destination | None = None,
        command_id: int = 0, response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.correlation_id = correlation_id
        self.data = data
    # end generated


class DataArrayResponse(Response):
    """The command succeeded, with several values."""

    # generated: DataArrayResponse
    __slots__ = ("data",)
    TYPE: ClassVar[int] = 33
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *Response.LAYOUT, Field("data", kinds.ARRAY, 1, "any"),
    )

    def __init__(
        self, correlation_id: int = 0,
        data: list[DataStructure | Destination | None] | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.correlation_id = correlation_id
        self.data = data
    # end generated


class IntegerResponse(Response):
    """The command succeeded, with a number."""

    # generated: IntegerResponse
    __slots__ = ("result",)
    TYPE: ClassVar[int] = 34
    LAYOUT: ClassVar[tuple[Field, ...]] = (*Response.LAYOUT, Field("result", kinds.INT, 1))

    def __init__(
        self, correlation_id: int = 0, result: int = 0, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.correlation_id = correlation_id
        self.result = result
    # end generated


TYPES: Final[dict[int, type[DataStructure]]] = {
    cls.TYPE: cls
    for cls in tuple(globals().values())
    if isinstance(cls, type) and issubclass(cls, DataStructure) and cls.TYPE
}

__all__ = [
    "MESSAGE_OVERHEAD",
    "TYPES",
    "AckType",
    "BaseCommand",
    "Command",
    "DataStructure",
    "Field",
    "Identifier",
    "StackTraceElement",
    "Throwable",
    "TransactionId",
    "TransactionType",
    "contents",
    "message_size",
]
__all__ += [cls.__name__ for cls in TYPES.values()]
