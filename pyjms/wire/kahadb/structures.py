"""The parts of KahaDB's commands: field layouts, destinations, locations, transactions.

`FIELDS` is the layout of a class, in the order of its bytes. All classes but the commands are
immutable and hashable. (activemq-persistence K8, K29, K30)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, NamedTuple

__all__ = [
    "BOOL",
    "BYTES",
    "INT32",
    "INT64",
    "STRING",
    "STRUCTURE",
    "DestinationType",
    "FieldKind",
    "KahaCommand",
    "KahaDestination",
    "KahaField",
    "KahaLocalTransactionId",
    "KahaLocation",
    "KahaStructure",
    "KahaTransactionInfo",
    "KahaXATransactionId",
]


class FieldKind(IntEnum):
    """The encoding of a field's value."""

    INT32 = 1
    INT64 = 2
    BOOL = 3
    STRING = 4
    BYTES = 5
    STRUCTURE = 6


INT32: Final = FieldKind.INT32
INT64: Final = FieldKind.INT64
BOOL: Final = FieldKind.BOOL
STRING: Final = FieldKind.STRING
BYTES: Final = FieldKind.BYTES
STRUCTURE: Final = FieldKind.STRUCTURE


class KahaStructure:
    """Base of everything with fields."""

    __slots__ = ()
    FIELDS: ClassVar[tuple[KahaField, ...]] = ()


class KahaCommand(KahaStructure):
    """Base of the commands, each the contents of one record; `CODE` is its first byte."""

    __slots__ = ()
    CODE: ClassVar[int] = -1


class KahaField(NamedTuple):
    """A field: attribute name, number in the file, kind, whether required, structure class."""

    name: str
    number: int
    kind: FieldKind
    required: bool = False
    structure: type[KahaStructure] | None = None


class DestinationType(IntEnum):
    """The types of destinations, with KahaDestination's numbers."""

    QUEUE = 0
    TOPIC = 1
    TEMP_QUEUE = 2
    TEMP_TOPIC = 3


@dataclass(frozen=True, slots=True)
class KahaDestination(KahaStructure):
    """A destination. `type` is the number of a DestinationType, not checked."""

    FIELDS: ClassVar[tuple[KahaField, ...]] = (
        KahaField("type", 1, INT32, True),
        KahaField("name", 2, STRING, True),
    )
    type: int
    name: str

    @property
    def key(self) -> str:
        """Its key in ActiveMQ's index: `<type>:<name>`. (activemq-persistence K10)"""
        return f"{int(self.type)}:{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class KahaLocation(KahaStructure):
    """The location of a record, as a field of another one."""

    FIELDS: ClassVar[tuple[KahaField, ...]] = (
        KahaField("log_id", 1, INT32, True),
        KahaField("offset", 2, INT32, True),
    )
    log_id: int
    offset: int


@dataclass(frozen=True, slots=True)
class KahaLocalTransactionId(KahaStructure):
    """A local transaction. Both fields have number 1; only their wire types differ.

    (activemq-persistence K29)
    """

    FIELDS: ClassVar[tuple[KahaField, ...]] = (
        KahaField("connection_id", 1, STRING, True),
        KahaField("transaction_id", 1, INT64, True),
    )
    connection_id: str
    transaction_id: int


@dataclass(frozen=True, slots=True)
class KahaXATransactionId(KahaStructure):
    """A branch of a distributed transaction."""

    FIELDS: ClassVar[tuple[KahaField, ...]] = (
        KahaField("format_id", 1, INT32, True),
        KahaField("branch_qualifier", 2, BYTES, True),
        KahaField("global_transaction_id", 3, BYTES, True),
    )
    format_id: int
    branch_qualifier: bytes
    global_transaction_id: bytes


@dataclass(frozen=True, slots=True)
class KahaTransactionInfo(KahaStructure):
    """The transaction that a record belongs to: a local or an XA one."""

    FIELDS: ClassVar[tuple[KahaField, ...]] = (
        KahaField("local_transaction_id", 1, STRUCTURE, False, KahaLocalTransactionId),
        KahaField("xa_transaction_id", 2, STRUCTURE, False, KahaXATransactionId),
        KahaField("previous_entry", 3, STRUCTURE, False, KahaLocation),
    )
    local_transaction_id: KahaLocalTransactionId | None = None
    xa_transaction_id: KahaXATransactionId | None = None
    previous_entry: KahaLocation | None = None
