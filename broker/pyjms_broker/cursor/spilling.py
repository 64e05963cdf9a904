"""A cursor with bounded memory: beyond a high-water mark, messages wait in their sources.

Theory of operation. The messages of a queue or durable subscription are in two parts: the *head*,
a list in memory from which messages are dispatched, and the *sources* (a store, a spool of the
temp store, or a separate list in memory), each of which keeps its own order.

    state          new messages go to      `pop` serves
    =============  ======================  ==================================================
    not spilling   the head                the head; the sources hold nothing
    spilling       their source            the head; when it is empty, a page of each source
    =============  ======================  ==================================================

    event                                                        transition
    ===========================================================  =======================
    `append` while memory is short (`is_memory_short`)           to spilling
    `append` of a stored message with `MOST_CACHED` in the head  to spilling
    `add_source` with messages from before the start             to spilling
    head and sources empty, or the sources drained by a read     to not spilling
    `clear`                                                      to not spilling
    ===========================================================  =======================

Invariants:

- While not spilling, all messages are in the head, in exact order.
- While spilling, the messages in the head are older than those in the sources. That is why a new
  message never goes to the head, even if memory is free again, as long as a source holds older
  ones: it would overtake them. The exceptions are messages that a source does not accept (the store
  already counts them as paged in) or fails to accept: these stay in the head and are never lost.
- Returned messages (rollback, a closed consumer) always go to the head: they are older.

Order between sources. Each source is in order, but nothing records how messages of different
sources interleave. A read therefore takes a page of each and merges the pages message by
message, so that neither persistent nor non-persistent messages starve. ActiveMQ's
StoreQueueCursor alternates between its two cursors likewise.

Failures. A source that cannot be read does not keep the others from being read; the error is
raised only if the head remains empty. A source begins again where its last good read ended. The
log has the first failure only, until all sources have been read again.

Priorities. `PrioritizedSpillingCursor` cannot wait until its head is empty, because a more urgent
message may be paged out: before each `pop` it reads the messages that a source reports above the
priority of the first one in the head. If they cannot be read, those in the head go first.

(activemq-broker M8, M9, M11, Q19)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from pyjms._logger import get_logger
from pyjms_broker.cursor.memory import FifoPendingList, PrioritizedPendingList
from pyjms_broker.cursor.sources import MessageSource, level_of

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["MOST_CACHED", "UNLIMITED", "PrioritizedSpillingCursor", "SpillingCursor", "never_short"]

logger = get_logger(__name__)

MOST_CACHED: Final = 20_000
"""Pending messages in memory above which new stored messages stay in the store, even with free
memory."""

UNLIMITED: Final = sys.maxsize


def never_short(_reference: MessageReference) -> bool:
    """Keep every message in memory, as ActiveMQ's VM cursors do. (activemq-broker M8)"""
    return False


class SpillingCursor:
    """Messages of one queue or durable subscription in order of arrival."""

    def __init__(
        self,
        name: str,
        source_of: Callable[[MessageReference], MessageSource],
        is_memory_short: Callable[[MessageReference], bool],
        on_spilled: Callable[[MessageReference], None],
        page_size: int,
        most_cached: int = MOST_CACHED,
    ) -> None:
        """Create an empty cursor.

        Args:
            name: of the destination or subscription, for the log.
            source_of: returns the source for a message, among those added.
            is_memory_short: whether memory is short for a message, so that it and those after it
                go to their sources.
            on_spilled: called with each message that is no longer held in memory.
            page_size: number of messages read from a source at once.
            most_cached: number of messages in the head above which stored ones spill.

        """
        self._name = name
        self._head = self._make_head()
        self._sources: list[MessageSource] = []
        self._source_of = source_of
        self._is_memory_short = is_memory_short
        self._on_spilled = on_spilled
        self._page_size = page_size
        self._most_cached = most_cached
        self._is_failing = False  # a source could not be read, and no read has succeeded since
        self.is_spilling = False
        """Whether new messages go to their sources."""

    def _make_head(self) -> FifoPendingList | PrioritizedPendingList:
        return FifoPendingList()

    def add_source(self, source: MessageSource) -> None:
        """Add a source to read from. It may hold messages from before the start."""
        self._sources.append(source)
        if len(source) and not self.is_spilling:
            self.is_spilling = True
            for other in self._sources[:-1]:
                other.begin()
        elif self.is_spilling and not len(source):
            source.begin()

    def remove_source(self, source: MessageSource) -> None:
        """Remove a source and clear it."""
        source.clear()
        self._sources.remove(source)
        self.end_spilling_if_empty()

    # pending messages
    @property
    def paged_out_count(self) -> int:
        """The number of messages in the sources."""
        return sum(map(len, self._sources)) if self.is_spilling else 0

    @property
    def must_read(self) -> bool:
        return self.is_spilling and not self._head and self.paged_out_count > 0

    def __len__(self) -> int:
        return len(self._head) + self.paged_out_count

    def __bool__(self) -> bool:
        # also True while a source is being read, so that a new message does not overtake it
        return self.is_spilling or bool(self._head)

    def __iter__(self) -> Iterator[MessageReference]:
        return iter(self._head)

    def __contains__(self, reference: object) -> bool:
        return reference in self._head

    def append(self, reference: MessageReference) -> None:
        if not self.is_spilling:
            head = self._head
            is_head_full = len(head) >= self._most_cached and reference.position is not None
            if not is_head_full and not self._is_memory_short(reference):
                head.append(reference)
                return
            self.is_spilling = True
            for source in self._sources:
                source.begin()
        source = self._source_of(reference)
        try:
            accepted = source.add(reference)
        except Exception:
            logger.exception(
                "A message of %s stays in memory: its source failed to accept it", self._name
            )
            accepted = False
        if not accepted:
            self._head.append(reference)
        elif not source.holds_in_memory:
            self._on_spilled(reference)

    def append_front(self, reference: MessageReference) -> None:
        self._head.append_front(reference)

    def requeue(self, references: list[MessageReference]) -> None:
        self._head.requeue(references)

    def pop(self) -> MessageReference:
        if not self.is_spilling:
            return self._head.pop()
        self._refill()
        reference = self._head.pop()
        self.end_spilling_if_empty()
        return reference

    def remove(self, reference: MessageReference) -> bool:
        removed = self._head.remove(reference)
        if self.is_spilling:
            source = self._source_of(reference)
            removed = removed or (source.holds_in_memory and source.remove(reference))
            self.end_spilling_if_empty()
        return removed

    def remove_paged_out(self, reference: MessageReference) -> bool:
        """Remove a message from its source, but not from the store; return whether it was there."""
        if not self.is_spilling:
            return False
        removed = self._source_of(reference).remove(reference)
        self.end_spilling_if_empty()
        return removed

    def clear(self) -> None:
        self._head.clear()
        for source in self._sources:
            source.clear()
        self.is_spilling = False

    # the sources
    def read_ahead(self, count: int) -> None:
        """Read from the sources until the head has `count` messages or memory is short.

        An empty head is filled with a page even if memory is short.

        Raises:
            JMSException: a source cannot be read and the head is empty.
        """
        head = self._head
        while self.is_spilling and len(head) < count:
            first = head.first()
            before = self.paged_out_count
            if first is None or not self._is_memory_short(first):
                self._read_all()
            if self.paged_out_count == before:
                return

    def end_spilling_if_empty(self) -> None:
        """End spilling if neither the head nor a source holds a message."""
        if self.is_spilling and not self._head and not self.paged_out_count:
            self.is_spilling = False

    def _refill(self) -> None:
        if not self._head:
            self._read_all()

    def _read_all(self) -> None:
        """Read a page of each source; a failing source does not keep the others from being read."""
        failure: Exception | None = None
        pages: list[list[MessageReference]] = []
        for source in self._sources:
            try:
                pages.append(source.read(self._page_size))
            except Exception as error:
                self._log_failure("Failed to page in more messages of %s", error)
                failure = error
        for references in zip_longest(*pages):
            for reference in references:
                if reference is not None:
                    self._head.append(reference)
        if failure is None:
            self._is_failing = False
        elif not self._head:
            raise failure
        if not self.paged_out_count:
            self.is_spilling = False

    def _log_failure(self, text: str, error: Exception) -> None:
        """Log the error, unless an earlier failure is still unresolved."""
        if not self._is_failing:
            self._is_failing = True
            logger.error(text, self._name, exc_info=error)


class PrioritizedSpillingCursor(SpillingCursor):
    """Messages by priority: those of a higher priority are read from their sources first.

    (activemq-broker Q19)
    """

    _must_wait = False
    """Whether messages of a higher priority could not be read; retried when the head is empty."""

    def _make_head(self) -> FifoPendingList | PrioritizedPendingList:
        return PrioritizedPendingList()

    def _refill(self) -> None:
        head = self._head
        if not head:
            self._must_wait = False
            self._read_all()
        if self._must_wait:
            return
        for source in self._sources:
            try:
                self._read_urgent(source)
            except Exception as error:
                self._log_failure(
                    "Failed to page in more urgent messages of %s; those in memory go first", error
                )
                self._must_wait = True

    def _read_urgent(self, source: MessageSource) -> None:
        """Read the messages of a source with a higher priority than the first in the head."""
        head = self._head
        while (first := head.first()) is not None:
            urgent = source.count_above(level_of(first.priority))
            if not urgent:
                return
            for reference in source.read(min(urgent, self._page_size)):
                head.append(reference)
