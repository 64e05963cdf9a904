"""Writes the commands of the message path in their usual form: loose, uncached, version 12.

The counterpart of `fast_reader`; other forms are left to `writer`. The encoded forms of ids and
destinations are kept in a bounded memo, and the latest ones separately, since successive commands
refer to the same objects. Errors in fields raise struct.error, TypeError or AttributeError; the
caller converts them to LocalProtocolError. (openwire-encoding 2)

`ActiveMQMessage.raw` is a message's body (all fields, without size and type byte) in loose,
uncached version 12, as it was received or first written: it is written by copying it, and the
broker stores it. Rules:

- Code that sets a field of a message with `raw` must update `raw`: by `patch_raw` for the fields
  that it names, otherwise by `message.raw = None`.
- `sequence_at` belongs to a `raw` that has the form that clients send: code that sets `raw` to
  other bytes sets it to None.
- `commandId` and `responseRequired` of a message that is sent alone are written from the fields,
  and in a MessageDispatch they are not read: a transport may number a message without changing
  `raw`.
- The redelivery counter, which differs between consumers, is a field of MessageDispatch.

(decisions D5)
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from pyjms.errors import LocalProtocolError
from pyjms.jms.destination import Destination
from pyjms.jms.mutf8 import encode_mutf8
from pyjms.wire.limits import LARGE_FRAME, MAX_STRING_SIZE
from pyjms.wire.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQMessage,
    ConsumerId,
    Identifier,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerAck,
    ProducerId,
    Response,
    TransactionId,
    TransactionInfo,
    XATransactionId,
)
from pyjms.wire.openwire.kinds import I8, I32, I64, I64_PAIR, U16
from pyjms.wire.openwire.schema import (
    CURRENT_VERSION,
    GROUP_SEQUENCE,
    MESSAGES,
    MIDDLE,
    PERSISTENT_EXPIRATION_PRIORITY,
    RESPONSE,
    STRUCTURES,
    TAIL,
    TAIL_SIZE,
    TIMESTAMP,
    Structure,
)
from pyjms.wire.openwire.writer import LooseWriter

# type, commandId, responseRequired
_HEAD: Final = struct.Struct(">Bi?")
# size, type, commandId, responseRequired
_DISPATCH_HEAD: Final = struct.Struct(">iBi?")
# a dispatch without its ids and without its message's body: head, flag and type of the message,
# redeliveryCounter
_DISPATCHED_SIZE: Final = _HEAD.size + 2 + 4
_LENGTH: Final = struct.Struct(">Bi")
_ACK_END: Final = struct.Struct(">iB")

_NULL: Final = b"\0"
_NULLS: Final = b"\0\0"
_MESSAGE_ID: Final = b"\1\x6e\0"
_LONG: Final = 4096
_MEMO_VALUES: Final = 512
_MEMO_SIZE: Final = 320
_ANY: Final = frozenset(STRUCTURES)

# flag, type and value of a LocalTransactionId, which its connection id follows
_TRANSACTION_ID: Final = struct.Struct(">BBq")

Name = Identifier | Destination
_Named = tuple[Name | None, Name | None, bytes]


class FastWriter:
    """The fast writer of one connection, with its memo of encoded ids and destinations."""

    __slots__ = (
        "_acked",
        "_dispatched",
        "_memo",
        "_producer",
        "_sent",
        "_shared",
        "_transaction",
    )

    def __init__(self, shared: list[tuple[int, bytes]] | None = None) -> None:
        """Create a writer that appends long values and their positions to `shared`.

        These values are omitted from the frames. None: nothing is omitted.
        """
        self._shared = shared
        self._memo: dict[tuple[object, ...], bytes] = {}
        # the objects to which the latest command of each kind referred, and their bytes
        self._dispatched: _Named = (None, None, _NULL + _NULL)
        self._acked: tuple[Destination | None, ConsumerId | None, bytes, bytes] = (
            None,
            None,
            _NULL,
            _NULL,
        )
        self._transaction: tuple[TransactionId | None, bytes] = (None, _NULL)
        self._sent: _Named = (None, None, _NULL + _NULL)
        self._producer: tuple[ProducerId | None, bytes] = (None, _NULL)

    def write_frame(self, out: bytearray, command: Structure) -> bool:
        """Append type and body of `command`; return False without appending: use the writer."""
        if isinstance(command, MessageDispatch):
            return self._dispatch(out, command)
        code = command.TYPE
        if code in MESSAGES and isinstance(command, ActiveMQMessage):
            raw = command.raw
            if raw is None and not is_plain(command):
                return False
            # the transport sets commandId and responseRequired: `raw` is valid without them
            out += _HEAD.pack(code, command.command_id, command.response_required)
            if raw is None:
                self._message(out, command)
            else:
                out += memoryview(raw)[5:]
            return True
        if isinstance(command, MessageAck):
            return self._ack(out, command)
        if code == Response.TYPE and isinstance(command, Response):
            out += RESPONSE.pack(
                code, command.command_id, command.response_required, command.correlation_id
            )
            return True
        if isinstance(command, TransactionInfo):
            out += _HEAD.pack(code, command.command_id, command.response_required)
            out += self.nullable(command.connection_id)
            out += self._transaction_of(command.transaction_id)
            out += I8.pack(command.type)
            return True
        if isinstance(command, ProducerAck):
            out += _HEAD.pack(code, command.command_id, command.response_required)
            out += self.nullable(command.producer_id)
            out += I32.pack(command.size)
            return True
        return False

    def _dispatch(self, out: bytearray, dispatch: MessageDispatch) -> bool:
        message = dispatch.message
        if message is not None and message.raw is None and not is_plain(message):
            return False
        out += _HEAD.pack(dispatch.TYPE, dispatch.command_id, dispatch.response_required)
        consumer_id, destination, named = self._dispatched
        if dispatch.consumer_id is not consumer_id or dispatch.destination is not destination:
            self._dispatched = self._name(dispatch.consumer_id, dispatch.destination)
            named = self._dispatched[2]
        out += named
        if message is None:
            out += _NULL
        elif message.raw is not None:
            out.append(1)
            out.append(message.TYPE)
            if len(message.raw) > LARGE_FRAME and self._shared is not None:
                self._shared.append((len(out), message.raw))
            else:
                out += message.raw
        else:
            out.append(1)
            out += _HEAD.pack(message.TYPE, message.command_id, message.response_required)
            self._message(out, message)
        out += I32.pack(dispatch.redelivery_counter)
        return True

    def write_dispatches(
        self, out: bytearray, dispatches: Sequence[Structure], most: int, largest: int
    ) -> int:
        """Append the whole frames of the first of these dispatches; return how many.

        It ends before anything else than a dispatch of a received message of no more than 64 KiB,
        before a frame of more than `largest` bytes, and once `out` has more than `most`.
        """
        count = 0
        consumer_id, destination, named = self._dispatched
        for dispatch in dispatches:
            if type(dispatch) is not MessageDispatch or len(out) > most:
                break
            message = dispatch.message
            raw = None if message is None else message.raw
            if message is None or raw is None or len(raw) > LARGE_FRAME:
                break
            if dispatch.consumer_id is not consumer_id or dispatch.destination is not destination:
                self._dispatched = self._name(dispatch.consumer_id, dispatch.destination)
                consumer_id, destination, named = self._dispatched
            size = _DISPATCHED_SIZE + len(named) + len(raw)
            if size > largest:
                break
            end = I32.pack(dispatch.redelivery_counter)
            out += _DISPATCH_HEAD.pack(
                size, MessageDispatch.TYPE, dispatch.command_id, dispatch.response_required
            )
            out += named
            out.append(1)
            out.append(message.TYPE)
            out += raw
            out += end
            count += 1
        return count

    def _ack(self, out: bytearray, ack: MessageAck) -> bool:
        first, last = ack.first_message_id, ack.last_message_id
        if (
            ack.poison_cause is not None
            or (first is not None and first.text_view is not None)
            or (last is not None and last.text_view is not None)
        ):
            return False
        out += _HEAD.pack(ack.TYPE, ack.command_id, ack.response_required)
        destination, consumer_id, first_bytes, second_bytes = self._acked
        if ack.destination is not destination or ack.consumer_id is not consumer_id:
            destination, consumer_id = ack.destination, ack.consumer_id
            first_bytes, second_bytes = self.nullable(destination), self.nullable(consumer_id)
            self._acked = (destination, consumer_id, first_bytes, second_bytes)
        out += first_bytes
        if ack.transaction_id is None:
            out += _NULL
        elif ack.transaction_id is self._transaction[0]:
            out += self._transaction[1]
        else:
            out += self._transaction_of(ack.transaction_id)
        out += second_bytes
        out += I8.pack(ack.ack_type)
        first_bytes = self._message_id(first)
        out += first_bytes
        out += first_bytes if last is first else self._message_id(last)
        out += _ACK_END.pack(ack.message_count, 0)
        return True

    def _message(self, out: bytearray, message: ActiveMQMessage) -> None:
        """Append the fields from producerId on."""
        producer_id, destination, named = self._sent
        if message.producer_id is not producer_id or message.destination is not destination:
            self._sent = self._name(message.producer_id, message.destination)
            named = self._sent[2]
        out += named
        if message.transaction_id is None and message.original_destination is None:
            out += _NULLS
        else:
            out += self.nullable(message.transaction_id)
            out += self.nullable(message.original_destination)
        message_id = message.message_id
        # generated: write the middle of a message
        if (
            message_id is not None
            and message.original_transaction_id is None
            and message.group_id is None
            and message.correlation_id is None
            and message.reply_to is None
            and message.type is None
        ):
            out += _MESSAGE_ID
            out += self._producer_of(message_id)
            out += MIDDLE.pack(
                message_id.producer_sequence_id,
                message_id.broker_sequence_id,
                0,
                0,
                message.group_sequence,
                0,
                message.persistent,
                message.expiration,
                message.priority,
                0,
                message.timestamp,
                0,
            )
        else:
            self._headers(out, message)
        # end generated
        for value in (message.content, message.marshalled_properties):
            if value is None:
                out.append(0)
            else:
                out += _LENGTH.pack(1, len(value))
                if len(value) > LARGE_FRAME and self._shared is not None and type(value) is bytes:
                    self._shared.append((len(out), value))
                else:
                    out += value
        out += pack_tail(message)

    def _headers(self, out: bytearray, message: ActiveMQMessage) -> None:
        out += self._message_id(message.message_id)
        # generated: write the headers of a message
        out += self.nullable(message.original_transaction_id)
        out += _string(message.group_id)
        out += GROUP_SEQUENCE.pack(message.group_sequence)
        out += _string(message.correlation_id)
        out += PERSISTENT_EXPIRATION_PRIORITY.pack(
            message.persistent, message.expiration, message.priority
        )
        out += self.nullable(message.reply_to)
        out += TIMESTAMP.pack(message.timestamp)
        out += _string(message.type)
        # end generated

    def _message_id(self, value: MessageId | None) -> bytes:
        if value is None:
            return _NULL
        return (
            _MESSAGE_ID
            + self._producer_of(value)
            + I64_PAIR.pack(value.producer_sequence_id, value.broker_sequence_id)
        )

    def _name(self, first: Name | None, second: Name | None) -> _Named:
        return (first, second, self.nullable(first) + self.nullable(second))

    def _producer_of(self, value: MessageId) -> bytes:
        producer_id, data = self._producer
        if value.producer_id is not producer_id:
            producer_id = value.producer_id
            data = self.nullable(producer_id)
            self._producer = (producer_id, data)
        return data

    def _transaction_of(self, value: TransactionId | None) -> bytes:
        transaction_id, data = self._transaction
        if value is not transaction_id:
            data = self.nullable(value)
            self._transaction = (value, data)
        return data

    def nullable(self, value: Name | None) -> bytes:
        """Return the bytes of a nullable value: flag, type, fields."""
        if value is None:
            return _NULL
        return self._memo.get(value.identity) or self._learn(value)

    def _learn(self, value: Name) -> bytes:
        if isinstance(value, LocalTransactionId):  # each transaction has a new id
            data = _TRANSACTION_ID.pack(1, value.TYPE, value.value)
            data += self.nullable(value.connection_id)
        else:
            writer = LooseWriter(CURRENT_VERSION, stack_trace=False)
            writer.write_nested(value, _ANY)
            data = bytes(writer.out)
        if len(data) <= _MEMO_SIZE:
            if len(self._memo) >= _MEMO_VALUES:
                self._memo.clear()
            self._memo[value.identity] = data
        return data


def _string(value: str | None) -> bytes:
    if value is None:
        return _NULL
    data = encode_mutf8(value)
    if len(data) > MAX_STRING_SIZE:
        raise LocalProtocolError(f"String of {len(data)} bytes is longer than {MAX_STRING_SIZE}")
    return b"\1" + U16.pack(len(data)) + data


# commandId and responseRequired, the first fields of every message.
_HEAD_SIZE: Final = 5
_PRODUCER_ID: Final = ProducerId.TYPE
_LOCAL_TRANSACTION_ID: Final = LocalTransactionId.TYPE
_XA_TRANSACTION_ID: Final = XATransactionId.TYPE

_writer: Final = FastWriter()


def is_plain(message: ActiveMQMessage) -> bool:
    """Return whether only the fields that clients set are set: nothing nullable in the tail."""
    # generated: is_plain
    message_id = message.message_id
    return (
        message.data_structure is None
        and message.target_consumer_id is None
        and message.broker_path is None
        and message.user_id is None
        and message.cluster is None
        and not isinstance(message, ActiveMQBlobMessage)
        and (message_id is None or message_id.text_view is None)
    )
    # end generated


def pack_tail(message: ActiveMQMessage) -> bytes:
    """Return the last TAIL_SIZE bytes of a plain message: from dataStructure on."""
    # generated: pack_tail
    return TAIL.pack(
        0,
        0,
        message.compressed,
        message.redelivery_counter,
        0,
        message.arrival,
        0,
        message.received_by_df_bridge,
        message.droppable,
        0,
        message.broker_in_time,
        message.broker_out_time,
        message.jms_xgroup_first_for_consumer,
    )
    # end generated


def marshal_body(message: ActiveMQMessage) -> bytes:
    """Return `message.raw`, marshalling the message first if it has none.

    Raises:
        LocalProtocolError: a field is missing, of a wrong type or too long.
    """
    if message.raw is None:
        frame = bytearray()
        try:
            if not _writer.write_frame(frame, message):
                frame += LooseWriter(CURRENT_VERSION, stack_trace=True).frame(message)
        except (struct.error, AttributeError, TypeError, ValueError) as e:
            raise LocalProtocolError(f"{type(message).__name__} cannot be written: {e}") from e
        message.raw = bytes(frame[1:])
        message.sequence_at = None
    return message.raw


def patch_raw(message: ActiveMQMessage, *, is_numbered: bool = False) -> None:
    """Update `raw` with the fields that a broker sets on a message it accepts.

    These are `message_id.broker_sequence_id`, `redelivery_counter`, `arrival`,
    `broker_in_time`, `broker_out_time`, `jms_xgroup_first_for_consumer`, `droppable` and
    `compressed`. For messages in the form that clients send, only bytes are copied; others are
    marshalled again. Without `raw` it does nothing.

    Args:
        message: the message whose fields were set.
        is_numbered: `raw` already contains the broker's sequence id, which halves the cost.

    Raises:
        LocalProtocolError: a field is out of range.
    """
    raw = message.raw
    if raw is None:
        return
    message_id, at = message.message_id, message.sequence_at
    if message_id is None or (at is None and not is_plain(message)):
        _marshal_again(message)
        return
    # a view of a long body saves one more copy of it, but takes longer than a short copy
    data = raw if len(raw) < _LONG else memoryview(raw)
    try:
        if is_numbered:
            message.raw = b"".join((data[:-TAIL_SIZE], pack_tail(message)))
            return
        if at is None:
            at = _broker_sequence_offset(raw)
        message.raw = b"".join(
            (
                raw[:at],
                I64.pack(message_id.broker_sequence_id),
                data[at + 8 : -TAIL_SIZE],
                pack_tail(message),
            )
        )
    except struct.error as e:
        raise LocalProtocolError(f"{type(message).__name__} cannot be written: {e}") from e


def readdress_raw(message: ActiveMQMessage, other: ActiveMQMessage) -> None:
    """Set the `raw` of a message that differs from `other` only in its destinations.

    `destination` and `original_destination` are replaced in the other's. If the message does not
    have the form that clients send, it gets none and is marshalled when it is written.
    """
    raw, at = other.raw, other.sequence_at
    if raw is None or not is_plain(message):
        return
    ids = memoryview(raw)[_HEAD_SIZE:]
    # those of a producer's messages are the same up to their sequence number
    found = _offsets(ids) if at is None else _known_offsets(bytes(ids[: at - 8 - _HEAD_SIZE]))
    start, transaction, original, end = found
    message.raw = readdressed = b"".join(
        (
            raw[: _HEAD_SIZE + start],
            _writer.nullable(message.destination),
            ids[transaction:original],
            _writer.nullable(message.original_destination),
            ids[end:],
        )
    )
    message.sequence_at = None if at is None else at + len(readdressed) - len(raw)


def _offsets(ids: bytes | memoryview) -> tuple[int, int, int, int]:
    """Return where destination, transactionId, originalDestination and messageId begin.

    `ids` are the bytes of a message from its producerId on.
    """
    start = _skip(ids, 0)
    transaction = _skip(ids, start)
    original = _skip(ids, transaction)
    return start, transaction, original, _skip(ids, original)


_known_offsets: Final = lru_cache(_MEMO_VALUES)(_offsets)


def _marshal_again(message: ActiveMQMessage) -> None:
    message.raw = None
    marshal_body(message)


def _broker_sequence_offset(raw: bytes) -> int:
    """Return the offset of brokerSequenceId, after six nullable values."""
    at = _skip(raw, _HEAD_SIZE)
    producer_id = raw[_HEAD_SIZE:at]
    at = _skip(raw, at)  # destination
    at = _skip(raw, at) if raw[at] else at + 1  # transactionId
    at = _skip(raw, at) if raw[at] else at + 1  # originalDestination
    # messageId: its flag, its type, the flag of textView (null in a plain message)
    at += 3
    if raw.startswith(producer_id, at):  # usually the same producer
        return at + len(producer_id) + 8
    return _skip(raw, at) + 8


def _skip(raw: bytes | memoryview, at: int) -> int:
    """Return where the nullable producer id, transaction id or destination at `at` ends."""
    if not raw[at]:
        return at + 1
    code = raw[at + 1]
    if code == _LOCAL_TRANSACTION_ID:
        at += 10
        return _after_string(raw, at + 2) if raw[at] else at + 1
    if code == _XA_TRANSACTION_ID:
        return _after_bytes(raw, _after_bytes(raw, at + 6))
    end: int = at + 5 + U16.unpack_from(raw, at + 3)[0] if raw[at + 2] else at + 3
    return end + 16 if code == _PRODUCER_ID else end


def _after_string(raw: bytes | memoryview, at: int) -> int:
    if not raw[at]:
        return at + 1
    end: int = at + 3 + U16.unpack_from(raw, at + 1)[0]
    return end


def _after_bytes(raw: bytes | memoryview, at: int) -> int:
    if not raw[at]:
        return at + 1
    return at + 5 + int.from_bytes(raw[at + 1 : at + 5], "big")
