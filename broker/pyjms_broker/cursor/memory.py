"""The interface of a cursor, which has a destination's pending messages, and the lists in memory.

All operations of the lists are O(1) except `requeue`, which scans the messages returned earlier.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

from pyjms.runtime.logging import get_logger

if TYPE_CHECKING:
    from pyjms.runtime.event_loop import BackgroundTask
    from pyjms_broker.api.message import MessageReference

logger = get_logger(__name__)

_LEVELS: Final = 10
_sequence_id = attrgetter("broker_sequence_id")


NOTHING: Final[OrderedDict[MessageReference, None]] = OrderedDict()
"""What lists have that never had a message, as most lists of a queue. Nothing is added to it."""


class FifoPendingList:
    """Messages in order of arrival. Source: ActiveMQ OrderedPendingList."""

    __slots__ = ("_references",)

    def __init__(self) -> None:
        self._references = NOTHING

    @property
    def must_read(self) -> bool:
        return False

    def __len__(self) -> int:
        return len(self._references)

    def __iter__(self) -> Iterator[MessageReference]:
        return iter(self._references)

    def __contains__(self, reference: object) -> bool:
        return reference in self._references

    def append(self, reference: MessageReference) -> None:
        if self._references is NOTHING:
            self._references = OrderedDict()
        self._references[reference] = None

    def append_front(self, reference: MessageReference) -> None:
        if self._references is NOTHING:
            self._references = OrderedDict()
        self._references[reference] = None
        self._references.move_to_end(reference, last=False)

    def requeue(self, references: list[MessageReference]) -> None:
        front = sorted(references, key=_sequence_id)
        if not front:
            return
        last = front[-1].broker_sequence_id
        for waiting in self._references:
            if waiting.broker_sequence_id > last:
                break
            front.append(waiting)
        if len(front) > len(references):
            front.sort(key=_sequence_id)
        for reference in reversed(front):
            self.append_front(reference)

    def pop(self) -> MessageReference:
        return self._references.popitem(last=False)[0]

    def first(self) -> MessageReference | None:
        """Return the message that `pop` would return; None if there is none."""
        return next(iter(self._references), None)

    def remove(self, reference: MessageReference) -> bool:
        if reference not in self._references:
            return False
        del self._references[reference]
        return True

    def clear(self) -> None:
        self._references.clear()


class PrioritizedPendingList:
    """Messages by priority, 9 first, in order of arrival within a priority (activemq-broker Q19).

    Source: ActiveMQ PrioritizedPendingList.
    """

    __slots__ = ("_levels", "_size")

    def __init__(self) -> None:
        self._levels = tuple(FifoPendingList() for _ in range(_LEVELS))
        self._size = 0

    @property
    def must_read(self) -> bool:
        return False

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[MessageReference]:
        for level in reversed(self._levels):
            yield from level

    def __contains__(self, reference: object) -> bool:
        return any(reference in level for level in self._levels)

    def _level(self, reference: MessageReference) -> FifoPendingList:
        return self._levels[min(max(reference.priority, 0), _LEVELS - 1)]

    def append(self, reference: MessageReference) -> None:
        self._level(reference).append(reference)
        self._size += 1

    def append_front(self, reference: MessageReference) -> None:
        self._level(reference).append_front(reference)
        self._size += 1

    def requeue(self, references: list[MessageReference]) -> None:
        for level in self._levels:
            level.requeue([r for r in references if self._level(r) is level])
        self._size += len(references)

    def pop(self) -> MessageReference:
        for level in reversed(self._levels):
            if level:
                self._size -= 1
                return level.pop()
        raise KeyError("no message is pending")

    def first(self) -> MessageReference | None:
        """Return the message that `pop` would return; None if there is none."""
        return next((level.first() for level in reversed(self._levels) if level), None)

    def count_above(self, priority: int) -> int:
        """Return the number of messages with a higher priority."""
        return sum(map(len, self._levels[priority + 1 :]))

    def remove(self, reference: MessageReference) -> bool:
        if not self._level(reference).remove(reference):
            return False
        self._size -= 1
        return True

    def clear(self) -> None:
        for level in self._levels:
            level.clear()
        self._size = 0


def pending_list(prioritized: bool) -> FifoPendingList | PrioritizedPendingList:
    """Return an empty list, by priority or in order of arrival."""
    return PrioritizedPendingList() if prioritized else FifoPendingList()


MAX_EXPIRED_PER_TURN: Final = 500
"""Maximum number of expired messages processed in one turn of the event loop."""
PAGING_RETRY_DELAY: Final = 5.0
"""Seconds until paging is retried after the store failed to read messages."""


class PendingCursor(Protocol):
    """Pending messages in order, without duplicates. No method blocks.

    A cursor over stores may have more messages than are in memory: `len` counts all, the other
    methods apply to those in memory. Source: ActiveMQ PendingMessageCursor and PendingList.
    """

    @property
    def must_read(self) -> bool:
        """Whether `pop` would page in messages."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[MessageReference]:
        """Iterate over the messages in memory, in order, without removing them."""

    def __contains__(self, reference: object) -> bool: ...

    def append(self, reference: MessageReference) -> None:
        """Add the message after those of its priority."""

    def append_front(self, reference: MessageReference) -> None:
        """Add the message before those of its priority."""

    def requeue(self, references: list[MessageReference]) -> None:
        """Return messages that `pop` removed, in the order of their broker sequence numbers.

        They are placed after earlier returned messages with lower numbers, and before all others.
        """

    def pop(self) -> MessageReference:
        """Remove and return the first message.

        Raises:
            KeyError: the cursor is empty.
            JMSException: a store cannot be read.
        """

    def remove(self, reference: MessageReference) -> bool:
        """Remove a message; return whether it was in the cursor."""

    def clear(self) -> None:
        """Remove all messages."""


def log_paging_failure(owner: object, error: Exception, retry: BackgroundTask | None) -> None:
    """Log a store error, unless the next attempt is already scheduled."""
    if retry is None or retry.done:
        logger.error(
            "%s: paging in messages failed, next attempt in %g s",
            owner,
            PAGING_RETRY_DELAY,
            exc_info=error,
        )
