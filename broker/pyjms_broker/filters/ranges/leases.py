"""The leases of queues: each queue has one reader at a time, while its connection is open.

Theory of operation
===================

A range reader stores its offset itself, so it must be able to read the same messages again by
number after a failure. The number of a message is the arrival number assigned by the store. Four
properties make numbers usable as offsets:

- Exclusive: while a queue is leased, nothing is dispatched from it. A lease begins only when no
  messages of the queue are dispatched; after `wait` seconds, `in_flight` is raised.
- Settled: every number below `next` is final: its message can be read now, or never. To ensure
  this, all messages that arrive during a lease are stored, and messages that were only in memory
  are stored when the lease begins and get the highest numbers.
- Repeatable: messages below the held number (`hold`) neither expire nor change until `trim`.
- Durable: `hold` returns once the held number, and everything stored before, is synced to disk
  (`progress`). Volatile stores skip this; their epoch changes at each start.
  A purge changes the epoch (written without waiting), so a reader sees that its offset is invalid.

The states of a lease:

    ========  ===============================  =========
    state     event                            new state
    ========  ===============================  =========
    none      lease request                    opening
    opening   nothing dispatched, all stored   open
    opening   timeout, store failure           none
    opening   connection closed                none
    open      release request                  none
    open      connection closed                none
    open      lease request of the same owner  replaced
    ========  ===============================  =========

A lease is identified by its token. The owner of an open lease may lease the queue again, for
example after a restart. The older token, unless it is reused, is then refused as `replaced` instead
of `unknown_token`, so the older process learns that another one runs the same query. The last 1000
replaced tokens are stored. Another owner, or any request while a lease is still opening, is refused
as `leased`. Both indexes (by token, by queue) are updated before the first await: `open` gives the
queue to the newest lease, and `close` by an older one has no effect.

Reading progress outlives leases and restarts: each queue's held number and epoch. A progress record
is a message in the queue `PyJMS.Ranges.Marks`, replaced by the next record. It is synced to disk,
so everything stored before it is durable, too: after a crash, a number that was reported to a
reader is never assigned to another message. Volatile stores keep no records.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, NamedTuple

import anyio

from pyjms.errors import JMSException, MessageFormatException
from pyjms.jms.destination import Destination, name_matches
from pyjms.jms.destination import Queue as QueueDestination
from pyjms.runtime import clock as _clock
from pyjms.runtime.forwarding import DelegatedAttribute
from pyjms.runtime.logging import get_logger
from pyjms.selector import Selector, selector_or_none
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId
from pyjms.wire.openwire.primitives import decode_text
from pyjms_broker.api.access import RANGES, Access, Right
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion, completion_of, wait_for
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.message import NO_TRANSACTION, MessageReference, Position, StoredMessage
from pyjms_broker.filters.ranges.filter import PROGRESS_RECORDS
from pyjms_broker.filters.ranges.protocol import RangesError, ReplyFactory
from pyjms_broker.region.queue import Queue
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.store.api import MessageStore

logger = get_logger(__name__)

_LEVELS: Final = 10
_PAGE: Final = 200
_PRIORITY_PAGE: Final = 50
_arrival = attrgetter("position.arrival")

MessagePredicate = Callable[[ActiveMQMessage], bool]


def messages_between(
    store: MessageStore, start: int, end: int, *, prioritized: bool
) -> Iterator[StoredMessage]:
    """Iterate over the messages with numbers in `start <= number < end`."""
    if not prioritized:
        return _of_level(store, 0, start, end, _PAGE)
    levels = (_of_level(store, level, start, end, _PRIORITY_PAGE) for level in range(_LEVELS))
    return heapq.merge(*levels, key=_arrival)


def first_arrival(store: MessageStore, *, prioritized: bool) -> int | None:
    """Return the number of the oldest message, or None if the store is empty."""
    if not prioritized:
        page = store.next_messages(None, 1)
        return page[0].position.arrival if page else None
    found: list[int] = []
    for level in range(_LEVELS):
        page = store.next_messages(Position(level, 0), 1)
        if page and page[0].position.level == level:
            found.append(page[0].position.arrival)
    return min(found, default=None)


def _of_level(
    store: MessageStore, level: int, start: int, end: int, limit: int
) -> Iterator[StoredMessage]:
    after = Position(level, start - 1)
    while True:
        page = store.next_messages(after, min(limit, end - after.arrival))
        for stored in page:
            if stored.position.level != level or stored.position.arrival >= end:
                return
            yield stored
        if not page or page[-1].position.arrival >= end - 1:
            return
        after = page[-1].position


_NUMBERS: Final = range(1 << 63)


class Progress(NamedTuple):
    """The progress record of a queue."""

    held: int = 0
    """The held number: messages below it may be read again, so they must not expire."""
    changes: int = 0
    """The number of purges since the creation of the queue."""


class ProgressRecords:
    """The progress records of a broker, in memory and in their queue."""

    def __init__(self, region: RegionBroker, chain: Broker, replies: ReplyFactory) -> None:
        self._region = region
        self._chain = chain
        self._replies = replies
        self._known: dict[str, Progress] = {}
        self._ids: dict[str, MessageId] = {}
        self._locks: dict[str, anyio.Lock] = {}
        self._is_durable = not region.store_capabilities.is_volatile

    def load(self) -> dict[str, Progress]:
        """Read the records stored before this start and return them by queue name."""
        if self._is_durable and PROGRESS_RECORDS in self._region.destinations():
            for reference in self._queue().messages():
                self._read(reference)
        return dict(self._known)

    def of(self, destination: Destination) -> Progress:
        """Return the progress record of a queue; an empty one if there is none."""
        return self._known.get(destination.physical_name, Progress())

    async def set(self, destination: Destination, progress: Progress) -> None:
        """Store a record; it and everything stored before are on disk when this returns."""
        name = destination.physical_name
        async with self._locks.setdefault(name, anyio.Lock()):
            self._known[name] = progress
            if self._is_durable:
                await wait_for(self._write(name, progress))

    def note(self, destination: Destination, progress: Progress) -> None:
        """Store a record without waiting for the disk."""
        self._known[destination.physical_name] = progress
        if self._is_durable:
            self._write(destination.physical_name, progress)

    def forget(self, destination: Destination) -> None:
        """Remove the record of a deleted queue."""
        name = destination.physical_name
        self._known.pop(name, None)
        self._locks.pop(name, None)
        self._remove(self._ids.pop(name, None))

    def _queue(self) -> Queue:
        queue = self._chain.add_destination(self._region.context, PROGRESS_RECORDS).base
        assert isinstance(queue, Queue)
        queue.pause()  # so that its messages are never dispatched
        return queue

    def _read(self, reference: MessageReference) -> None:
        try:
            name, progress = _decode(reference)
        except Exception:  # no stored data may prevent a start
            logger.exception(
                "%s contains message %s, which is not a progress record: it is ignored",
                PROGRESS_RECORDS,
                reference.message_id,
            )
            return
        self._remove(self._ids.get(name))
        self._known[name], self._ids[name] = progress, reference.message_id

    def _write(self, name: str, progress: Progress) -> Completion:
        self._queue()
        values = {"queue": name, "held": progress.held, "changes": progress.changes}
        message = self._replies.message(values, PROGRESS_RECORDS)
        message.persistent = message.response_required = True
        before, self._ids[name] = self._ids.get(name), message.message_id  # type: ignore[assignment]
        stored = completion_of(
            self._chain.send(ProducerExchange(self._region.context), message), self._chain, "send"
        )
        stored.then(lambda done: self._remove(before) if done.error is None else None)
        return stored

    def _remove(self, message_id: MessageId | None) -> None:
        if message_id is None:
            return
        queue = self._queue()
        reference = queue.get_message(message_id)
        if reference is not None:
            queue.remove_message(self._region.context, reference)


def _decode(reference: MessageReference) -> tuple[str, Progress]:
    """Return a record and its queue's name."""
    text = decode_text(bytes(reference.message.content or b""))
    fields = json.loads(text or "")
    name, held, changes = fields["queue"], fields["held"], fields["changes"]
    if not (type(held) is type(changes) is int and held in _NUMBERS and changes in _NUMBERS):
        raise MessageFormatException("held and changes must be whole numbers of 63 bits")
    return QueueDestination(name).physical_name, Progress(held, changes)


_POLL_INTERVAL: Final = 0.02
_BATCH: Final = 200
_EPOCHS_APART: Final = 1000
_AFTER_ALL_WITHOUT_PRIORITY: Final = Position(0, 2**62)


class QueueReading:
    """The `reader` of a queue, from its first lease on."""

    def __init__(
        self, queue: Queue, store: MessageStore, progress: ProgressRecords, epoch: int
    ) -> None:
        """Start with the stored progress; `epoch` differs for each creation of the queue."""
        self.is_leased = False
        self.next = 1
        """The number after the last settled one."""
        self.first = 1
        """The number of the first message in the store, or `next`."""
        self._queue = queue
        self._store = store
        self._progress = progress
        self._epoch = epoch
        self._is_volatile = queue.broker.store_capabilities.is_volatile
        self._prioritized = queue.policy.prioritized_messages
        self._was_paused = False
        self._holder: object = None
        self.waiting: set[anyio.Event] = set()
        """What is set when a message arrives."""

    # called by the queue
    def on_arrival(self, reference: MessageReference) -> None:
        if not self.is_leased:
            return
        if reference.position is None:  # unstored, sent in a transaction begun before the lease
            self._withdraw(reference)
            self._store_again(reference)
            return
        if self._is_volatile:
            self._store.mark_visible(reference)
        if reference.position.arrival >= self.next:
            self.next = reference.position.arrival + 1
            for changed in self.waiting:
                changed.set()

    def keeps(self, reference: MessageReference) -> bool:
        position = reference.position
        return position is not None and position.arrival < self.progress.held

    def may_purge(self) -> bool:
        if self.is_leased:
            logger.warning("%s is being read by its numbers: it is not purged", self._queue)
            return False
        progress = self.progress
        self._progress.note(self._queue.destination, Progress(progress.held, progress.changes + 1))
        return True

    # called by leases and operations
    @property
    def progress(self) -> Progress:
        """The progress record of the queue."""
        return self._progress.of(self._queue.destination)

    @property
    def epoch(self) -> int:
        """The epoch of the numbering, which changes when numbers become invalid."""
        return self._epoch * _EPOCHS_APART + self.progress.changes

    message_count = DelegatedAttribute[int](
        attrgetter("_store"), "The number of messages in the store.", read_only=True
    )
    message_size = DelegatedAttribute[int](
        attrgetter("_store"), "Their size in bytes, as counted for memory usage.", read_only=True
    )

    async def open(self, holder: object, wait: float) -> None:
        """Give the queue exclusively to `holder`, waiting up to `wait` seconds for consumers.

        A previous holder loses the queue.
        """
        queue = self._queue
        self._holder = holder
        if not self.is_leased:
            self._was_paused = queue.dispatcher.is_paused
            queue.pause()
            self.is_leased = True
        try:
            await self._wait_for_consumers(wait)
            self._store_all()
            self.next = self._store.last_arrival + 1
            await self._progress.set(
                queue.destination, self.progress
            )  # syncs everything stored before it
            if self._store.next_messages(_AFTER_ALL_WITHOUT_PRIORITY, 1):
                self._prioritized = True  # stored under another policy
            self.first = self._first()
        except BaseException:
            self.close(holder)
            raise

    def close(self, holder: object) -> None:
        """Release the queue, if `holder` has it."""
        if self._holder is not holder:
            return
        self._holder = None
        self.is_leased = False
        if not self._was_paused:
            self._queue.resume()

    def refresh(self) -> None:
        """Update `first` and `next` without a lease; consumers may still remove messages."""
        if self.is_leased:
            return
        if self._is_volatile:
            for reference in self._queue.references:
                self._store.mark_visible(reference)
        self.next = self._store.last_arrival + 1
        self.first = self._first()

    async def hold(self, end: int) -> None:
        """Guarantee that messages before `end` can be read again unchanged until trimmed."""
        self.check(end)
        progress = self.progress
        if end > progress.held:
            await self._progress.set(self._queue.destination, Progress(end, progress.changes))

    def check(self, end: int) -> None:
        """Check that the numbers before `end` are settled."""
        if end > self.next:
            raise RangesError(
                "ahead",
                f"The messages of {self._queue} end before {self.next}, but {end} was requested",
            )

    def messages(self, start: int, end: int) -> Iterator[StoredMessage]:
        """Iterate over the messages with numbers in `start <= number < end`, reading by pages."""
        self.check(end)
        if start < self.first:
            raise RangesError(
                "trimmed",
                f"The messages of {self._queue} begin at {self.first}, but {start} was requested",
            )
        return messages_between(self._store, start, end, prioritized=self._prioritized)

    def messages_left(self, start: int, end: int) -> Iterator[StoredMessage]:
        """Iterate over the messages of a range that have not been removed yet."""
        return messages_between(self._store, start, end, prioritized=self._prioritized)

    def reference_to(self, stored: StoredMessage) -> MessageReference:
        """Return a reference to a stored message, for selectors."""
        return self._queue.reference_to(stored.message, stored.position)

    async def trim(self, end: int, policy: MessagePredicate | None) -> None:
        """Remove the messages before `end`; the removal is on disk when this returns.

        Those that the `policy` of messages withholds from the reader stay for other consumers.
        """
        self.check(end)
        if end <= self.first:
            return
        removed = await self._remove_from_memory(end, policy)
        removed += await self._remove_from_store(end, policy)
        self.first = max(self.first, end)
        if removed:
            await self._progress.set(self._queue.destination, self.progress)

    # internals
    async def _wait_for_consumers(self, seconds: float) -> None:
        queue, until = self._queue, _clock.now() + seconds
        while queue.statistics.inflight or any(r.acked for r in queue.references):
            if _clock.now() >= until:
                raise RangesError(
                    "in_flight",
                    f"Consumers of {queue} hold {queue.statistics.inflight} messages, or prepared "
                    "transactions have acknowledged some",
                )
            await _clock.sleep(_POLL_INTERVAL)

    def _store_all(self) -> None:
        """Store the messages that are only in memory; they get the highest numbers."""
        queue = self._queue
        # each is removed from memory or the temp store only once the store has accepted it
        for reference in tuple(queue.references):
            if reference.position is None:
                self._store_again(reference)
                self._withdraw(reference)
            elif self._is_volatile:
                self._store.mark_visible(reference)
        queue.contents.move_spooled(self._store_again, _BATCH)

    def _withdraw(self, reference: MessageReference) -> None:
        self._queue.dispatcher.remove(reference)
        self._queue.drop(reference)
        self._queue.statistics.dequeues -= 1

    def _store_again(self, reference: MessageReference) -> None:
        queue = self._queue
        fresh = queue.reference_to(reference.message)
        fresh.redelivery_counter = reference.redelivery_counter
        queue.forget_duplicate(fresh)
        queue.accept(ProducerExchange(queue.broker.context), fresh)
        queue.statistics.enqueues -= 1
        queue.statistics.total_size -= fresh.size

    def _first(self) -> int:
        first = first_arrival(self._store, prioritized=self._prioritized)
        return self.next if first is None else min(first, self.next)

    async def _remove_from_memory(self, end: int, policy: MessagePredicate | None) -> int:
        queue = self._queue
        held = (
            r
            for r in queue.references
            if r.position is not None
            and r.position.arrival < end
            and (policy is None or policy(r.message))
        )
        removed = 0
        for reference in tuple(held):
            queue.dispatcher.remove(reference)
            queue.store_acknowledgement(NO_TRANSACTION, reference, None)
            queue.drop(reference)
            removed += 1
            if removed % _BATCH == 0:
                await _clock.sleep(0)
        return removed

    async def _remove_from_store(self, end: int, policy: MessagePredicate | None) -> int:
        queue = self._queue
        removed = 0
        for stored in messages_between(self._store, 1, end, prioritized=self._prioritized):
            if policy is not None and not policy(stored.message):
                continue
            queue.remove_paged_out(self.reference_to(stored))
            removed += 1
            if removed % _BATCH == 0:
                await _clock.sleep(0)
        return removed


async def wait_for_any(readings: Sequence[tuple[QueueReading, int]], seconds: float) -> None:
    """Wait up to `seconds` until `next` of one of the readings is greater than its number."""
    with _clock.timeout(seconds):
        while all(reading.next <= than for reading, than in readings):
            changed = anyio.Event()  # no task for each: a client may name many
            for reading, _ in readings:
                reading.waiting.add(changed)
            try:
                await changed.wait()
            finally:
                for reading, _ in readings:
                    reading.waiting.discard(changed)


_MAX_REPLACED: Final = 1000
_MAX_FOUND: Final = 1000
"""The queues that a pattern may match: the most that fit into one request for their state."""
_SHORTEST_TOKEN, _LONGEST_TOKEN = 16, 100
_OWN_PREFIX: Final = "PyJMS."


@dataclass(eq=False)
class Lease:
    """The exclusive right of a connection to read a queue by number."""

    token: str
    owner: str
    context: ConnectionContext
    selector: Selector | None
    destination: Destination
    reading: QueueReading
    is_open: bool = field(default=False, init=False)


class Leases:
    """The leases of a broker."""

    def __init__(self, region: RegionBroker, progress: ProgressRecords) -> None:
        self._region = region
        self._progress = progress
        self._by_token: dict[str, Lease] = {}
        self._by_queue: dict[Destination, Lease] = {}
        self._replaced: OrderedDict[str, None] = OrderedDict()
        self._epochs = itertools.count(_clock.time_ms())

    def attach(self) -> None:
        """Attach readers to queues with stored progress, so that held messages do not expire."""
        existing = self._region.destinations()
        for name in self._progress.load():
            destination = QueueDestination(name)
            if destination in existing:
                self._reading(destination)
            else:
                self._progress.forget(destination)

    async def acquire(self, context: ConnectionContext, fields: dict[str, Any]) -> Lease:
        """Lease a queue for a connection, replacing an older lease of the same owner and user."""
        destination = _plain_queue(fields["queue"])
        selector = self._selector(fields.get("selector"))
        owner, token = fields["owner"], self._token(fields.get("token"), destination)
        older = self._by_queue.get(destination)
        if older is not None:
            is_same = older.owner == owner and older.context.user == context.user
            if not is_same or not older.is_open:
                raise RangesError("leased", f"{destination} is leased by {older.owner}")
            self._forget(older)
            older.is_open = False
            if older.token != token:
                self._remember_replaced(older.token)
        reading = self._reading(destination)
        lease = Lease(token, owner, context, selector, destination, reading)
        self._by_queue[destination] = self._by_token[token] = lease
        try:
            await reading.open(lease, float(fields.get("wait") or 0))
        except BaseException:
            self._forget(lease)
            raise
        if self._by_token.get(token) is not lease:  # its connection was closed meanwhile
            reading.close(lease)
            raise RangesError("unknown_token", "The connection is closed")
        lease.is_open = True
        return lease

    def find(self, token: str) -> Lease:
        """Return the lease with that token."""
        lease = self._by_token.get(token)
        if lease is None or not lease.is_open:
            self._check_not_replaced(token)
            raise RangesError("unknown_token", "There is no lease with that token")
        return lease

    def end(self, lease: Lease) -> None:
        """End a lease; the queue resumes dispatching."""
        self._forget(lease)
        if lease.is_open:
            lease.is_open = False
            lease.reading.close(lease)

    def end_all(self, context: ConnectionContext) -> None:
        """End all leases of a connection."""
        for lease in [each for each in self._by_token.values() if each.context is context]:
            self.end(lease)

    def matching(self, access: Access | None, pattern: str) -> list[str]:
        """Return the names of the queues that match a pattern and that the client may read.

        The broker's own queues match a pattern that begins like their names.

        Raises:
            RangesError: bad_request, it is not a pattern of queues, or matches more than 1000.
        """
        try:
            queues = QueueDestination(pattern).composite_destinations
        except JMSException as error:
            raise RangesError("bad_request", f"The pattern cannot be read: {error}") from error
        found = sorted(
            destination.physical_name
            for destination in self._region.destinations()
            if type(destination) is QueueDestination
            and destination not in (RANGES, PROGRESS_RECORDS)
            and any(_matches(each.physical_name, destination.physical_name) for each in queues)
            and (access is None or access.may(Right.READ, destination))
        )
        if len(found) > _MAX_FOUND:
            raise RangesError("bad_request", f"{pattern} matches more than {_MAX_FOUND} queues")
        return found

    def inspect(self, fields: dict[str, Any]) -> tuple[QueueReading, Selector | None]:
        """Return the reader of a queue without leasing it, and the selector."""
        reading = self._reading(_plain_queue(fields["queue"]))
        return reading, self._selector(fields.get("selector"))

    def check_access(self, access: Access, fields: dict[str, Any]) -> None:
        """Check that a client may read the queue of a request, named directly or by a lease."""
        if fields.get("queue") is not None:
            access.check(Right.READ, _plain_queue(fields["queue"]))
        if fields.get("token") is not None and fields["op"] != "lease":
            for token in (fields["token"], *(each for each, _ in fields.get("more") or ())):
                access.check(Right.READ, self.find(token).destination)

    def is_leased(self, destination: Destination) -> bool:
        """Return whether the queue is leased."""
        return destination in self._by_queue

    def _forget(self, lease: Lease) -> None:
        if self._by_token.get(lease.token) is lease:
            del self._by_token[lease.token]
        if self._by_queue.get(lease.destination) is lease:
            del self._by_queue[lease.destination]

    def _remember_replaced(self, token: str) -> None:
        self._replaced[token] = None
        if len(self._replaced) > _MAX_REPLACED:
            self._replaced.popitem(last=False)

    def _check_not_replaced(self, token: str) -> None:
        if token in self._replaced:
            raise RangesError(
                "replaced",
                "A newer lease of the same owner has replaced that one: another process runs the "
                "same query now",
            )

    def _reading(self, destination: Destination) -> QueueReading:
        region = self._region
        queue = region.root.add_destination(region.context, destination).base
        assert isinstance(queue, Queue)
        if queue.store is None:
            raise RangesError("bad_request", f"{destination} has no store")
        if queue.reader is not None and not isinstance(queue.reader, QueueReading):
            raise RangesError("bad_request", f"{destination} is reserved for the broker")
        if queue.reader is None:
            volatile = region.store_capabilities.is_volatile
            epoch = next(self._epochs) if volatile else queue.store.epoch
            queue.reader = QueueReading(queue, queue.store, self._progress, epoch)
        return queue.reader

    def _token(self, wanted: str | None, destination: Destination) -> str:
        if wanted is None:
            return os.urandom(16).hex()
        if not _SHORTEST_TOKEN <= len(wanted) <= _LONGEST_TOKEN:
            raise RangesError("bad_request", "A token must have 16 to 100 characters")
        self._check_not_replaced(wanted)
        holder = self._by_token.get(wanted)
        if holder is not None and holder.destination != destination:
            raise RangesError("bad_request", "That token belongs to another queue")
        return wanted

    def _selector(self, text: str | None) -> Selector | None:
        try:
            limits = self._region.selector_limits._replace(meter=self._region.selector_meter)
            return selector_or_none(text, limits)
        except JMSException as error:
            raise RangesError("bad_request", f"The selector is invalid: {error}") from error


def _matches(pattern: str, name: str) -> bool:
    is_own = name.startswith(_OWN_PREFIX) and not pattern.startswith(_OWN_PREFIX)
    return not is_own and name_matches(pattern, name)


def _plain_queue(name: str) -> Destination:
    try:
        destination = QueueDestination(name)
    except JMSException as error:
        raise RangesError("bad_request", f"The queue cannot be read: {error}") from error
    if (
        destination.is_composite
        or destination.is_pattern
        or destination in (RANGES, PROGRESS_RECORDS)
    ):
        raise RangesError("bad_request", f"{destination} cannot be leased: name a single queue")
    return destination
