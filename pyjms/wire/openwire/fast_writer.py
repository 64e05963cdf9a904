"""Writes the commands of the message path in their usual form: loose, uncached, version 12.

The counterpart of `fast_reader`; other forms are left to `writer`. A message that has `raw` is
written by copying it. The encoded forms of ids and destinations are kept in a bounded memo, and the
latest ones separately, since successive commands refer to the same objects. Errors in fields raise
struct.error, TypeError or AttributeError; the caller converts them to LocalProtocolError.
(openwire-encoding 2)
"""

from __future__ import annotations

import struct
from typing import Final

from pyjms.errors import LocalProtocolError
from pyjms.jms.mutf8 import encode_mutf8
from pyjms.wire.limits import LARGE_FRAME, MAX_STRING_SIZE
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerAck,
    Response,
    TransactionInfo,
)
from pyjms.wire.openwire.kinds import I8, I32, I64_PAIR, U16
from pyjms.wire.openwire.schema import (
    CURRENT_VERSION,
    GROUP_SEQUENCE,
    MESSAGES,
    MIDDLE,
    PERSISTENT_EXPIRATION_PRIORITY,
    RESPONSE,
    STRUCTURES,
    TIMESTAMP,
    Structure,
    is_plain,
    is_plain_id,
    pack_tail,
)
from pyjms.wire.openwire.writer import LooseWriter

# type, commandId, responseRequired
_HEAD: Final = struct.Struct(">Bi?")
_LENGTH: Final = struct.Struct(">Bi")
_ACK_END: Final = struct.Struct(">iB")

_NULL: Final = b"\0"
_MESSAGE_ID: Final = b"\1\x6e\0"
_MEMO_VALUES: Final = 512
_MEMO_SIZE: Final = 320
_ANY: Final = frozenset(STRUCTURES)

_Named = tuple[Structure | None, Structure | None, bytes]


class FastWriter:
    """The fast writer of one connection, with its memo of encoded ids and destinations."""

    __slots__ = ("_acked", "_dispatched", "_memo", "_producer", "_sent", "_shared")

    def __init__(self, shared: list[tuple[int, bytes]] | None = None) -> None:
        """Create a writer that appends long values and their positions to `shared`.

        These values are omitted from the frames. None: nothing is omitted.
        """
        self._shared = shared
        self._memo: dict[Structure, bytes] = {}
        # the objects to which the latest command of each kind referred, and their bytes
        self._dispatched: _Named = (None, None, _NULL + _NULL)
        self._acked: _Named = (None, None, _NULL + _NULL + _NULL)
        self._sent: _Named = (None, None, _NULL + _NULL)
        self._producer: tuple[Structure | None, bytes] = (None, _NULL)

    def write_frame(self, out: bytearray, command: Structure) -> bool:
        """Append type and body of `command`; return False without appending: use the writer."""
        code = command.TYPE
        if code in MESSAGES and isinstance(command, ActiveMQMessage):
            return self._message_frame(out, code, command)
        if isinstance(command, MessageDispatch):
            return self._dispatch(out, command)
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
            out += self.nullable(command.transaction_id)
            out += I8.pack(command.type)
            return True
        if isinstance(command, ProducerAck):
            out += _HEAD.pack(code, command.command_id, command.response_required)
            out += self.nullable(command.producer_id)
            out += I32.pack(command.size)
            return True
        return False

    def _message_frame(self, out: bytearray, code: int, message: ActiveMQMessage) -> bool:
        raw = message.raw
        if raw is None:
            if not is_plain(message):
                return False
            out += _HEAD.pack(code, message.command_id, message.response_required)
            self._message(out, message)
            return True
        # the transport sets commandId and responseRequired: `raw` is valid without them
        out += _HEAD.pack(code, message.command_id, message.response_required)
        out += memoryview(raw)[5:]
        return True

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

    def _ack(self, out: bytearray, ack: MessageAck) -> bool:
        first, last = ack.first_message_id, ack.last_message_id
        if ack.poison_cause is not None or not (is_plain_id(first) and is_plain_id(last)):
            return False
        out += _HEAD.pack(ack.TYPE, ack.command_id, ack.response_required)
        if ack.transaction_id is None:
            destination, consumer_id, named = self._acked
            if ack.destination is not destination or ack.consumer_id is not consumer_id:
                destination, consumer_id = ack.destination, ack.consumer_id
                named = self.nullable(destination) + _NULL + self.nullable(consumer_id)
                self._acked = (destination, consumer_id, named)
            out += named
        else:
            out += self.nullable(ack.destination)
            out += self.nullable(ack.transaction_id)
            out += self.nullable(ack.consumer_id)
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
        self._bytes(out, message.content)
        self._bytes(out, message.marshalled_properties)
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

    def _name(self, first: Structure | None, second: Structure | None) -> _Named:
        return (first, second, self.nullable(first) + self.nullable(second))

    def _producer_of(self, value: MessageId) -> bytes:
        producer_id, data = self._producer
        if value.producer_id is not producer_id:
            producer_id = value.producer_id
            data = self.nullable(producer_id)
            self._producer = (producer_id, data)
        return data

    def _bytes(self, out: bytearray, value: bytes | None) -> None:
        if value is None:
            out.append(0)
        else:
            out += _LENGTH.pack(1, len(value))
            if len(value) > LARGE_FRAME and self._shared is not None and type(value) is bytes:
                self._shared.append((len(out), value))
            else:
                out += value

    def nullable(self, value: Structure | None) -> bytes:
        """Return the bytes of a nullable value: flag, type, fields."""
        if value is None:
            return _NULL
        return self._memo.get(value) or self._learn(value)

    def _learn(self, value: Structure) -> bytes:
        writer = LooseWriter(CURRENT_VERSION, stack_trace=False)
        writer.write_nested(value, _ANY)
        data = bytes(writer.out)
        if len(data) <= _MEMO_SIZE:
            if len(self._memo) >= _MEMO_VALUES:
                self._memo.clear()
            self._memo[value] = data
        return data


def _string(value: str | None) -> bytes:
    if value is None:
        return _NULL
    data = encode_mutf8(value)
    if len(data) > MAX_STRING_SIZE:
        raise LocalProtocolError(f"String of {len(data)} bytes is longer than {MAX_STRING_SIZE}")
    return b"\1" + U16.pack(len(data)) + data
