"""Operations on the database as plain data, without statements or connections.

A `Unit` is executed completely or not at all; units are executed in the order of submission. Most
operations add, remove and acknowledge messages; the others are rare. Their fields are numbers,
strings, bytes, None and other operations, so a journal can store them (its format depends on the
order of the fields, see `journaled.codec`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = [
    "PASSING",
    "UNSETTLING",
    "AcknowledgeMessage",
    "AddContainer",
    "AddMessage",
    "AddSubscription",
    "CleanUp",
    "CommitAcknowledgement",
    "CommitAdd",
    "JournalMark",
    "NoteMessage",
    "Operation",
    "Outcome",
    "PrepareAcknowledgement",
    "PrepareAdd",
    "PrepareRemove",
    "RemoveAll",
    "RemoveContainer",
    "RemoveMessage",
    "RemoveSubscription",
    "RemoveTopicMessage",
    "RollbackAcknowledgement",
    "RollbackAdd",
    "RollbackRemove",
    "SetPrioritized",
    "SubscriberKey",
    "TrimDuplicates",
    "TrimProducers",
    "Unit",
    "UpdateMessage",
]


class SubscriberKey(NamedTuple):
    """A durable subscription of one topic."""

    container: str
    client_id: str
    subscription_name: str


@dataclass(slots=True, eq=False)
class _MessageOperation:
    container: str
    id: int


@dataclass(slots=True, eq=False)
class _SubscriptionOperation:
    container: str
    client_id: str
    subscription_name: str

    @property
    def key(self) -> SubscriberKey:
        return SubscriberKey(self.container, self.client_id, self.subscription_name)


@dataclass(slots=True, eq=False)
class AddMessage(_MessageOperation):
    """Add a message; `subscribers`: the number of subscriptions that get it, on a topic."""

    producer: str
    sequence: int
    expiration: int
    priority: int
    size: int
    broker_sequence: int
    subscribers: int
    duplicate_id: str | None
    frame: bytes = field(repr=False)


@dataclass(slots=True, eq=False)
class RemoveMessage(_MessageOperation):
    """Remove a message of a queue."""

    size: int


@dataclass(slots=True, eq=False)
class AcknowledgeMessage(_SubscriptionOperation):
    """Acknowledge a message for a durable subscription."""

    id: int
    priority: int
    size: int
    prioritized: bool


@dataclass(slots=True, eq=False)
class UpdateMessage(_MessageOperation):
    """Replace a message."""

    expiration: int
    frame: bytes = field(repr=False)


@dataclass(slots=True, eq=False)
class RemoveTopicMessage(_MessageOperation):
    """Remove a message of a topic, for all its subscriptions."""

    size: int
    prioritized: bool


@dataclass(slots=True, eq=False)
class RemoveAll:
    """Remove all messages up to the ID `up_to`."""

    container: str
    up_to: int


@dataclass(slots=True, eq=False)
class AddContainer:
    """Add a destination, to be known after a restart; its IDs are greater than `base`."""

    container: str
    base: int
    epoch: int


@dataclass(slots=True, eq=False)
class RemoveContainer:
    """Remove a destination with everything in it."""

    container: str


@dataclass(slots=True, eq=False)
class AddSubscription(_SubscriptionOperation):
    """Add a durable subscription, which gets the messages after `start`.

    With `retroactive`, `start` precedes all messages, so it also gets those already stored.
    """

    destination: str
    selector: str | None
    no_local: bool
    start: int
    retroactive: bool
    prioritized: bool


@dataclass(slots=True, eq=False)
class RemoveSubscription(_SubscriptionOperation):
    """Remove a durable subscription, and the messages that only it had not acknowledged."""

    prioritized: bool


@dataclass(slots=True, eq=False)
class SetPrioritized:
    """Switch ordering by priority on or off for a topic, converting its ACKS rows."""

    container: str
    prioritized: bool


@dataclass(slots=True, eq=False)
class PrepareAdd:
    """Store a message of a prepared transaction, which gets another ID at the commit.

    (activemq-persistence J8)
    """

    message: AddMessage
    xid: str


@dataclass(slots=True, eq=False)
class PrepareRemove(_MessageOperation):
    """Hide a message until its transaction ends."""

    xid: str


@dataclass(slots=True, eq=False)
class PrepareAcknowledgement:
    """Hide a message from a subscription until its transaction ends."""

    acknowledgement: AcknowledgeMessage
    xid: str


@dataclass(slots=True, eq=False)
class CommitAdd:
    """Commit the message prepared as `prepared_id`, as `message.id`; `message.frame` is empty."""

    prepared_id: int
    message: AddMessage


@dataclass(slots=True, eq=False)
class CommitAcknowledgement:
    """Commit a prepared acknowledgement."""

    acknowledgement: AcknowledgeMessage


@dataclass(slots=True, eq=False)
class RollbackAdd:
    """Roll back a prepared message."""

    id: int


@dataclass(slots=True, eq=False)
class RollbackRemove(_MessageOperation):
    """Roll back a prepared removal."""


@dataclass(slots=True, eq=False)
class RollbackAcknowledgement:
    """Roll back a prepared acknowledgement."""

    acknowledgement: AcknowledgeMessage

    @property
    def container(self) -> str:
        return self.acknowledgement.container


@dataclass(slots=True, eq=False)
class CleanUp:
    """Delete at most `limit` rows of a topic that all subscriptions have acknowledged.

    (activemq-persistence J5)
    """

    container: str
    prioritized: bool
    limit: int


@dataclass(slots=True, eq=False)
class TrimDuplicates:
    """Delete the duplicate ids of a queue up to the ID `up_to`."""

    container: str
    up_to: int


@dataclass(slots=True, eq=False)
class TrimProducers:
    """Delete all but the `keep` most recently used producers."""

    keep: int


@dataclass(slots=True, eq=False)
class NoteMessage(_MessageOperation):
    """Record the sequence numbers of a message that was added and removed before it was written."""

    producer: str
    sequence: int
    broker_sequence: int
    duplicate_id: str | None
    freed: int | None
    """Its size, if a topic's last subscription has acknowledged it; else None."""


@dataclass(slots=True, eq=False)
class JournalMark:
    """Record that the units up to this location of the journal are in the database."""

    place: int


Operation = (
    AddMessage
    | RemoveMessage
    | AcknowledgeMessage
    | UpdateMessage
    | RemoveTopicMessage
    | RemoveAll
    | AddContainer
    | RemoveContainer
    | AddSubscription
    | RemoveSubscription
    | SetPrioritized
    | PrepareAdd
    | PrepareRemove
    | PrepareAcknowledgement
    | CommitAdd
    | CommitAcknowledgement
    | RollbackAdd
    | RollbackRemove
    | RollbackAcknowledgement
    | CleanUp
    | TrimDuplicates
    | TrimProducers
    | NoteMessage
    | JournalMark
)


PASSING = (CleanUp, TrimDuplicates, TrimProducers)
"""Operations that need not survive a crash, because they are repeated later."""
UNSETTLING = (
    RemoveTopicMessage,
    RemoveAll,
    RemoveContainer,
    AddSubscription,
    RemoveSubscription,
    SetPrioritized,
    RollbackRemove,
    RollbackAcknowledgement,
)
"""Operations whose effect is only known from the tables: readers write out the queue first."""


@dataclass(slots=True)
class Outcome:
    """Results that only the database can determine, for the stores' counters."""

    freed: list[tuple[str, int]] = field(default_factory=list)
    """(container, size) of each message whose last subscription acknowledged it."""
    not_removed: list[tuple[str, int, int]] = field(default_factory=list)
    """(container, number, size) of messages that did not exist when they were removed."""
    not_acknowledged: list[tuple[SubscriberKey, int]] = field(default_factory=list)
    """The number of acknowledgements of messages that were not pending for the subscription."""
    subscribed: list[tuple[SubscriberKey, int]] = field(default_factory=list)
    """The number of stored messages that a new subscription gets."""
    dropped: list[tuple[str, int]] = field(default_factory=list)
    """(container, number) of messages that were pending only for a removed subscription."""
    cleaned: list[tuple[str, int]] = field(default_factory=list)
    """(container, number) of rows that the clean-up deleted."""


@dataclass(slots=True, eq=False)
class Unit:
    """Operations that are executed together; `done(error)` is called on the loop afterwards."""

    operations: Sequence[Operation]
    done: Callable[[Exception | None], None]
    size: int = 0
    """The memory that it occupies, in bytes."""
