"""Identifiers. They compare and hash by value and are shared freely: do not change them.

The one exception is `MessageId.broker_sequence_id`, which the broker sets when it accepts the
message; it is not part of the identity. (openwire-encoding 9)
"""

from __future__ import annotations

from typing import ClassVar

from pyjms.wire.openwire.commands import kinds
from pyjms.wire.openwire.commands.base import Field, Identifier, ValueIdentifier

__all__ = [
    "BrokerId",
    "ConnectionId",
    "ConsumerId",
    "LocalTransactionId",
    "MessageId",
    "ProducerId",
    "SessionId",
    "TransactionId",
    "XATransactionId",
]


class BrokerId(ValueIdentifier):
    """A broker."""

    # generated: BrokerId
    # fmt: off
    __slots__ = ("value",)
    TYPE: ClassVar[int] = 124
    LAYOUT: ClassVar[tuple[Field, ...]] = (Field("value", kinds.STRING, 1),)

    def __init__(self, value: str | None = None) -> None:
        self.value = value
        self.identity = (124, value)
        self._hash = hash(self.identity)
    # fmt: on
    # end generated

    def __str__(self) -> str:
        return self.value or ""


class ConnectionId(ValueIdentifier):
    """A connection: `ID:host-port-millis-n:1`."""

    # generated: ConnectionId
    # fmt: off
    __slots__ = ("value",)
    TYPE: ClassVar[int] = 120
    LAYOUT: ClassVar[tuple[Field, ...]] = (Field("value", kinds.STRING, 1),)

    def __init__(self, value: str | None = None) -> None:
        self.value = value
        self.identity = (120, value)
        self._hash = hash(self.identity)
    # fmt: on
    # end generated

    def __str__(self) -> str:
        return self.value or ""


class SessionId(ValueIdentifier):
    """A session of a connection, from 1; -1 is the one that needs no SessionInfo."""

    # generated: SessionId
    # fmt: off
    __slots__ = ("connection_id", "value")
    TYPE: ClassVar[int] = 121
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("connection_id", kinds.STRING, 1), Field("value", kinds.LONG, 1),
    )

    def __init__(self, connection_id: str | None = None, value: int = 0) -> None:
        self.connection_id = connection_id
        self.value = value
        self.identity = (121, connection_id, value)
        self._hash = hash(self.identity)
    # fmt: on
    # end generated

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.value}"


class ConsumerId(ValueIdentifier):
    """A consumer of a session."""

    # generated: ConsumerId
    # fmt: off
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
        self._hash = hash(self.identity)
    # fmt: on
    # end generated

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.session_id}:{self.value}"


class ProducerId(ValueIdentifier):
    """A producer of a session."""

    # generated: ProducerId
    # fmt: off
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
        self._hash = hash(self.identity)
    # fmt: on
    # end generated

    def __str__(self) -> str:
        return f"{self.connection_id}:{self.session_id}:{self.value}"


class MessageId(Identifier):
    """A message: its producer and that producer's sequence number, from 1."""

    # generated: MessageId
    # fmt: off
    __slots__ = (
        "_hash", "broker_sequence_id", "producer_id", "producer_sequence_id", "text_view",
    )
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
        self._hash = hash((producer_id, producer_sequence_id))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, MessageId)
            and self.producer_sequence_id == other.producer_sequence_id
            and self.producer_id == other.producer_id
        )

    def __hash__(self) -> int:
        return self._hash
    # fmt: on
    # end generated

    def __str__(self) -> str:
        if self.text_view is not None:
            return self.text_view if self.text_view.startswith("ID:") else f"ID:{self.text_view}"
        return f"{self.producer_id}:{self.producer_sequence_id}"


class TransactionId(ValueIdentifier):
    """A local or an XA transaction."""

    __slots__ = ()


class LocalTransactionId(TransactionId):
    """A transaction of one connection, from 1."""

    # generated: LocalTransactionId
    # fmt: off
    __slots__ = ("connection_id", "value")
    TYPE: ClassVar[int] = 111
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("value", kinds.LONG, 1), Field("connection_id", kinds.CACHED, 1, "ConnectionId"),
    )

    def __init__(self, value: int = 0, connection_id: ConnectionId | None = None) -> None:
        self.value = value
        self.connection_id = connection_id
        self.identity = (111, value, connection_id)
        self._hash = hash(self.identity)
    # fmt: on
    # end generated

    def __str__(self) -> str:
        return f"TX:{self.connection_id}:{self.value}"


class XATransactionId(TransactionId):
    """A branch of a distributed transaction."""

    # generated: XATransactionId
    # fmt: off
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
        self._hash = hash(self.identity)
    # fmt: on
    # end generated

    def __str__(self) -> str:
        gtrid = _signed_hex(self.global_transaction_id)
        bqual = _signed_hex(self.branch_qualifier)
        return f"XID:[{self.format_id},globalId={gtrid},branchId={bqual}]"


def _signed_hex(data: bytes | None) -> str:
    """Print each byte as Java's Integer.toHexString does: sign-extended, unpadded."""
    return "".join(f"{b | 0xFFFFFF00 if b > 127 else b:x}" for b in data or b"")
