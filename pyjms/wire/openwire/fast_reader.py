"""Reads the commands of the message path in their usual form: loose, uncached, version 12.

A shortcut for `reader`, not a second definition: for other forms (rare fields, damage) it returns
None, and the caller uses `reader`, which also raises the error. It is fast because:

- Runs of fields are unpacked with one struct call, nullable fields as their flags
  (see `schema`). The field lists are generated from config/codegen/commands.yaml.
- Ids and destinations repeat, so their bytes are looked up in a memo (`StructureMemo`); the
  same bytes give the same object, which also makes later comparisons cheap. The memo is bounded in
  number and size; when full it is cleared.
- Successive messages, and acknowledgements, begin with the same bytes up to their sequence
  number: one `startswith` replaces five lookups.
- `_message` is one long function, since a call costs as much as ten fields.

An IndexError means that the bytes do not have the usual form. (openwire-encoding 2)
"""

from __future__ import annotations

import struct
import threading
from typing import Any, Final

from pyjms.errors import RemoteProtocolError
from pyjms.jms.mutf8 import decode_mutf8
from pyjms.wire.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQMessage,
    Command,
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerAck,
    ProducerId,
    Response,
    TransactionInfo,
)
from pyjms.wire.openwire.kinds import I32, I64, I64_PAIR, U16
from pyjms.wire.openwire.reader import LooseReader
from pyjms.wire.openwire.schema import (
    CURRENT_VERSION,
    GROUP_SEQUENCE,
    GROUP_SEQUENCE_SIZE,
    MESSAGES,
    MIDDLE,
    MIDDLE_SIZE,
    PERSISTENT_EXPIRATION_PRIORITY,
    PERSISTENT_EXPIRATION_PRIORITY_SIZE,
    RESPONSE,
    STRUCTURES,
    TAIL,
    TAIL_SIZE,
    TIMESTAMP,
    TIMESTAMP_SIZE,
    Structure,
)

LOCAL_TRANSACTION_ID: Final = LocalTransactionId.TYPE
CONNECTION_ID: Final = ConnectionId.TYPE
CONSUMER_ID: Final = ConsumerId.TYPE
PRODUCER_ID: Final = ProducerId.TYPE
# The flag and type of a message id whose textView is null.
MESSAGE_ID: Final = b"\1\x6e\0"


_MEMO_VALUES: Final = 512
_MEMO_KEY: Final = 320
# For each type: the offset of its only string's byte count, and the size of what follows.
_SHAPES: Final[dict[int, tuple[int, int]]] = {
    100: (3, 0),
    101: (3, 0),
    102: (3, 0),
    103: (3, 0),
    LOCAL_TRANSACTION_ID: (13, 0),
    CONNECTION_ID: (3, 0),
    CONSUMER_ID: (3, 16),
    PRODUCER_ID: (3, 16),
}
_ANY: Final = frozenset(STRUCTURES)


class StructureMemo:
    """The ids and destinations that occurred in the frames of one connection."""

    __slots__ = ("_memo",)

    def __init__(self) -> None:
        # Any: the callers know the type of a value, and a cast would cost a call
        self._memo: dict[bytes, Any] = {}

    def _message_id(self, frame: bytes, at: int) -> tuple[MessageId | None, int]:
        if not frame[at]:
            return None, at + 1
        if not frame.startswith(MESSAGE_ID, at):
            raise IndexError
        end = self._end(frame, at + 3, PRODUCER_ID)
        producer_id = self._find(frame, at + 3, end)
        sequence, broker_sequence = I64_PAIR.unpack_from(frame, end)
        return MessageId(None, producer_id, sequence, broker_sequence), end + 16

    def _nullable(self, frame: bytes, at: int, code: int) -> tuple[Any, int]:
        if not frame[at]:
            return None, at + 1
        end = self._end(frame, at, code)
        return self._find(frame, at, end), end

    def _nullable_destination(self, frame: bytes, at: int) -> tuple[Any, int]:
        if not frame[at]:
            return None, at + 1
        end = self._end_of_destination(frame, at)
        return self._find(frame, at, end), end

    def _string(self, frame: bytes, at: int) -> tuple[str | None, int]:
        if not frame[at]:
            return None, at + 1
        end = at + 3 + U16.unpack_from(frame, at + 1)[0]
        if end > len(frame):
            raise IndexError
        return decode_mutf8(frame[at + 3 : end]), end

    # generated: _headers
    def _headers(
        self, frame: bytes, at: int
    ) -> tuple[Any, str | None, int, str | None, bool, int, int, Any, int, str | None, int]:
        """Read the fields from originalTransactionId to type one by one."""
        original_transaction_id: Any = None
        if frame[at]:
            original_transaction_id, at = self._nullable(frame, at, LOCAL_TRANSACTION_ID)
        else:
            at += 1
        group_id: str | None = None
        if frame[at]:
            group_id, at = self._string(frame, at)
        else:
            at += 1
        (group_sequence,) = GROUP_SEQUENCE.unpack_from(frame, at)
        at += GROUP_SEQUENCE_SIZE
        correlation_id: str | None = None
        if frame[at]:
            correlation_id, at = self._string(frame, at)
        else:
            at += 1
        (
            persistent,
            expiration,
            priority,
        ) = PERSISTENT_EXPIRATION_PRIORITY.unpack_from(frame, at)
        at += PERSISTENT_EXPIRATION_PRIORITY_SIZE
        reply_to: Any = None
        if frame[at]:
            reply_to, at = self._nullable_destination(frame, at)
        else:
            at += 1
        (timestamp,) = TIMESTAMP.unpack_from(frame, at)
        at += TIMESTAMP_SIZE
        type_: str | None = None
        if frame[at]:
            type_, at = self._string(frame, at)
        else:
            at += 1
        # fmt: off
        return (
            original_transaction_id, group_id, group_sequence, correlation_id, persistent,
            expiration, priority, reply_to, timestamp, type_, at,
        )
        # fmt: on

    # end generated

    def _end(self, frame: bytes, at: int, code: int) -> int:
        """Return where the nested value of type `code` at `at` ends."""
        if frame[at + 1] != code:
            raise IndexError
        offset, rest = _SHAPES[code]
        end: int = at + offset + 2 + U16.unpack_from(frame, at + offset)[0] + rest
        return end

    def _end_of_destination(self, frame: bytes, at: int) -> int:
        if not 100 <= frame[at + 1] <= 103:
            raise IndexError
        end: int = at + 5 + U16.unpack_from(frame, at + 3)[0]
        return end

    def _find(self, frame: bytes, at: int, end: int) -> Any:
        value = self._value(frame, at, end)
        if value is None:
            raise IndexError
        return value

    def _value(self, frame: bytes, at: int, end: int) -> Any:
        key = frame[at:end]
        return self._memo.get(key) or self._learn(key)

    def _learn(self, key: bytes) -> Structure | None:
        """Return the nested value encoded in `key`; None if `key` is not exactly one value."""
        if key[1] == LOCAL_TRANSACTION_ID and key[10]:  # each transaction has a new id
            connection_id = self._value(key, 10, len(key))
            if not isinstance(connection_id, ConnectionId):
                return None
            value: Structure | None = LocalTransactionId(I64.unpack_from(key, 2)[0], connection_id)
        else:
            reader = LooseReader(key, CURRENT_VERSION, stack_trace=False)
            value = reader.read_nested(_ANY)
            if reader.pos != len(key):
                return None
        if value is not None and len(key) <= _MEMO_KEY:
            if len(self._memo) >= _MEMO_VALUES:
                self._memo.clear()
            self._memo[key] = value
        return value


# commandId, responseRequired
_HEAD: Final = struct.Struct(">i?")

_LONGEST_PREFIX: Final = 1024  # longer ones are not remembered

# transactionId null, originalDestination null, messageId there, its textView null
_PLAIN_MESSAGE_ID: Final = b"\0\0\1\x6e\0"


class FastReader(StructureMemo):
    """The fast reader of one connection, with its memo of ids and destinations."""

    __slots__ = (
        "_ack_ids",
        "_ack_key",
        "_ack_prefix",
        "_dispatch_ids",
        "_dispatch_prefix",
        "_ids",
        "_keeps_raw",
        "_prefix",
    )

    def __init__(self, *, keeps_raw: bool = True) -> None:
        """Create a reader whose messages have their `raw`, unless nobody will send them on."""
        super().__init__()
        self._keeps_raw = keeps_raw
        # the latest message's bytes up to its sequence number; the next usually begins equally
        self._prefix = b""
        self._ids: tuple[Any, Any, Any, Any, Any] = (None, None, None, None, None)
        # likewise of the latest dispatch, up to its message's type: its consumer and destination
        self._dispatch_prefix = b""
        self._dispatch_ids: tuple[Any, Any] = (None, None)
        # the same of the latest acknowledgement, up to its message's number; that message's id
        self._ack_prefix = b""
        self._ack_key = b""
        self._ack_ids: tuple[Any, Any, int, Any] = (None, None, 0, None)

    def read_frames(self, data: bytes, at: int, largest: int, commands: list[Command]) -> int:
        """Append the commands of the frames in `data` from `at` on; return where it has stopped.

        That is before a frame that is incomplete or has a wrong size, or for which the general
        reader is needed. `largest` is the size of the largest frame.
        """
        total = len(data)
        try:
            while True:
                start = at + 4
                size = int.from_bytes(data[at:start], "big", signed=True)
                end = start + size
                if not 0 < size <= largest or end > total:
                    return at
                code = data[start]
                command: Command | None
                if code in MESSAGES:
                    command = self._message(data, start + 1, end, MESSAGES[code])
                elif code == MessageDispatch.TYPE:
                    command = self._dispatch(data, start, end)
                elif code == MessageAck.TYPE:
                    command = self._next_ack(data, start, end) or self._ack(data[start:end])
                else:
                    command = self.read_frame(data[start:end])
                if command is None:
                    return at
                commands.append(command)
                at = end
        except (IndexError, struct.error, RemoteProtocolError, UnicodeDecodeError):
            return at

    def read_frame(self, frame: bytes) -> Command | None:
        """Return the command, or None if the general reader is needed."""
        code = frame[0]
        try:
            if code in MESSAGES:
                return self._message(frame, 1, len(frame), MESSAGES[code])
            if code == MessageDispatch.TYPE:
                return self._dispatch(frame, 0, len(frame))
            if code == MessageAck.TYPE:
                return self._next_ack(frame, 0, len(frame)) or self._ack(frame)
            if code == Response.TYPE and len(frame) == RESPONSE.size:
                _, command_id, response_required, correlation_id = RESPONSE.unpack(frame)
                return Response(correlation_id, command_id, response_required)
            if code == TransactionInfo.TYPE:
                return self._transaction(frame)
            if code == ProducerAck.TYPE:
                return self._producer_ack(frame)
        except (IndexError, struct.error, RemoteProtocolError, UnicodeDecodeError):
            return None
        return None

    def _dispatch(self, frame: bytes, start: int, end: int) -> MessageDispatch | None:
        """Return the dispatch whose frame is from `start` to `end`; None: use the reader."""
        command_id, response_required = _HEAD.unpack_from(frame, start + 1)
        prefix, begin = self._dispatch_prefix, start + 6
        if prefix and frame.startswith(prefix, begin):
            consumer_id, destination = self._dispatch_ids
            at = begin + len(prefix)
        else:
            after = self._end(frame, begin, CONSUMER_ID)
            consumer_id = self._value(frame, begin, after)
            at = self._end_of_destination(frame, after)
            destination = self._value(frame, after, at)
            if consumer_id is None or destination is None or frame[at] != 1:
                return None
            at += 1
            if at - start <= _LONGEST_PREFIX:
                self._dispatch_prefix = frame[begin:at]
                self._dispatch_ids = (consumer_id, destination)
        cls = MESSAGES.get(frame[at])
        if cls is None:
            return None
        message = self._message(frame, at + 1, end - 4, cls)
        if message is None:
            return None
        return MessageDispatch(
            consumer_id,
            destination,
            message,
            I32.unpack_from(frame, end - 4)[0],
            command_id,
            response_required,
        )

    def _next_ack(self, data: bytes, start: int, end: int) -> MessageAck | None:
        """Return the acknowledgement of one message from `start` to `end`; None: it has to be read.

        It differs from the latest one only in its message's numbers.
        """
        prefix, key = self._ack_prefix, self._ack_key
        at = start + 6 + len(prefix)
        if (
            end != at + len(key) + 37
            or not prefix
            or data[end - 1]
            or not data.startswith(prefix, start + 6)
            or not data.startswith(key, at + 16)
        ):
            return None
        first = I64_PAIR.unpack_from(data, at)
        if first != I64_PAIR.unpack_from(data, end - 21):
            return None
        command_id, response_required = _HEAD.unpack_from(data, start + 1)
        destination, consumer_id, ack_type, producer_id = self._ack_ids
        only = MessageId(None, producer_id, first[0], first[1])
        return MessageAck(
            destination,
            None,
            consumer_id,
            ack_type,
            only,
            only,
            I32.unpack_from(data, end - 5)[0],
            None,
            command_id,
            response_required,
        )

    def _ack(self, frame: bytes) -> MessageAck | None:
        command_id, response_required = _HEAD.unpack_from(frame, 1)
        at = self._end_of_destination(frame, 6)
        destination = self._value(frame, 6, at)
        end = at + 1
        transaction_id: Any = None
        if frame[at]:
            end = self._end(frame, at, LOCAL_TRANSACTION_ID)
            transaction_id = self._value(frame, at, end)
            if transaction_id is None:
                return None
        at = self._end(frame, end, CONSUMER_ID)
        consumer_id = self._value(frame, end, at)
        if destination is None or consumer_id is None:
            return None
        ack_type = frame[at]
        first, after = self._message_id(frame, at + 1)
        same = frame[at + 1 : after]
        if frame.startswith(same, after):
            last, after = first, after + len(same)
            usual = transaction_id is None and ack_type <= 127 and after <= _LONGEST_PREFIX
            if usual and first is not None:
                self._ack_prefix = frame[6 : after - len(same) - 16]
                self._ack_key = same[:-16]
                self._ack_ids = (destination, consumer_id, ack_type, first.producer_id)
        else:
            last, after = self._message_id(frame, after)
        if after + 5 != len(frame) or frame[after + 4] or ack_type > 127:
            return None
        return MessageAck(
            destination,
            transaction_id,
            consumer_id,
            ack_type,
            first,
            last,
            I32.unpack_from(frame, after)[0],
            None,
            command_id,
            response_required,
        )

    def _transaction(self, frame: bytes) -> TransactionInfo | None:
        command_id, response_required = _HEAD.unpack_from(frame, 1)
        connection_id, at = self._nullable(frame, 6, CONNECTION_ID)
        transaction_id, at = self._nullable(frame, at, LOCAL_TRANSACTION_ID)
        kind = frame[at]
        if at + 1 != len(frame) or kind > 127:
            return None
        return TransactionInfo(connection_id, transaction_id, kind, command_id, response_required)

    def _producer_ack(self, frame: bytes) -> ProducerAck | None:
        command_id, response_required = _HEAD.unpack_from(frame, 1)
        end = self._end(frame, 6, PRODUCER_ID)
        producer_id = self._value(frame, 6, end)
        if producer_id is None or end + 4 != len(frame):
            return None
        size: int = I32.unpack_from(frame, end)[0]
        return ProducerAck(producer_id, size, command_id, response_required)

    def _message(
        self, frame: bytes, start: int, end: int, cls: type[ActiveMQMessage]
    ) -> ActiveMQMessage | None:
        """Return the message whose fields are from `start` to `end`; None: use the reader."""
        command_id, response_required = _HEAD.unpack_from(frame, start)
        at = start + 5
        if self._prefix and frame.startswith(self._prefix, at):
            producer_id, destination, transaction_id, original_destination, id_producer = self._ids
            at += len(self._prefix)
        else:
            ids = self._first_ids(frame, at)
            if ids is None:
                return None
            producer_id, destination, transaction_id, original_destination, id_producer, at = ids
        sequence_at = at + 8 - start
        # generated: read the fields of a message
        # fmt: off
        (
            producer_sequence_id, broker_sequence_id, has_original_transaction_id, has_group_id,
            group_sequence, has_correlation_id, persistent, expiration, priority, has_reply_to,
            timestamp, has_type,
        ) = MIDDLE.unpack_from(frame, at)
        original_transaction_id: Any = None
        group_id: str | None = None
        correlation_id: str | None = None
        reply_to: Any = None
        type_: str | None = None
        if not (
            has_original_transaction_id or has_group_id or has_correlation_id or has_reply_to
            or has_type
        ):
            at += MIDDLE_SIZE
        else:
            (
                original_transaction_id, group_id, group_sequence, correlation_id, persistent,
                expiration, priority, reply_to, timestamp, type_, at,
            ) = self._headers(frame, at + 16)
        content: bytes | None = None
        if frame[at]:
            (length,) = I32.unpack_from(frame, at + 1)
            at += 5
            if not 0 <= length <= len(frame) - at:
                raise IndexError
            content = frame[at : at + length]
            at += length
        else:
            at += 1
        marshalled_properties: bytes | None = None
        if frame[at]:
            (length,) = I32.unpack_from(frame, at + 1)
            at += 5
            if not 0 <= length <= len(frame) - at:
                raise IndexError
            marshalled_properties = frame[at : at + length]
            at += length
        else:
            at += 1
        if end - at != TAIL_SIZE or cls is ActiveMQBlobMessage:
            return None
        (
            has_data_structure, has_target_consumer_id, compressed, redelivery_counter,
            has_broker_path, arrival, has_user_id, received_by_df_bridge, droppable, has_cluster,
            broker_in_time, broker_out_time, jms_xgroup_first_for_consumer,
        ) = TAIL.unpack_from(frame, at)
        if (
            has_data_structure or has_target_consumer_id or has_broker_path or has_user_id
            or has_cluster
        ):
            return None
        message = cls(
            producer_id, destination, transaction_id, original_destination,
            MessageId(None, id_producer, producer_sequence_id, broker_sequence_id),
            original_transaction_id, group_id, group_sequence, correlation_id, persistent,
            expiration, priority, reply_to, timestamp, type_, content, marshalled_properties, None,
            None, compressed, redelivery_counter, None, arrival, None, received_by_df_bridge,
            droppable, None, broker_in_time, broker_out_time, jms_xgroup_first_for_consumer,
            command_id, response_required,
        )
        # fmt: on
        # end generated
        if self._keeps_raw:
            message.raw = frame[start:end]
            message.sequence_at = sequence_at
        return message

    def _first_ids(self, frame: bytes, start: int) -> tuple[Any, Any, Any, Any, Any, int] | None:
        """Return the fields from producerId to the producer in messageId, and their end."""
        at = start
        count: int = U16.unpack_from(frame, at + 3)[0]
        after = at + 21 + count
        producer_key = frame[at:after]
        producer_id = self._memo.get(producer_key) or self._learn(producer_key)
        if frame[at + 1] != PRODUCER_ID or producer_id is None:
            return None
        count = U16.unpack_from(frame, after + 3)[0]
        at = after + 5 + count
        destination_key = frame[after:at]
        destination = self._memo.get(destination_key) or self._learn(destination_key)
        if not 100 <= frame[after + 1] <= 103 or destination is None:
            return None
        transaction_id: Any = None
        original_destination: Any = None
        if frame.startswith(_PLAIN_MESSAGE_ID, at):
            at += 5
        else:
            transaction_id, original_destination, at = self._rare_ids(frame, at)
        id_producer: Any = producer_id
        if frame.startswith(producer_key, at):
            at += len(producer_key)
        else:
            after = self._end(frame, at, PRODUCER_ID)
            id_producer, at = self._find(frame, at, after), after
        if at - start <= _LONGEST_PREFIX:
            self._prefix = frame[start:at]
            ids = (producer_id, destination, transaction_id, original_destination, id_producer)
            self._ids = ids
        return producer_id, destination, transaction_id, original_destination, id_producer, at

    def _rare_ids(self, frame: bytes, at: int) -> tuple[Any, Any, int]:
        """Return transactionId, originalDestination and where messageId's producer begins."""
        transaction_id, at = self._nullable(frame, at, LOCAL_TRANSACTION_ID)
        original_destination, at = self._nullable_destination(frame, at)
        if not frame.startswith(MESSAGE_ID, at):
            raise IndexError
        return transaction_id, original_destination, at + 3


_local: Final = threading.local()  # a FastReader has a memo and is not thread-safe


def unmarshal_body(code: int, body: bytes) -> ActiveMQMessage:
    """Return the message of type `code` with a body from `marshal_body`; its `raw` is set.

    Raises:
        RemoteProtocolError: `code` is not a message's, or `body` is damaged.
    """
    if code not in MESSAGES:
        raise RemoteProtocolError(f"Type {code} is not a message")
    frame = bytes((code,)) + body
    found = _fast_reader().read_frame(frame)
    if isinstance(found, ActiveMQMessage):
        found.raw = body
        return found
    reader = LooseReader(frame, CURRENT_VERSION, stack_trace=True)
    message = reader.read_frame()
    if reader.pos != len(body) + 1 or not isinstance(message, ActiveMQMessage):
        raise RemoteProtocolError("Bytes after the end of a message", position=reader.pos)
    message.raw = body
    return message


def _fast_reader() -> FastReader:
    reader = getattr(_local, "reader", None)
    if reader is None:
        reader = _local.reader = FastReader()
    return reader
