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

Sources. A source counts its messages and reads the next ones back in order. Messages in a store are
only counted. After a failure, reading resumes where the last successful read ended, so no message
is skipped or read twice. (activemq-broker M8, M10, T7; ActiveMQ FilePendingMessageCursor,
QueueStorePrefetch, TopicStorePrefetch)
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, Protocol

from pyjms.jms.destination import Destination
from pyjms.runtime.logging import get_logger
from pyjms_broker.api.destination import RegionDestination
from pyjms_broker.api.message import MessageReference, Position, Positions, StoredMessage
from pyjms_broker.cursor.memory import NOTHING, FifoPendingList, PrioritizedPendingList

if TYPE_CHECKING:
    from pyjms_broker.policy.entry import PolicyEntry
    from pyjms_broker.store.temp import Spool, SpooledMessage, TempStore

logger = get_logger(__name__)

HIGHEST_PRIORITY: Final = 9
_SEARCH_PAGE: Final = 16


def level_of(priority: int) -> int:
    """Limit a priority to 0 to 9."""
    return min(max(priority, 0), HIGHEST_PRIORITY)


class MessageSource(Protocol):
    """Messages of one kind (persistent or non-persistent) outside the cursor's head."""

    holds_in_memory: bool
    """Whether accepted messages stay in memory."""

    def __len__(self) -> int: ...

    def begin(self, first: MessageReference | None = None) -> None:
        """Prepare for `add`: all messages before `first`, the newest, are in the cursor."""

    def add(self, reference: MessageReference) -> bool:
        """Append the message and return True; return False if the cursor must hold it."""

    def read(self, limit: int) -> list[MessageReference]:
        """Remove and return at most `limit` messages, in order.

        Raises:
            JMSException: they cannot be read.
        """

    def count_above(self, priority: int) -> int:
        """Return the known number of messages with a priority above `priority`."""

    def remove(self, reference: MessageReference) -> bool:
        """Drop a message; return whether it was in this source."""

    def clear(self) -> None:
        """Drop all messages."""


class SpoolSource:
    """Messages in the temp store: one spool, or one per priority."""

    holds_in_memory = False

    def __init__(
        self,
        temp_store: TempStore,
        name: str,
        page_in: Callable[[SpooledMessage], MessageReference],
        prioritized: bool,
        on_lost: Callable[[int], None] = lambda _count: None,
    ) -> None:
        """Create a source; `on_lost` gets the number of messages that cannot be read back."""
        self._prioritized = prioritized
        self._spools = [
            temp_store.spool(name, on_lost)
            for _ in range(HIGHEST_PRIORITY + 1 if prioritized else 1)
        ]
        self._page_in = page_in
        self._on_lost = on_lost

    def __len__(self) -> int:
        return sum(map(len, self._spools))

    def begin(self, first: MessageReference | None = None) -> None:
        """Do nothing: a spool does not depend on positions."""

    def add(self, reference: MessageReference) -> bool:
        self._spools[level_of(reference.priority) if self._prioritized else 0].append(reference)
        return True

    def read(self, limit: int) -> list[MessageReference]:
        references: list[MessageReference] = []
        for spooled in self.pop(limit):
            try:
                references.append(self._page_in(spooled))
            except Exception:  # damage that decoding did not detect, such as a wrong destination
                logger.exception("Message %s of the temp store is lost", spooled.message.message_id)
                self._on_lost(1)
        return references

    def pop(self, limit: int) -> list[SpooledMessage]:
        """Remove and return at most `limit` messages, all of one priority if prioritized."""
        for spool in reversed(self._spools):
            if popped := spool.pop(limit):
                return popped
        return []

    def count_above(self, priority: int) -> int:
        return sum(map(len, self._spools[priority + 1 :])) if self._prioritized else 0

    def browse(self, page_size: int) -> Iterator[tuple[Spool, SpooledMessage]]:
        """Iterate over the messages in order, page by page, each with its spool."""
        for spool in reversed(self._spools):
            token: int | None = None
            while page := spool.browse(token, page_size):
                for spooled in page:
                    yield spool, spooled
                token = page[-1].token

    def remove(self, reference: MessageReference) -> bool:
        for spool, spooled in self.browse(_SEARCH_PAGE):
            if spooled.message.message_id == reference.message_id:
                return spool.remove(spooled)
        return False

    def clear(self) -> None:
        for spool in self._spools:
            spool.clear()


class MemorySource:
    """Messages that no store accepts, kept in memory outside the cursor's head."""

    holds_in_memory = True

    def __init__(self, prioritized: bool) -> None:
        self._pending = PrioritizedPendingList() if prioritized else FifoPendingList()

    def __len__(self) -> int:
        return len(self._pending)

    def begin(self, first: MessageReference | None = None) -> None:
        """Do nothing: a list does not depend on positions."""

    def add(self, reference: MessageReference) -> bool:
        self._pending.append(reference)
        return True

    def read(self, limit: int) -> list[MessageReference]:
        return [self._pending.pop() for _ in range(min(limit, len(self._pending)))]

    def count_above(self, priority: int) -> int:
        pending = self._pending
        return pending.count_above(priority) if isinstance(pending, PrioritizedPendingList) else 0

    def remove(self, reference: MessageReference) -> bool:
        return self._pending.remove(reference)

    def clear(self) -> None:
        self._pending.clear()


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
        self._find_source = source_of
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
                source.begin(reference)
        source = self._find_source(reference)
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
            source = self._find_source(reference)
            removed = removed or (source.holds_in_memory and source.remove(reference))
            self.end_spilling_if_empty()
        return removed

    def remove_paged_out(self, reference: MessageReference) -> bool:
        """Remove a message from its source, but not from the store; return whether it was there."""
        if not self.is_spilling:
            return False
        removed = self._find_source(reference).remove(reference)
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

    @property
    def must_read(self) -> bool:
        """Whether the next message comes from a source: the head is empty, or is less urgent."""
        first = self._head.first() if self.is_spilling else None
        if first is None:
            return super().must_read
        level = level_of(first.priority)
        return not self._must_wait and any(each.count_above(level) for each in self._sources)

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


NextMessages = Callable[[Position | None, int, Positions], list[StoredMessage]]
"""The method `next_messages` of a store, or of a durable subscription in it."""


class StoreSource:
    """Stored messages in order of arrival; those up to `paged_to` are or were in memory."""

    holds_in_memory = False

    def __init__(
        self,
        next_messages: NextMessages,
        page_in: Callable[[StoredMessage], MessageReference],
        recovered: int = 0,
        excluded: Positions = (),
        page_limit: Callable[[], int] = lambda: UNLIMITED,
    ) -> None:
        """Create a source that pages with `next_messages`.

        `page_in` creates the reference of a stored message. `page_limit` returns how many may be
        read at once, because there is memory for them. `recovered` is the number of messages
        already in the store, none of them in memory. Positions in `excluded`, which changes over
        time, are not read: these messages exist only in the store and will be removed from it.
        """
        self.paged_to: Position | None = None
        self._visible_to: Position | None = None
        self._visible_before: Position | None = None  # the former `_visible_to`
        self._next_messages = next_messages
        self._page_in = page_in
        self._page_limit = page_limit
        self._count = recovered
        self._excluded = excluded

    def __len__(self) -> int:
        return self._count

    def mark_visible(self, position: Position) -> None:
        """Record that the message at this position is, or was, in memory."""
        if self._visible_to is None or position > self._visible_to:
            self._visible_before = self._visible_to
            self._visible_to = position

    def begin(self, first: MessageReference | None = None) -> None:
        is_newest = first is not None and first.position == self._visible_to is not None
        self.paged_to = self._visible_before if is_newest else self._visible_to

    def is_paged_out(self, position: Position) -> bool:
        """Whether the message at this position was never in memory."""
        behind = self.paged_to is None or position > self.paged_to
        return behind and position not in self._excluded

    def add(self, reference: MessageReference) -> bool:
        position = reference.position
        if position is None or not self.is_paged_out(position):
            return False  # later messages are visible or already paged in
        self._count += 1
        return True

    def read(self, limit: int) -> list[MessageReference]:
        if not self._count:
            return []
        page = self.first_paged_out(min(limit, self._page_limit()))
        if not page:
            logger.warning("%d messages are not in the store, or were quarantined", self._count)
            self._count = 0
            return []
        references: list[MessageReference] = []
        try:
            for stored in page:
                reference = self._page_in(stored)
                references.append(reference)
        except Exception:
            if not references:
                raise
            del page[len(references) :]  # the next read begins with the failing one
        self._count = max(0, self._count - len(page))
        self._advance_past(page)
        return references

    def first_paged_out(self, limit: int) -> list[StoredMessage]:
        """Return the first `limit` messages that are not in memory, without removing them."""
        return self._next_messages(self.first_after, limit, self._excluded) if self._count else []

    @property
    def first_after(self) -> Position | None:
        """The position after which all messages are outside memory."""
        return self.paged_to

    def count_above(self, priority: int) -> int:
        """Return 0: this source ignores priorities."""
        return 0

    def remove(self, reference: MessageReference) -> bool:
        position = reference.position
        if not self._count or position is None or not self.is_paged_out(position):
            return False
        self._count -= 1
        return True

    def clear(self) -> None:
        self._count = 0

    def _advance_past(self, page: list[StoredMessage]) -> None:
        self.paged_to = page[-1].position
        self.mark_visible(self.paged_to)


class PrioritizedStoreSource(StoreSource):
    """Stored messages by priority; pages are read from the start, skipping those in memory."""

    def __init__(
        self,
        next_messages: NextMessages,
        page_in: Callable[[StoredMessage], MessageReference],
        excluded: Positions,
        recovered: int = 0,
        page_limit: Callable[[], int] = lambda: UNLIMITED,
    ) -> None:
        """Create a source that skips the positions in `excluded`, including all in memory."""
        super().__init__(next_messages, page_in, recovered, excluded, page_limit)
        self._by_priority = [0] * (HIGHEST_PRIORITY + 1)  # counts the added messages

    @property
    def first_after(self) -> Position | None:
        return None

    def begin(self, first: MessageReference | None = None) -> None:
        """Do nothing: `excluded` contains the positions of messages in memory."""

    def is_paged_out(self, position: Position) -> bool:
        return position not in self._excluded

    def add(self, reference: MessageReference) -> bool:
        if reference.position is None:
            return False
        self._count += 1
        self._by_priority[level_of(reference.priority)] += 1
        return True

    def count_above(self, priority: int) -> int:
        return min(self._count, sum(self._by_priority[priority + 1 :]))

    def _advance_past(self, page: list[StoredMessage]) -> None:
        counts = self._by_priority
        for stored in page:
            level = level_of(stored.message.priority)
            counts[level] = max(0, counts[level] - 1)
        for level in range(level_of(page[-1].message.priority) + 1, len(counts)):
            counts[level] = 0  # all above the last message's priority have been read


class RetainedPendingList(FifoPendingList):
    """Pending messages that are all in memory; the list has a reference count on each."""

    __slots__ = ()

    @property
    def is_spilling(self) -> bool:
        """Always False: no message is in the temp store."""
        return False

    def append(self, reference: MessageReference) -> None:
        reference.increment_reference_count()
        if self._references is NOTHING:  # like `super().append`, without the call
            self._references = OrderedDict()
        self._references[reference] = None

    def read_ahead(self, count: int) -> None:
        """Do nothing: all messages are in memory."""

    def clear(self) -> None:
        _release_all(self)
        super().clear()


class SpoolingCursor(SpillingCursor):
    """Messages of topics in order of arrival, with a reference count on each one in memory.

    All topics of a pattern share one spool, which preserves the order of arrival across them.
    """

    def __init__(
        self,
        name: str,
        temp_store: TempStore,
        policy: PolicyEntry,
        is_short: Callable[[int], bool],
    ) -> None:
        """Create an empty cursor.

        Args:
            name: the consumer's name for the log.
            temp_store: where messages go while memory is short.
            policy: that of the consumer.
            is_short: whether the memory of consumers is used up to a percentage.
        """
        super().__init__(
            name, self._source_of, self._is_memory_short_for, self._on_spooled, policy.max_page_size
        )
        self._mark = policy.cursor_memory_high_water_mark
        self._is_short = is_short
        self._spool = SpoolSource(temp_store, name, self._page_in, prioritized=False)
        self._topics: dict[Destination | None, RegionDestination] = {}
        """The topics of spooled messages, by the messages' destination."""
        self.add_source(self._spool)

    def append(self, reference: MessageReference) -> None:
        super().append(reference)
        if not self.is_spilling or reference in self:
            reference.increment_reference_count()

    def clear(self) -> None:
        _release_all(self)
        super().clear()
        self._topics.clear()

    def _source_of(self, reference: MessageReference) -> SpoolSource:
        return self._spool

    def _is_memory_short_for(self, reference: MessageReference) -> bool:
        mark = self._mark
        return reference.destination.memory.is_above(mark) or self._is_short(mark)

    def _on_spooled(self, reference: MessageReference) -> None:
        self._topics[reference.message.destination] = reference.destination

    def _page_in(self, spooled: SpooledMessage) -> MessageReference:
        topic = self._topics[spooled.message.destination]
        reference = topic.reference_to(spooled.message)
        reference.redelivery_counter = spooled.redelivery_counter
        reference.increment_reference_count()
        return reference


def _release_all(references: Iterable[MessageReference]) -> None:
    for reference in references:
        reference.decrement_reference_count()
