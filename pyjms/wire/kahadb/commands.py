"""KahaDB's commands, the contents of the journal's records.

They are plain data with the fields of the file format in snake_case. None means that an optional
field is absent, which has other bytes than a zero. Times and delays are milliseconds, as in the
file. Message bodies are left out of `repr`. (activemq-persistence K7, K8, K30)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from pyjms.wire.kahadb.structures import (
    BOOL,
    BYTES,
    INT32,
    INT64,
    STRING,
    STRUCTURE,
    KahaCommand,
    KahaDestination,
    KahaField,
    KahaTransactionInfo,
)

__all__ = [
    "COMMANDS",
    "KahaAckMessageFileMapCommand",
    "KahaAddMessageCommand",
    "KahaAddScheduledJobCommand",
    "KahaCommitCommand",
    "KahaDestroySchedulerCommand",
    "KahaPrepareCommand",
    "KahaProducerAuditCommand",
    "KahaRemoveDestinationCommand",
    "KahaRemoveMessageCommand",
    "KahaRemoveScheduledJobCommand",
    "KahaRemoveScheduledJobsCommand",
    "KahaRescheduleJobCommand",
    "KahaRewrittenDataFileCommand",
    "KahaRollbackCommand",
    "KahaSubscriptionCommand",
    "KahaTraceCommand",
    "KahaUpdateMessageCommand",
]

_TRANSACTION: Final = KahaField("transaction_info", 1, STRUCTURE, False, KahaTransactionInfo)
_OWN_TRANSACTION: Final = _TRANSACTION._replace(required=True)
_DESTINATION: Final = KahaField("destination", 1, STRUCTURE, True, KahaDestination)
_SECOND_DESTINATION: Final = _DESTINATION._replace(number=2)
_MESSAGE_ID: Final = KahaField("message_id", 3, STRING, True)
_SCHEDULER: Final = KahaField("scheduler", 1, STRING, True)
_JOB_ID: Final = KahaField("job_id", 2, STRING, True)


@dataclass(slots=True)
class KahaTraceCommand(KahaCommand):
    """A remark, which ActiveMQ skips: the only record where other brokers may keep text.

    (activemq-persistence K32)
    """

    CODE: ClassVar[int] = 0
    FIELDS: ClassVar[tuple[KahaField, ...]] = (KahaField("message", 1, STRING, True),)
    message: str


@dataclass(slots=True)
class KahaAddMessageCommand(KahaCommand):
    """Adds a message to a destination, as a loose OpenWire frame with its size.

    An absent `priority` means 4. Priorities determine the order only with `priority_supported`.
    """

    CODE: ClassVar[int] = 1
    FIELDS: ClassVar[tuple[KahaField, ...]] = (
        _TRANSACTION,
        _SECOND_DESTINATION,
        _MESSAGE_ID,
        KahaField("message", 4, BYTES, True),
        KahaField("priority", 5, INT32),
        KahaField("priority_supported", 6, BOOL),
    )
    destination: KahaDestination
    message_id: str
    message: bytes = field(repr=False)
    priority: int | None = 4
    priority_supported: bool | None = False
    transaction_info: KahaTransactionInfo | None = None


@dataclass(slots=True)
class KahaRemoveMessageCommand(KahaCommand):
    """Removes a message from a queue or, with `subscription_key`, acknowledges it on a topic.

    `ack` is the MessageAck as a loose frame with its size; empty if there was none.
    (activemq-persistence K31)
    """

    CODE: ClassVar[int] = 2
    FIELDS: ClassVar[tuple[KahaField, ...]] = (
        _TRANSACTION,
        _SECOND_DESTINATION,
        _MESSAGE_ID,
        KahaField("ack", 4, BYTES),
        KahaField("subscription_key", 5, STRING),
    )
    destination: KahaDestination
    message_id: str
    ack: bytes | None = field(default=None, repr=False)
    subscription_key: str | None = None
    transaction_info: KahaTransactionInfo | None = None


@dataclass(slots=True)
class KahaPrepareCommand(KahaCommand):
    """Prepares an XA transaction."""

    CODE: ClassVar[int] = 3
    FIELDS: ClassVar[tuple[KahaField, ...]] = (_OWN_TRANSACTION,)
    transaction_info: KahaTransactionInfo


@dataclass(slots=True)
class KahaCommitCommand(KahaCommand):
    """Commits a transaction: its records take effect here."""

    CODE: ClassVar[int] = 4
    FIELDS: ClassVar[tuple[KahaField, ...]] = (_OWN_TRANSACTION,)
    transaction_info: KahaTransactionInfo


@dataclass(slots=True)
class KahaRollbackCommand(KahaCommand):
    """Rolls a transaction back: its records have no effect."""

    CODE: ClassVar[int] = 5
    FIELDS: ClassVar[tuple[KahaField, ...]] = (_OWN_TRANSACTION,)
    transaction_info: KahaTransactionInfo


@dataclass(slots=True)
class KahaRemoveDestinationCommand(KahaCommand):
    """Removes a destination with all its messages."""

    CODE: ClassVar[int] = 6
    FIELDS: ClassVar[tuple[KahaField, ...]] = (_DESTINATION,)
    destination: KahaDestination


@dataclass(slots=True)
class KahaSubscriptionCommand(KahaCommand):
    """Adds a durable subscription, or removes it if `subscription_info` is absent.

    The info is a SubscriptionInfo as a loose frame with its size.
    """

    CODE: ClassVar[int] = 7
    FIELDS: ClassVar[tuple[KahaField, ...]] = (
        _DESTINATION,
        KahaField("subscription_key", 2, STRING, True),
        KahaField("retroactive", 3, BOOL),
        KahaField("subscription_info", 4, BYTES),
    )
    destination: KahaDestination
    subscription_key: str
    retroactive: bool | None = None
    subscription_info: bytes | None = field(default=None, repr=False)


@dataclass(slots=True)
class KahaProducerAuditCommand(KahaCommand):
    """The last sequence number of each producer, Java-serialised: kept, never read.

    (activemq-persistence K28)
    """

    CODE: ClassVar[int] = 8
    FIELDS: ClassVar[tuple[KahaField, ...]] = (KahaField("audit", 1, BYTES, True),)
    audit: bytes = field(repr=False)


@dataclass(slots=True)
class KahaAckMessageFileMapCommand(KahaCommand):
    """The segments that each segment's acks refer to, Java-serialised: kept, never read.

    (activemq-persistence K28)
    """

    CODE: ClassVar[int] = 9
    FIELDS: ClassVar[tuple[KahaField, ...]] = (KahaField("ack_message_file_map", 1, BYTES, True),)
    ack_message_file_map: bytes = field(repr=False)


@dataclass(slots=True)
class KahaUpdateMessageCommand(KahaCommand):
    """Replaces a message of a destination."""

    CODE: ClassVar[int] = 10
    FIELDS: ClassVar[tuple[KahaField, ...]] = (
        KahaField("message", 1, STRUCTURE, True, KahaAddMessageCommand),
    )
    message: KahaAddMessageCommand


@dataclass(slots=True)
class KahaAddScheduledJobCommand(KahaCommand):
    """Adds a job to a scheduler; `payload` is the message as a loose frame with its size."""

    CODE: ClassVar[int] = 11
    FIELDS: ClassVar[tuple[KahaField, ...]] = (
        _SCHEDULER,
        _JOB_ID,
        KahaField("start_time", 3, INT64, True),
        KahaField("cron_entry", 4, STRING, True),
        KahaField("delay", 5, INT64, True),
        KahaField("period", 6, INT64, True),
        KahaField("repeat", 7, INT32, True),
        KahaField("payload", 8, BYTES, True),
        KahaField("next_execution_time", 9, INT64, True),
    )
    scheduler: str
    job_id: str
    start_time: int
    cron_entry: str
    delay: int
    period: int
    repeat: int
    payload: bytes = field(repr=False)
    next_execution_time: int


@dataclass(slots=True)
class KahaRescheduleJobCommand(KahaCommand):
    """Records that a job was sent, and when it is due next."""

    CODE: ClassVar[int] = 12
    FIELDS: ClassVar[tuple[KahaField, ...]] = (
        _SCHEDULER,
        _JOB_ID,
        KahaField("execution_time", 3, INT64, True),
        KahaField("next_execution_time", 4, INT64, True),
        KahaField("rescheduled_count", 5, INT32, True),
    )
    scheduler: str
    job_id: str
    execution_time: int
    next_execution_time: int
    rescheduled_count: int


@dataclass(slots=True)
class KahaRemoveScheduledJobCommand(KahaCommand):
    """Removes a job."""

    CODE: ClassVar[int] = 13
    FIELDS: ClassVar[tuple[KahaField, ...]] = (
        _SCHEDULER,
        _JOB_ID,
        KahaField("next_execution_time", 3, INT64, True),
    )
    scheduler: str
    job_id: str
    next_execution_time: int


@dataclass(slots=True)
class KahaRemoveScheduledJobsCommand(KahaCommand):
    """Removes the jobs due from `start_time` to `end_time`, both included."""

    CODE: ClassVar[int] = 14
    FIELDS: ClassVar[tuple[KahaField, ...]] = (
        _SCHEDULER,
        KahaField("start_time", 2, INT64, True),
        KahaField("end_time", 3, INT64, True),
    )
    scheduler: str
    start_time: int
    end_time: int


@dataclass(slots=True)
class KahaDestroySchedulerCommand(KahaCommand):
    """Removes a scheduler with its jobs."""

    CODE: ClassVar[int] = 15
    FIELDS: ClassVar[tuple[KahaField, ...]] = (_SCHEDULER,)
    scheduler: str


@dataclass(slots=True)
class KahaRewrittenDataFileCommand(KahaCommand):
    """Precedes the acks that ack compaction moved from segment `source_data_file_id`.

    (activemq-persistence K18)
    """

    CODE: ClassVar[int] = 16
    FIELDS: ClassVar[tuple[KahaField, ...]] = (
        KahaField("source_data_file_id", 1, INT32, True),
        KahaField("rewrite_type", 2, INT32),
        KahaField("skip_if_source_exists", 3, BOOL),
    )
    source_data_file_id: int
    rewrite_type: int | None = None
    skip_if_source_exists: bool | None = None


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
