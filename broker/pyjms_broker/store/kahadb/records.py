"""Encoding and decoding of message records, and the message metadata that the index needs.

Most records of a journal are adds and removes, so they are assembled here from encoded parts; the
bytes equal those of `encode_command`. Stored messages are decoded in the store's OpenWire version,
or if that fails, in the version that works. (activemq-persistence S5, K30)

Data for which KahaDB has no record type is text in trace records: `pyjms:<kind> <JSON>`. ActiveMQ
ignores trace records. They are lost when ActiveMQ deletes their segment; arrival numbers
then restart in another epoch. (decisions D7; activemq-persistence K32)
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pyjms.errors import JMSException, RemoteProtocolError
from pyjms.jms.destination import Destination
from pyjms.jms.metadata import DUPLICATE_ID_PROPERTY
from pyjms.runtime.logging import get_logger
from pyjms.wire.kahadb.codec import decode_command, encode_command, encode_varint, read_varint
from pyjms.wire.kahadb.commands import (
    KahaAddMessageCommand,
    KahaCommand,
    KahaCommitCommand,
    KahaDestination,
    KahaTraceCommand,
    KahaUpdateMessageCommand,
)
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.frames import (
    FRAME_HEAD,
    SAME_MESSAGES_FROM,
    decode_message,
    encode_frame,
    encode_message,
    to_transaction_info,
)
from pyjms.wire.kahadb.record_columns import ADD, RecordFields
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    ConsumerId,
    LocalTransactionId,
    MessageAck,
    MessageId,
    TransactionId,
    XATransactionId,
)
from pyjms.wire.openwire.fast_writer import marshal_body, patch_raw
from pyjms_broker.api.fields import can_be_written, writable
from pyjms_broker.api.message import MessageReference, duplicate_id_of
from pyjms_broker.store.kahadb.index.database import LARGEST_SEQUENCE, MessageMetadata, split_id

logger = get_logger(__name__)

_SMALLEST_SIZE: Final = 1024
_HIGHEST_PRIORITY: Final = 9
_DUPLICATE_ID_BYTES: Final = DUPLICATE_ID_PROPERTY.encode()
# The most common one first, then the newest.
_VERSIONS: Final = (11, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)
_STANDARD_ACK: Final = 2
_CACHED: Final = 4096
# Field 15, which no other program writes and all of them skip. It marks updates by pyjms.
_OUR_UPDATE: Final = b"\x78\x01"
# The last two fields of an add: priority, and whether the destination is prioritized.
_ENDS: Final = tuple(
    (bytes((0x28, priority, 0x30, 0)), bytes((0x28, priority, 0x30, 1))) for priority in range(128)
)
_varint: Final = lru_cache(_CACHED)(encode_varint)
_make_metadata: Final = tuple.__new__  # takes half the time of MessageMetadata(...)


def message_metadata(
    message: ActiveMQMessage, message_id: str, *, prioritized: bool, size: int | None = None
) -> MessageMetadata:
    """Return the metadata of a message that was read from the journal."""
    if not can_be_written(message_id):
        raise JMSException(f"Cannot store the message id {message_id!r}: it is not valid Unicode")
    own = message.message_id
    producer = None if own is None or own.producer_id is None else writable(str(own.producer_id))
    content, properties = message.content, message.marshalled_properties
    if size is None:
        size = _SMALLEST_SIZE + len(content or b"") + len(properties or b"")
    duplicate_id = duplicate_id_of(message)
    return MessageMetadata(
        message_id,
        _HIGHEST_PRIORITY - min(max(message.priority, 0), _HIGHEST_PRIORITY) if prioritized else 0,
        size,
        None if duplicate_id is None else writable(duplicate_id),
        producer,
        0 if own is None else own.producer_sequence_id,
        0 if own is None else own.broker_sequence_id,
        split_id(message_id),
    )


def reference_metadata(reference: MessageReference, prioritized: bool) -> MessageMetadata:
    """Return the metadata of a message that is being sent."""
    message, own = reference.cached or reference.message, reference.message_id
    sequence = own.producer_sequence_id
    properties = message.marshalled_properties
    producer_id = own.producer_id
    producer = "" if producer_id is None else _name_of(producer_id.identity)
    if (
        producer_id is None
        or own.text_view is not None
        or not producer.isascii()
        or not 0 <= sequence <= LARGEST_SEQUENCE
        or (properties is not None and _DUPLICATE_ID_BYTES in properties)
    ):
        return message_metadata(message, str(own), prioritized=prioritized, size=reference.size)
    # the common case: the id is composed here, so its parts are known
    level = (
        _HIGHEST_PRIORITY - min(max(message.priority, 0), _HIGHEST_PRIORITY) if prioritized else 0
    )
    return _make_metadata(
        MessageMetadata,
        (
            f"{producer}:{sequence}",
            level,
            reference.size,
            None,
            producer,
            sequence,
            own.broker_sequence_id,
            (producer, sequence),
        ),
    )


def message_id_text(message_id: MessageId) -> str:
    """Return `str(message_id)`, without composing the producer's part again."""
    producer_id = message_id.producer_id
    if producer_id is None or message_id.text_view is not None:
        return str(message_id)
    return f"{_name_of(producer_id.identity)}:{message_id.producer_sequence_id}"


@lru_cache(_CACHED)
def _name_of(identity: tuple[object, ...]) -> str:
    """Return the text of a producer id with this identity."""
    _, connection_id, session_id, value = identity
    return f"{connection_id}:{session_id}:{value}"


@lru_cache(_CACHED)
def kaha_destination(key: str) -> KahaDestination:
    """Return the destination with this key, `<type>:<name>` (activemq-persistence K10)."""
    kind, _, name = key.partition(":")
    return KahaDestination(int(kind), name)


@lru_cache(_CACHED)
def destination_field(destination: KahaDestination) -> bytes:
    """Return the encoded destination of an add or remove: field 2."""
    name = destination.name.encode()
    body = b"".join((b"\x08", encode_varint(destination.type), _delimit(0x12, name)))
    return _delimit(0x12, body)


@lru_cache(_CACHED)
def transaction_field(xid: TransactionId) -> bytes:
    """Return the encoded transaction of a record: field 1."""
    connection = xid.connection_id if isinstance(xid, LocalTransactionId) else None
    if connection is None or connection.value is None:
        payload = encode_command(KahaCommitCommand(to_transaction_info(xid)))
        return payload[read_varint(payload, 1, len(payload))[1] :]
    assert isinstance(xid, LocalTransactionId)
    number = b"\x08" + encode_varint(xid.value)
    return _delimit(0x0A, _delimit(0x0A, _delimit(0x0A, connection.value.encode()) + number))


def transaction_record(command: type[KahaCommand], xid: TransactionId) -> bytes:
    """Return the payload of a command whose only field is the transaction."""
    field = transaction_field(xid)
    return b"".join((bytes((command.CODE,)), _varint(len(field)), field))


def add_record(
    destination: bytes,
    message_id: str,
    frame: tuple[bytes, bytes],
    priority: int,
    prioritized: bool,
    transaction: bytes = b"",
) -> bytes:
    """Return an add's payload; `destination` and `transaction` are encoded fields.

    `frame` is in two parts, so that the message's body is copied only once.
    """
    key, (head, body) = message_id.encode(), frame
    whole = len(head) + len(body)
    key_size, frame_size = _varint(len(key)), _varint(whole)
    size = len(transaction) + len(destination) + 6
    size += len(key_size) + len(key) + len(frame_size) + whole
    end = _ENDS[min(max(priority, 0), 127)][prioritized]
    return b"".join(
        (
            b"\x01",
            _varint(size),
            transaction,
            destination,
            b"\x1a",
            key_size,
            key,
            b"\x22",
            frame_size,
            head,
            body,
            end,
        )
    )


def remove_record(
    destination: bytes,
    message_id: str,
    subscription_key: str | None = None,
    transaction: bytes = b"",
    ack: bytes | None = None,
) -> bytes:
    """Return a remove's payload; with a key: a durable subscription's acknowledgement."""
    key = message_id.encode()
    if ack is None and subscription_key is None:
        key_size = _varint(len(key))
        size = _varint(len(transaction) + len(destination) + 1 + len(key_size) + len(key))
        return b"".join((b"\x02", size, transaction, destination, b"\x1a", key_size, key))
    parts = [transaction, destination, _delimit(0x1A, key)]
    if ack is not None:
        parts.append(_delimit(0x22, ack))
    if subscription_key is not None:
        parts.append(_delimit(0x2A, subscription_key.encode()))
    body = b"".join(parts)
    return b"".join((b"\x02", encode_varint(len(body)), body))


def is_pyjms_update(payload: bytes) -> bool:
    """Return whether an update record was written by pyjms.

    Pyjms keeps the add record as long as the message exists. If such an update has no add record,
    its message was removed.
    """
    return payload[0] == KahaUpdateMessageCommand.CODE and payload.endswith(_OUR_UPDATE)


def _delimit(tag: int, value: bytes) -> bytes:
    return b"".join((bytes((tag,)), _varint(len(value)), value))


class RecordFormat:
    """Encodes OpenWire commands as records, in the OpenWire version of the store."""

    def __init__(self, version: int) -> None:
        self.version = version
        self._fields = RecordFields()

    def message_frame(self, message: ActiveMQMessage) -> bytes:
        """Return the marshalled message, including the fields that the broker has set."""
        if message.raw is not None:
            patch_raw(message)
        return encode_message(message, self.version)

    def frame_parts(self, message: ActiveMQMessage) -> tuple[bytes, bytes]:
        """Return the same as the frame's head and its body."""
        if self.version < SAME_MESSAGES_FROM:
            return b"", self.message_frame(message)
        if message.raw is not None:
            patch_raw(message)
        body = message.raw or marshal_body(message)
        return FRAME_HEAD.pack(len(body) + 1, message.TYPE), body

    def update(
        self, destination: KahaDestination, message: ActiveMQMessage, prioritized: bool
    ) -> bytes:
        """Return an update's payload, with our marker."""
        frame = self.message_frame(message)
        add = KahaAddMessageCommand(
            destination, str(message.message_id), frame, message.priority, prioritized
        )
        payload = encode_command(KahaUpdateMessageCommand(add))
        body = payload[read_varint(payload, 1, len(payload))[1] :] + _OUR_UPDATE
        return b"".join((payload[:1], encode_varint(len(body)), body))

    def prepared_ack(
        self, destination: Destination, message: ActiveMQMessage, xid: XATransactionId
    ) -> bytes:
        """Return a marshalled MessageAck: ActiveMQ needs one in prepared transactions."""
        message_id = message.message_id
        ack = MessageAck(
            destination=destination,
            transaction_id=xid,
            consumer_id=ConsumerId("pyjms", -1, 1),
            ack_type=_STANDARD_ACK,
            first_message_id=message_id,
            last_message_id=message_id,
            message_count=1,
        )
        return encode_frame(ack, self.version)

    def decode(self, frame: bytes) -> ActiveMQMessage:
        """Return the message of a frame.

        The first frame of another version changes the store's version, because ActiveMQ uses one
        version for the whole store.

        Raises:
            RemoteProtocolError: no version can decode it.
        """
        try:
            return decode_message(frame, self.version)
        except RemoteProtocolError:
            for version in _VERSIONS:
                try:
                    message = decode_message(frame, version)
                except RemoteProtocolError:
                    continue
                logger.info("The store uses OpenWire version %d for its messages", version)
                self.version = version
                return message
            raise

    def stored_message(self, payload: bytes) -> ActiveMQMessage:
        """Return the message of an add's or update's payload."""
        fields = self._fields
        if payload[0] == ADD and fields.read(payload, 0, len(payload)):  # the usual form
            message = self.decode(payload[fields.frame_at : fields.frame_end])
            if message.message_id is not None:
                return message
        command = decode_command(payload)
        if isinstance(command, KahaUpdateMessageCommand):
            command = command.message
        if not isinstance(command, KahaAddMessageCommand):
            raise KahaDBFormatError(f"Expected a message record, found {type(command).__name__}")
        message = self.decode(command.message)
        if message.message_id is None:
            raise KahaDBFormatError(f"The message of {command.message_id} has no message id")
        return message


ARRIVALS: Final = "arrivals"
"""{destination key: [epoch, next arrival]} at this point of the journal. Every segment begins
with all destinations; a new destination gets a record of its own before its first message."""
AUDIT: Final = "audit"
"""{"last": highest broker sequence number, "producers": {producer: last sequence number},
"openwire": version of the messages}."""
DUPLICATES: Final = "duplicates"
"""{destination key: [duplicate ids, oldest first]}: ids whose own records were deleted."""
TRANSACTION: Final = "transaction"
"""[transaction id, [[segment, offset], ...], {destination key: [[segment, messages], ...]}]:
the additions that the following commit drops, and its message counts by segment."""

_PREFIX: Final = "pyjms:"
_SHAPES: Final[dict[str, type]] = {ARRIVALS: dict, AUDIT: dict, DUPLICATES: dict, TRANSACTION: list}


class Trace(NamedTuple):
    """The content of one of our trace records."""

    kind: str
    value: Any


def trace_record(kind: str, value: object) -> bytes:
    """Return the payload of a trace record with `value`."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return encode_command(KahaTraceCommand(f"{_PREFIX}{kind} {text}"))


def plain_trace(text: str) -> bytes:
    """Return the payload of a human-readable trace record, like ActiveMQ's own."""
    return encode_command(KahaTraceCommand(text))


def parse_trace(text: str) -> Trace | None:
    """Parse one of our traces; return None for other text and for an unknown kind."""
    if not text.startswith(_PREFIX):
        return None
    kind, _, data = text[len(_PREFIX) :].partition(" ")
    shape = _SHAPES.get(kind)
    if shape is None:
        logger.warning("Ignoring a trace record of a newer pyjms in the journal: %s", kind)
        return None
    try:
        value = json.loads(data)
    except ValueError:
        logger.warning("Ignoring a damaged trace record in the journal: %s", kind)
        return None
    return Trace(kind, value) if isinstance(value, shape) else None


def check_trace(trace: Trace) -> None:
    """Raise a KahaDBFormatError if values have other types than those of this kind."""
    if not _has_values(trace.kind, trace.value):
        raise KahaDBFormatError(f"The trace record {trace.kind} has values of wrong types")


def _has_values(kind: str, value: Any) -> bool:
    match kind, value:
        case "arrivals", _:
            return all(map(_is_pair, value.values()))
        case "audit", {"last": last, "producers": dict() as producers, "openwire": int()}:
            return _is_number(last) and all(map(_is_number, producers.values()))
        case "duplicates", _:
            return all(
                isinstance(ids, list) and all(isinstance(each, str) for each in ids)
                for ids in value.values()
            )
        case "transaction", [str(), list() as dropped, dict() as counts]:
            return all(map(_is_pair, dropped)) and all(
                isinstance(pairs, list) and all(map(_is_pair, pairs)) for pairs in counts.values()
            )
    return False


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))


def _is_number(value: Any) -> bool:
    """Return whether it is an integer that the index can store."""
    return isinstance(value, int) and -(2**63) <= value < 2**63
