"""Tables of queues and topics: filtered, sorted, page by page.

The rows are views of the page's destinations; of all destinations, only the column is read by which
the table is sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import Final, Generic, TypeVar

from pyjms.errors import InvalidDestinationException
from pyjms.jms.destination import (
    ADVISORY_PREFIX,
    DEFAULT_DEAD_LETTER_QUEUE,
    Destination,
    Queue,
    TemporaryQueue,
    TemporaryTopic,
    Topic,
)
from pyjms.runtime.slices import Slices
from pyjms_broker.api.destination import RegionDestination
from pyjms_broker.management.host import Managed, ManagementContext
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View
from pyjms_broker.management.views.destinations import QUEUE, TOPIC
from pyjms_broker.region.queue import Queue as RegionQueue

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A part of a list.

    Args:
        items: the items of this page.
        number: the number of the page, from 1.
        first: the number of the first item in the list, from 1.
        has_next: whether more items follow.
        total: the number of items in the list; None if it was not read to its end.
    """

    items: Sequence[T]
    number: int
    first: int
    has_next: bool
    total: int | None = None

    @property
    def last(self) -> int:
        """The number of the last item in the list."""
        return self.first + len(self.items) - 1


def page_of(items: Sequence[T], number: int, size: int) -> Page[T]:
    """Return a page of a list, or the last page if `number` is too large."""
    last = max(1, -(-len(items) // size))
    number = min(max(1, number), last)
    start = (number - 1) * size
    return Page(items[start : start + size], number, start + 1, number < last, len(items))


def page_of_iterable(items: Iterable[T], number: int, size: int) -> Page[T]:
    """Return a page of an iterable, reading it only as far as necessary."""
    number = max(1, number)
    start = (number - 1) * size
    found = list(islice(items, start, start + size + 1))
    return Page(found[:size], number, start + 1, len(found) > size)


_DEAD_LETTERS: Final = (DEFAULT_DEAD_LETTER_QUEUE, "DLQ.")
"""Names of the default dead-letter queues, which are not marked as such after a restart."""

COLUMNS: Final = {
    "name": "Name",
    "pending": "QueueSize",
    "consumers": "ConsumerCount",
    "enqueued": "EnqueueCount",
    "dequeued": "DequeueCount",
    "in": "EnqueueRate",
    "out": "DequeueRate",
    "oldest": "FirstMessageAge",
}
"""The columns by which tables can be sorted, with their attributes."""


def is_dead_letter_queue(destination: RegionDestination) -> bool:
    """Return whether the destination has had dead letters, or has a dead-letter queue's name."""
    if destination.is_dead_letter_queue:
        return True
    name = destination.destination
    return not name.is_topic and name.physical_name.startswith(_DEAD_LETTERS)


def is_paused(destination: RegionDestination) -> bool:
    """Return whether it is a queue whose dispatching is paused."""
    return isinstance(destination, RegionQueue) and destination.dispatcher.is_paused


class DestinationView(View[Managed[RegionDestination]]):
    """The view of a queue or topic."""

    __slots__ = ()

    @property
    def destination(self) -> Destination:
        """The destination."""
        return self.target.it.destination

    @property
    def is_topic(self) -> bool:
        """Whether it is a topic."""
        return self.destination.is_topic

    @property
    def word(self) -> str:
        """`topic` or `queue`."""
        return "topic" if self.is_topic else "queue"

    @property
    def is_paused(self) -> bool:
        """Whether it is a queue whose dispatching is paused."""
        return is_paused(self.target.it)

    @property
    def is_dead_letter_queue(self) -> bool:
        """Whether it is a dead-letter queue."""
        return is_dead_letter_queue(self.target.it)


def view_of(context: ManagementContext, base: RegionDestination) -> DestinationView:
    """Return the view of a destination, without a search, which takes long if there are many."""
    kind = TOPIC if base.destination.is_topic else QUEUE
    return DestinationView(
        context.names.destination(base.destination), kind, Managed(context, base)
    )


def _nothing(_: Managed[RegionDestination]) -> int:
    """Return 0 for what topics do not have."""
    return 0


def _is_plain(name: Destination) -> bool:
    return not name.is_temporary and not name.physical_name.startswith(ADVISORY_PREFIX)


async def destination_page(
    context: ManagementContext,
    *,
    topics: bool,
    text: str = "",
    everything: bool = False,
    sort: str = "name",
    descending: bool = False,
    number: int = 1,
    size: int = 50,
) -> Page[DestinationView]:
    """Return a page of the queues or topics whose names contain `text`. Cancellable.

    `everything` includes temporary and advisory destinations. `sort` is a key of `COLUMNS`, by
    default the name.
    """
    wanted = text.lower()
    by_name: list[tuple[str, int, RegionDestination]] = []
    slices = Slices(items=1000)
    for name, entry in context.destinations().items():
        lower = name.physical_name.lower()
        if name.is_topic == topics and wanted in lower and (everything or _is_plain(name)):
            by_name.append((lower, len(by_name), entry.base))
        await slices.after_item()
    found = [base for _, _, base in sorted(by_name)]
    if sort != "name" and sort in COLUMNS:
        read = (TOPIC if topics else QUEUE).readers.get(COLUMNS[sort], _nothing)
        values: list[float] = []
        for base in found:
            value = read(Managed(context, base))
            values.append(value if isinstance(value, int | float) else 0)
            await slices.after_item()
        order = sorted(range(len(found)), key=lambda index: values[index], reverse=descending)
        found = [found[index] for index in order]
    elif descending:
        found.reverse()
    page = page_of(found, number, size)
    rows = [view_of(context, each) for each in page.items]
    return Page(rows, page.number, page.first, page.has_next, page.total)


_FULLEST: Final = 10


async def fullest_queues(context: ManagementContext) -> list[DestinationView]:
    """Return the queues with the most messages, at most 10. Cancellable."""
    slices = Slices(items=1000)
    found: list[tuple[int, str, RegionDestination]] = []
    for name, entry in context.destinations().items():
        if not name.is_topic and _is_plain(name) and entry.base.statistics.messages:
            found.append((-entry.base.statistics.messages, name.physical_name, entry.base))
        await slices.after_item()
    return [view_of(context, base) for _, _, base in nsmallest(_FULLEST, found)]


def dead_letter_queues(context: ManagementContext) -> list[DestinationView]:
    """Return the dead-letter queues, those with the most messages first."""
    found = [e.base for e in context.destinations().values() if is_dead_letter_queue(e.base)]
    found.sort(key=lambda base: (-base.statistics.messages, base.destination.physical_name))
    return [view_of(context, base) for base in found]


def find_destination(context: ManagementContext, kind: str, name: str) -> RegionDestination | None:
    """Return a permanent queue or topic or, if there is none, a temporary one."""
    every = context.destinations()
    for written in (Topic, TemporaryTopic) if kind == "topic" else (Queue, TemporaryQueue):
        found = every.get(written(name))
        if found is not None:
            return found.base
    return None


_COMPLETED: Final = 30


async def names_with(context: ManagementContext, text: str, *, topics: bool) -> list[str]:
    """Return at most 30 names with `text` in them, those that begin with it first. Cancellable."""
    wanted = text.lower()
    slices = Slices(items=1000)
    found: list[tuple[bool, str]] = []
    for name in context.destinations():
        if name.is_topic == topics and _is_plain(name) and wanted in name.physical_name.lower():
            found.append((not name.physical_name.lower().startswith(wanted), name.physical_name))
        await slices.after_item()
    return [name for _, name in nsmallest(_COMPLETED, found)]


def destination_view(management: Management, kind: str, name: str) -> DestinationView:
    """Return the view of a queue or topic, or raise InvalidDestinationException."""
    found = find_destination(management.context, kind, name)
    if found is None:
        page = "topics" if kind == "topic" else "queues"
        raise InvalidDestinationException(
            f"There is no {kind} {name[:200]!r}",
            hint=f"it may have been deleted; create it on the page {page}",
        )
    return view_of(management.context, found)
