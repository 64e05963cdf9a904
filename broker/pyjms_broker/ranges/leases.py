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
"""

from __future__ import annotations

import itertools
import os
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

from pyjms import _clock
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.jms.destination import Queue as QueueDestination
from pyjms.selector import Selector, selector_or_none
from pyjms_broker.api.context import Access, ConnectionContext
from pyjms_broker.ranges.progress import ProgressRecords
from pyjms_broker.ranges.protocol import RangesError
from pyjms_broker.ranges.queue_reading import QueueReading
from pyjms_broker.ranges.queues import PROGRESS_RECORDS, RANGES
from pyjms_broker.region.queue.queue import Queue
from pyjms_broker.region.region_broker import RegionBroker

__all__ = ["Lease", "Leases"]

_MAX_REPLACED: Final = 1000
_SHORTEST_TOKEN, _LONGEST_TOKEN = 16, 100


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
        """Lease a queue for a connection, replacing an older lease of the same owner.

        Raises:
            RangesError: leased, replaced, in_flight or bad_request.
        """
        destination = _plain_queue(fields["queue"])
        selector = self._selector(fields.get("selector"))
        owner, token = fields["owner"], self._token(fields.get("token"), destination)
        older = self._by_queue.get(destination)
        if older is not None:
            if older.owner != owner or not older.is_open:
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
        """Return the lease with that token.

        Raises:
            RangesError: unknown_token, or replaced.
        """
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

    def inspect(self, fields: dict[str, Any]) -> tuple[QueueReading, Selector | None]:
        """Return the reader of a queue without leasing it, and the selector.

        Raises:
            RangesError: bad_request.
        """
        reading = self._reading(_plain_queue(fields["queue"]))
        return reading, self._selector(fields.get("selector"))

    def check_access(self, access: Access, operation: str, fields: dict[str, Any]) -> None:
        """Check that a client may read the queue of a request, named directly or by a lease.

        Raises:
            JMSSecurityException: the client may not.
            RangesError: there is no such lease, or no such queue.
        """
        if fields.get("queue") is not None:
            access.check_read(_plain_queue(fields["queue"]))
        if fields.get("token") is not None and operation != "lease":
            access.check_read(self.find(fields["token"]).destination)

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
