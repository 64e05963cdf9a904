"""KahaDB's commands, the contents of the journal's records, and their parts.

They are plain data with the fields of the file format in snake_case. None means that an optional
field is absent, which is encoded differently from zero. Times and delays are milliseconds, as in
the file. `repr` omits message bodies. All classes but the commands are immutable and hashable.

The annotation of a field contains its number in the file and its encoding. Annotations are
evaluated here, since `fields_of` reads them. (activemq-persistence K7, K8, K29, K30)
"""

from dataclasses import MISSING, dataclass, field, fields
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Final, NamedTuple, cast, get_args


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
        """Its key in ActiveMQ's index: `<type>:<name>`."""
        return f"{int(self.type)}:{self.name}"


@dataclass(frozen=True, slots=True, order=True)
class KahaLocation(KahaStructure):
    """The location of a record, as a field of another one."""

    log_id: Annotated[int, Number(1, INT32)]
    offset: Annotated[int, Number(2, INT32)]


@dataclass(frozen=True, slots=True)
class KahaLocalTransactionId(KahaStructure):
    """A local transaction. Both fields have number 1; only their wire types differ."""

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


_Transaction = Annotated[KahaTransactionInfo | None, Number(1, STRUCTURE)]
_OwnTransaction = Annotated[KahaTransactionInfo, Number(1, STRUCTURE)]
_Destination = Annotated[KahaDestination, Number(1, STRUCTURE)]
_SecondDestination = Annotated[KahaDestination, Number(2, STRUCTURE)]
_MessageId = Annotated[str, Number(3, STRING)]
_Scheduler = Annotated[str, Number(1, STRING)]
_JobId = Annotated[str, Number(2, STRING)]


@dataclass(slots=True)
class KahaTraceCommand(KahaCommand, code=0):
    """A remark, which ActiveMQ skips: the only record where other brokers may keep text."""

    message: Annotated[str, Number(1, STRING)]


@dataclass(slots=True)
class KahaAddMessageCommand(KahaCommand, code=1):
    """Adds a message to a destination, as a loose OpenWire frame with its size.

    An absent `priority` means 4. Priorities determine the order only with `priority_supported`.
    """

    destination: _SecondDestination
    message_id: _MessageId
    message: Annotated[bytes, Number(4, BYTES)] = field(repr=False)
    priority: Annotated[int | None, Number(5, INT32)] = 4
    priority_supported: Annotated[bool | None, Number(6, BOOL)] = False
    transaction_info: _Transaction = None


@dataclass(slots=True)
class KahaRemoveMessageCommand(KahaCommand, code=2):
    """Removes a message from a queue or, with `subscription_key`, acknowledges it on a topic.

    `ack` is the MessageAck as a loose frame with its size; empty if there was none.
    """

    destination: _SecondDestination
    message_id: _MessageId
    ack: Annotated[bytes | None, Number(4, BYTES)] = field(default=None, repr=False)
    subscription_key: Annotated[str | None, Number(5, STRING)] = None
    transaction_info: _Transaction = None


@dataclass(slots=True)
class _OfTransaction(KahaCommand):
    transaction_info: _OwnTransaction


class KahaPrepareCommand(_OfTransaction, code=3):
    """Prepares an XA transaction."""

    __slots__ = ()


class KahaCommitCommand(_OfTransaction, code=4):
    """Commits a transaction: its records take effect here."""

    __slots__ = ()


class KahaRollbackCommand(_OfTransaction, code=5):
    """Rolls a transaction back: its records have no effect."""

    __slots__ = ()


@dataclass(slots=True)
class KahaRemoveDestinationCommand(KahaCommand, code=6):
    """Removes a destination with all its messages."""

    destination: _Destination


@dataclass(slots=True)
class KahaSubscriptionCommand(KahaCommand, code=7):
    """Adds a durable subscription, or removes it if `subscription_info` is absent.

    The info is a SubscriptionInfo as a loose frame with its size.
    """

    destination: _Destination
    subscription_key: Annotated[str, Number(2, STRING)]
    retroactive: Annotated[bool | None, Number(3, BOOL)] = None
    subscription_info: Annotated[bytes | None, Number(4, BYTES)] = field(default=None, repr=False)


@dataclass(slots=True)
class KahaProducerAuditCommand(KahaCommand, code=8):
    """The last sequence number of each producer, Java-serialised: kept, never read."""

    audit: Annotated[bytes, Number(1, BYTES)] = field(repr=False)


@dataclass(slots=True)
class KahaAckMessageFileMapCommand(KahaCommand, code=9):
    """The segments that each segment's acks refer to, Java-serialised: kept, never read."""

    ack_message_file_map: Annotated[bytes, Number(1, BYTES)] = field(repr=False)


@dataclass(slots=True)
class KahaUpdateMessageCommand(KahaCommand, code=10):
    """Replaces a message of a destination."""

    message: Annotated[KahaAddMessageCommand, Number(1, STRUCTURE)]


@dataclass(slots=True)
class _OfScheduler(KahaCommand):
    scheduler: _Scheduler


@dataclass(slots=True)
class _OfJob(_OfScheduler):
    job_id: _JobId


@dataclass(slots=True)
class KahaAddScheduledJobCommand(_OfJob, code=11):
    """Adds a job to a scheduler; `payload` is the message as a loose frame with its size."""

    start_time: Annotated[int, Number(3, INT64)]
    cron_entry: Annotated[str, Number(4, STRING)]
    delay: Annotated[int, Number(5, INT64)]
    period: Annotated[int, Number(6, INT64)]
    repeat: Annotated[int, Number(7, INT32)]
    payload: Annotated[bytes, Number(8, BYTES)] = field(repr=False)
    next_execution_time: Annotated[int, Number(9, INT64)]


@dataclass(slots=True)
class KahaRescheduleJobCommand(_OfJob, code=12):
    """Records that a job was sent, and when it is due next."""

    execution_time: Annotated[int, Number(3, INT64)]
    next_execution_time: Annotated[int, Number(4, INT64)]
    rescheduled_count: Annotated[int, Number(5, INT32)]


@dataclass(slots=True)
class KahaRemoveScheduledJobCommand(_OfJob, code=13):
    """Removes a job."""

    next_execution_time: Annotated[int, Number(3, INT64)]


@dataclass(slots=True)
class KahaRemoveScheduledJobsCommand(_OfScheduler, code=14):
    """Removes the jobs due from `start_time` to `end_time`, both included."""

    start_time: Annotated[int, Number(2, INT64)]
    end_time: Annotated[int, Number(3, INT64)]


@dataclass(slots=True)
class KahaDestroySchedulerCommand(_OfScheduler, code=15):
    """Removes a scheduler with its jobs."""


@dataclass(slots=True)
class KahaRewrittenDataFileCommand(KahaCommand, code=16):
    """Precedes the acks that ack compaction moved from segment `source_data_file_id`."""

    source_data_file_id: Annotated[int, Number(1, INT32)]
    rewrite_type: Annotated[int | None, Number(2, INT32)] = None
    skip_if_source_exists: Annotated[bool | None, Number(3, BOOL)] = None


COMMANDS: Final[dict[int, type[KahaCommand]]] = {
    command.CODE: command
    for command in (
        *(KahaTraceCommand, KahaAddMessageCommand, KahaRemoveMessageCommand, KahaPrepareCommand),
        *(KahaCommitCommand, KahaRollbackCommand, KahaRemoveDestinationCommand),
        *(KahaSubscriptionCommand, KahaProducerAuditCommand, KahaAckMessageFileMapCommand),
        *(KahaUpdateMessageCommand, KahaAddScheduledJobCommand, KahaRescheduleJobCommand),
        *(KahaRemoveScheduledJobCommand, KahaRemoveScheduledJobsCommand),
        *(KahaDestroySchedulerCommand, KahaRewrittenDataFileCommand),
    )
}
