"""The parts of KahaDB's commands: field layouts, destinations, locations, transactions.

The annotation of a field contains its number in the file and its encoding. All classes but the
commands are immutable and hashable. Here and in `commands` annotations are evaluated, since
`fields_of` reads them. (activemq-persistence K8, K29, K30)
"""

from dataclasses import MISSING, dataclass, fields
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Final, NamedTuple, cast, get_args

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
    "Number",
    "fields_of",
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
    """Base class of everything with fields; subclasses are dataclasses."""

    __slots__ = ()


class KahaCommand(KahaStructure):
    """Base class of the commands, each the contents of one record; `CODE` is its first byte."""

    __slots__ = ()
    CODE: ClassVar[int] = -1

    def __init_subclass__(cls, *, code: int | None = None) -> None:
        super().__init_subclass__()
        if code is not None:  # a dataclass with slots is created twice, first with the code
            cls.CODE = code


class Number(NamedTuple):
    """The metadata of a field's annotation: its number in the file, and its encoding."""

    number: int
    kind: FieldKind


class KahaField(NamedTuple):
    """A field: attribute name, number in the file, kind, whether required, structure class."""

    name: str
    number: int
    kind: FieldKind
    required: bool
    structure: type[KahaStructure] | None


def fields_of(structure: type[KahaStructure]) -> tuple[KahaField, ...]:
    """Return the fields of a class by number; those with a default are not required."""
    found = []
    for each in fields(cast("Any", structure)):
        held, mark = get_args(each.type)
        nested = next(iter(get_args(held)), held) if mark.kind is STRUCTURE else None
        required = each.default is MISSING
        found.append(KahaField(each.name, mark.number, mark.kind, required, nested))
    return tuple(sorted(found, key=lambda each: each.number))


class DestinationType(IntEnum):
    """The types of destinations, with KahaDestination's numbers."""

    QUEUE = 0
    TOPIC = 1
    TEMP_QUEUE = 2
    TEMP_TOPIC = 3


@dataclass(frozen=True, slots=True)
class KahaDestination(KahaStructure):
    """A destination. `type` is the number of a DestinationType, not checked."""

    type: Annotated[int, Number(1, INT32)]
    name: Annotated[str, Number(2, STRING)]

    @property
    def key(self) -> str:
        """Its key in ActiveMQ's index: `<type>:<name>`. (activemq-persistence K10)"""
        return f"{int(self.type)}:{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class KahaLocation(KahaStructure):
    """The location of a record, as a field of another one."""

    log_id: Annotated[int, Number(1, INT32)]
    offset: Annotated[int, Number(2, INT32)]


@dataclass(frozen=True, slots=True)
class KahaLocalTransactionId(KahaStructure):
    """A local transaction. Both fields have number 1; only their wire types differ.

    (activemq-persistence K29)
    """

    connection_id: Annotated[str, Number(1, STRING)]
    transaction_id: Annotated[int, Number(1, INT64)]


@dataclass(frozen=True, slots=True)
class KahaXATransactionId(KahaStructure):
    """A branch of a distributed transaction."""

    format_id: Annotated[int, Number(1, INT32)]
    branch_qualifier: Annotated[bytes, Number(2, BYTES)]
    global_transaction_id: Annotated[bytes, Number(3, BYTES)]


@dataclass(frozen=True, slots=True)
class KahaTransactionInfo(KahaStructure):
    """The transaction that a record belongs to: a local or an XA one."""

    local_transaction_id: Annotated[KahaLocalTransactionId | None, Number(1, STRUCTURE)] = None
    xa_transaction_id: Annotated[KahaXATransactionId | None, Number(2, STRUCTURE)] = None
    previous_entry: Annotated[KahaLocation | None, Number(3, STRUCTURE)] = None
