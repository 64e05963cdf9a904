"""A message's marshalled body: kept as received, patched, created and read separately.

`ActiveMQMessage.raw` is the body (all fields, without size and type byte) in loose, uncached
version 12; frames in that form are written by copying it, and the broker stores it. Rules:

- Code that sets a field of a message with `raw` must update `raw`: by `patch_raw` for the fields
  that it names, otherwise by `message.raw = None`.
- `commandId` and `responseRequired` of a message that is sent alone are written from the fields,
  and in a MessageDispatch they are not read: a transport may number a message without changing
  `raw`.
- The redelivery counter, which differs between consumers, is a field of MessageDispatch.

(decisions D5)
"""

from __future__ import annotations

import struct
import threading
from typing import Final

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.fast_reader import FastReader
from pyjms.wire.openwire.fast_writer import FastWriter
from pyjms.wire.openwire.kinds import I64, U16
from pyjms.wire.openwire.reader import LooseReader
from pyjms.wire.openwire.schema import CURRENT_VERSION, MESSAGES, TAIL_SIZE, is_plain, pack_tail
from pyjms.wire.openwire.writer import LooseWriter

# commandId and responseRequired, the first fields of every message.
_HEAD_SIZE: Final = 5
_PRODUCER_ID: Final = 123
_LOCAL_TRANSACTION_ID: Final = 111
_XA_TRANSACTION_ID: Final = 112

_writer: Final = FastWriter()
_local: Final = threading.local()  # a FastReader has a memo and is not thread-safe


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
    return message.raw


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
    message_id = message.message_id
    if message_id is None or not is_plain(message):
        _marshal_again(message)
        return
    try:
        if is_numbered:
            message.raw = raw[:-TAIL_SIZE] + pack_tail(message)
            return
        at = _broker_sequence_offset(raw)
        message.raw = b"".join(
            (
                raw[:at],
                I64.pack(message_id.broker_sequence_id),
                raw[at + 8 : -TAIL_SIZE],
                pack_tail(message),
            )
        )
    except struct.error as e:
        raise LocalProtocolError(f"{type(message).__name__} cannot be written: {e}") from e


def readdress_raw(message: ActiveMQMessage, raw: bytes) -> None:
    """Set the `raw` of a message that differs from another one only in its destinations.

    `raw` is that of the other message; `destination` and `original_destination` are replaced in it.
    If the message does not have the form that clients send, it gets none and is marshalled when it
    is written.
    """
    if not is_plain(message):
        return
    start = _skip(raw, _HEAD_SIZE)
    transaction = _skip(raw, start)
    original = _skip(raw, transaction)
    end = _skip(raw, original)
    message.raw = b"".join(
        (
            raw[:start],
            _writer.nullable(message.destination),
            raw[transaction:original],
            _writer.nullable(message.original_destination),
            raw[end:],
        )
    )


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


def _skip(raw: bytes, at: int) -> int:
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


def _after_string(raw: bytes, at: int) -> int:
    if not raw[at]:
        return at + 1
    end: int = at + 3 + U16.unpack_from(raw, at + 1)[0]
    return end


def _after_bytes(raw: bytes, at: int) -> int:
    if not raw[at]:
        return at + 1
    return at + 5 + int.from_bytes(raw[at + 1 : at + 5], "big")
