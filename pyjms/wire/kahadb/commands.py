"""KahaDB's commands: what its journal's records say.

Plain data with the file's fields in snake_case; None means that an optional field is absent,
which is not the same bytes as a zero. Times and delays are milliseconds, as in the file. Bodies
are kept out of `repr`. (persistence K7, K8, K30)
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
    """A remark; ActiveMQ skips it. The only place where others may keep text. (K32)"""

    CODE: ClassVar[int] = 0
    FIELDS: ClassVar = (KahaField("message", 1, STRING, True),)
    message: str


@dataclass(slots=True)
class KahaAddMessageCommand(KahaCommand):
    """A destination has got a message: one loose OpenWire frame with its size.

    `priority` absent means 4. Priorities rule the order only with `priority_supported`.
    """

    CODE: ClassVar[int] = 1
    FIELDS: ClassVar = (
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
    """A queue's message is done, or with `subscription_key` a durable subscription's.

    `ack` is the MessageAck as a loose frame with its size; empty where there was none. (K31)
    """

    CODE: ClassVar[int] = 2
    FIELDS: ClassVar = (
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
    """An XA transaction is prepared."""

    CODE: ClassVar[int] = 3
    FIELDS: ClassVar = (_OWN_TRANSACTION,)
    transaction_info: KahaTransactionInfo


@dataclass(slots=True)
class KahaCommitCommand(KahaCommand):
    """A transaction's records count from here on."""

    CODE: ClassVar[int] = 4
    FIELDS: ClassVar = (_OWN_TRANSACTION,)
    transaction_info: KahaTransactionInfo


@dataclass(slots=True)
class KahaRollbackCommand(KahaCommand):
    """A transaction's records never counted."""

    CODE: ClassVar[int] = 5
    FIELDS: ClassVar = (_OWN_TRANSACTION,)
    transaction_info: KahaTransactionInfo


@dataclass(slots=True)
class KahaRemoveDestinationCommand(KahaCommand):
    """A destination is gone with all that was in it."""

    CODE: ClassVar[int] = 6
    FIELDS: ClassVar = (_DESTINATION,)
    destination: KahaDestination


@dataclass(slots=True)
class KahaSubscriptionCommand(KahaCommand):
    """A durable subscription begins, or ends where `subscription_info` is absent.

    The info is a SubscriptionInfo as a loose frame with its size.
    """

    CODE: ClassVar[int] = 7
    FIELDS: ClassVar = (
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
    """Producers' last numbers, Java-serialised: kept, never read. (K28)"""

    CODE: ClassVar[int] = 8
    FIELDS: ClassVar = (KahaField("audit", 1, BYTES, True),)
    audit: bytes = field(repr=False)


@dataclass(slots=True)
class KahaAckMessageFileMapCommand(KahaCommand):
    """Which segments' acknowledgements refer to which, Java-serialised: kept, never read. (K28)"""

    CODE: ClassVar[int] = 9
    FIELDS: ClassVar = (KahaField("ack_message_file_map", 1, BYTES, True),)
    ack_message_file_map: bytes = field(repr=False)


@dataclass(slots=True)
class KahaUpdateMessageCommand(KahaCommand):
    """A message that a destination has is now this one."""

    CODE: ClassVar[int] = 10
    FIELDS: ClassVar = (KahaField("message", 1, STRUCTURE, True, KahaAddMessageCommand),)
    message: KahaAddMessageCommand


@dataclass(slots=True)
class KahaAddScheduledJobCommand(KahaCommand):
    """A scheduler has got a job; `payload` is the message as a loose frame with its size."""

    CODE: ClassVar[int] = 11
    FIELDS: ClassVar = (
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
    """A job fired and has a next time."""

    CODE: ClassVar[int] = 12
    FIELDS: ClassVar = (
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
    """A job is done."""

    CODE: ClassVar[int] = 13
    FIELDS: ClassVar = (_SCHEDULER, _JOB_ID, KahaField("next_execution_time", 3, INT64, True))
    scheduler: str
    job_id: str
    next_execution_time: int


@dataclass(slots=True)
class KahaRemoveScheduledJobsCommand(KahaCommand):
    """The jobs that would fire from `start_time` to `end_time` are gone."""

    CODE: ClassVar[int] = 14
    FIELDS: ClassVar = (
        _SCHEDULER,
        KahaField("start_time", 2, INT64, True),
        KahaField("end_time", 3, INT64, True),
    )
    scheduler: str
    start_time: int
    end_time: int


@dataclass(slots=True)
class KahaDestroySchedulerCommand(KahaCommand):
    """A scheduler is gone with its jobs."""

    CODE: ClassVar[int] = 15
    FIELDS: ClassVar = (_SCHEDULER,)
    scheduler: str


@dataclass(slots=True)
class KahaRewrittenDataFileCommand(KahaCommand):
    """What follows was segment `source_data_file_id`'s: its acknowledgements, compacted. (K18)"""

    CODE: ClassVar[int] = 16
    FIELDS: ClassVar = (
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
