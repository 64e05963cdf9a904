"""A memo of the ids and destinations in loose, uncached frames, by their bytes.

The same bytes give the same object. The memo is bounded in number and size; when full it is
cleared. IndexError means that the bytes do not have the usual form.
"""

from __future__ import annotations

from typing import Any, Final

from pyjms.jms.mutf8 import decode_mutf8
from pyjms.wire.openwire.commands import (
    ConnectionId,
    ConsumerId,
    LocalTransactionId,
    MessageId,
    ProducerId,
)
from pyjms.wire.openwire.commands.kinds import I64, I64_PAIR, U16
from pyjms.wire.openwire.message_layout import (
    GROUP_SEQUENCE,
    GROUP_SEQUENCE_SIZE,
    PERSISTENT_EXPIRATION_PRIORITY,
    PERSISTENT_EXPIRATION_PRIORITY_SIZE,
    TIMESTAMP,
    TIMESTAMP_SIZE,
)
from pyjms.wire.openwire.reader import LooseReader
from pyjms.wire.openwire.schema import CURRENT_VERSION, STRUCTURES, Structure

__all__ = [
    "CONNECTION_ID",
    "CONSUMER_ID",
    "LOCAL_TRANSACTION_ID",
    "MESSAGE_ID",
    "PRODUCER_ID",
    "StructureMemo",
]

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
        producer_id = self._known(frame, at + 3, end)
        sequence, broker_sequence = I64_PAIR.unpack_from(frame, end)
        return MessageId(None, producer_id, sequence, broker_sequence), end + 16

    def _nullable(self, frame: bytes, at: int, code: int) -> tuple[Any, int]:
        if not frame[at]:
            return None, at + 1
        end = self._end(frame, at, code)
        return self._known(frame, at, end), end

    def _nullable_destination(self, frame: bytes, at: int) -> tuple[Any, int]:
        if not frame[at]:
            return None, at + 1
        end = self._end_of_destination(frame, at)
        return self._known(frame, at, end), end

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
        original_transaction_id, at = self._nullable(frame, at, LOCAL_TRANSACTION_ID)
        group_id, at = self._string(frame, at)
        (group_sequence,) = GROUP_SEQUENCE.unpack_from(frame, at)
        at += GROUP_SEQUENCE_SIZE
        correlation_id, at = self._string(frame, at)
        (
            persistent,
            expiration,
            priority,
        ) = PERSISTENT_EXPIRATION_PRIORITY.unpack_from(frame, at)
        at += PERSISTENT_EXPIRATION_PRIORITY_SIZE
        reply_to, at = self._nullable_destination(frame, at)
        (timestamp,) = TIMESTAMP.unpack_from(frame, at)
        at += TIMESTAMP_SIZE
        type_, at = self._string(frame, at)
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

    def _known(self, frame: bytes, at: int, end: int) -> Any:
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
            value = reader.nested(_ANY)
            if reader.pos != len(key):
                return None
        if value is not None and len(key) <= _MEMO_KEY:
            if len(self._memo) >= _MEMO_VALUES:
                self._memo.clear()
            self._memo[key] = value
        return value
