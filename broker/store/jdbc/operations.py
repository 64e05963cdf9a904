"""What is done to the database, as plain data: no statement, no connection.

A `Unit` is done wholly or not at all; units are done in the order they came. Most work is
adding, removing and acknowledging: the other operations are rare. Fields of operations are
numbers, texts, bytes, None and each other, so a journal can keep them.
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
class AddMessage:
    """A message is there. `subscribers`: so many subscriptions get it, where it is a topic's."""

    container: str
    id: int
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
class RemoveMessage:
    """A queue's message is gone."""

    container: str
    id: int
    size: int


@dataclass(slots=True, eq=False)
class AcknowledgeMessage:
    """A durable subscription is done with a message."""

    container: str
    client_id: str
    subscription_name: str
    id: int
    priority: int
    size: int
    prioritized: bool

    @property
    def key(self) -> SubscriberKey:
        return SubscriberKey(self.container, self.client_id, self.subscription_name)


@dataclass(slots=True, eq=False)
class UpdateMessage:
    """A message has another form now."""

    container: str
    id: int
    expiration: int
    frame: bytes = field(repr=False)


@dataclass(slots=True, eq=False)
class RemoveTopicMessage:
    """A topic's message is gone for all its subscriptions."""

    container: str
    id: int
    size: int
    prioritized: bool


@dataclass(slots=True, eq=False)
class RemoveAll:
    """All messages up to `up_to` are gone."""

    container: str
    up_to: int


@dataclass(slots=True, eq=False)
class AddContainer:
    """A destination has a store, so it is known after a restart. `base`: its IDs are behind."""

    container: str
    base: int
    epoch: int


@dataclass(slots=True, eq=False)
class RemoveContainer:
    """A destination is gone with all it had."""

    container: str


@dataclass(slots=True, eq=False)
class AddSubscription:
    """A durable subscription begins: behind `start`; `retroactive`: what is there counts."""

    container: str
    client_id: str
    subscription_name: str
    destination: str
    selector: str | None
    no_local: bool
    start: int
    retroactive: bool
    prioritized: bool

    @property
    def key(self) -> SubscriberKey:
        return SubscriberKey(self.container, self.client_id, self.subscription_name)


@dataclass(slots=True, eq=False)
class RemoveSubscription:
    """A durable subscription ends, and with it what only it had still to get."""

    container: str
    client_id: str
    subscription_name: str
    prioritized: bool

    @property
    def key(self) -> SubscriberKey:
        return SubscriberKey(self.container, self.client_id, self.subscription_name)


@dataclass(slots=True, eq=False)
class SetPrioritized:
    """A topic heeds priorities from now on, or no longer: its ACKS rows change."""

    container: str
    prioritized: bool


@dataclass(slots=True, eq=False)
class PrepareAdd:
    """A message that is there once its transaction is committed; its id changes then. (J8)"""

    message: AddMessage
    xid: str


@dataclass(slots=True, eq=False)
class PrepareRemove:
    """A message is hidden until its transaction ends."""

    container: str
    id: int
    xid: str


@dataclass(slots=True, eq=False)
class PrepareAcknowledgement:
    """A message is hidden from a subscription until its transaction ends."""

    acknowledgement: AcknowledgeMessage
    xid: str


@dataclass(slots=True, eq=False)
class CommitAdd:
    """The message prepared as `prepared_id` is there, as `message.id`; its frame is empty."""

    prepared_id: int
    message: AddMessage


@dataclass(slots=True, eq=False)
class CommitAcknowledgement:
    """A prepared acknowledgement counts now."""

    acknowledgement: AcknowledgeMessage


@dataclass(slots=True, eq=False)
class RollbackAdd:
    """A prepared message never was."""

    id: int


@dataclass(slots=True, eq=False)
class RollbackRemove:
    """A prepared removal never was."""

    container: str
    id: int


@dataclass(slots=True, eq=False)
class RollbackAcknowledgement:
    """A prepared acknowledgement never was."""

    acknowledgement: AcknowledgeMessage

    @property
    def container(self) -> str:
        return self.acknowledgement.container


@dataclass(slots=True, eq=False)
class CleanUp:
    """A topic's rows that all subscriptions are past are deleted, `limit` at most. (J5)"""

    container: str
    prioritized: bool
    limit: int


@dataclass(slots=True, eq=False)
class TrimDuplicates:
    """A queue's duplicate ids up to `up_to` are outside of its window."""

    container: str
    up_to: int


@dataclass(slots=True, eq=False)
class TrimProducers:
    """Only the `keep` producers used last are remembered."""

    keep: int


@dataclass(slots=True, eq=False)
class NoteMessage:
    """A message came and went before the database heard of it; its numbers stay used."""

    container: str
    id: int
    producer: str
    sequence: int
    broker_sequence: int
    duplicate_id: str | None
    freed: int | None
    """Its size, where a topic's last subscription acknowledged it."""


@dataclass(slots=True, eq=False)
class JournalMark:
    """The journal is done with up to this place."""

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
"""These need not be done after a crash: others like them follow."""
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
"""After these the tables say what nobody else knows."""


@dataclass(slots=True)
class Outcome:
    """What only the database could tell, for the stores' counts."""

    freed: list[tuple[str, int]] = field(default_factory=list)
    """(container, size) of each message that its last subscription acknowledged."""
    not_removed: list[tuple[str, int, int]] = field(default_factory=list)
    """(container, how many, their size) messages were not there to be removed."""
    not_acknowledged: list[tuple[SubscriberKey, int]] = field(default_factory=list)
    """So many acknowledgements were of nothing that the subscription still had to get."""
    subscribed: list[tuple[SubscriberKey, int]] = field(default_factory=list)
    """So many messages were there already for a new subscription."""
    dropped: list[tuple[str, int]] = field(default_factory=list)
    """(container, how many) messages that only an ended subscription had still to get."""
    cleaned: list[tuple[str, int]] = field(default_factory=list)
    """(container, how many) rows the clean-up deleted."""


@dataclass(slots=True, eq=False)
class Unit:
    """Operations that are done together; `done(error)` is called on the loop afterwards."""

    operations: Sequence[Operation]
    done: Callable[[Exception | None], None]
    size: int = 0
    """Bytes that it keeps in memory."""
