"""Tables of queues and topics: filtered, sorted, page by page.

The numbers are read directly from the destinations' counters: for the page's destinations, and for
all destinations only the column by which the table is sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from pyjms.errors import InvalidDestinationException
from pyjms.jms.destination import ADVISORY_PREFIX, DEFAULT_DEAD_LETTER_QUEUE, Destination
from pyjms_broker.api.destination import DestinationStatistics, RegionDestination
from pyjms_broker.management.counters import DestinationCounters
from pyjms_broker.management.host import Managed, ManagementContext
from pyjms_broker.management.management import Management
from pyjms_broker.management.model import View
from pyjms_broker.management.views.destinations import QUEUE, TOPIC
from pyjms_broker.region.queue import Queue

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationRow(DestinationCounters):
    """A queue or topic with its counters."""

    name: str
    is_topic: bool
    is_temporary: bool
    expired: int
    memory: int
    """The size of its messages in memory, in bytes."""
    paused: bool
    is_dead_letter_queue: bool

    @property
    def kind(self) -> str:
        """Return `topic` or `queue`."""
        return "topic" if self.is_topic else "queue"


_COUNTERS: Final[dict[str, Callable[[DestinationStatistics], int]]] = {
    "pending": lambda s: s.messages,
    "in_flight": lambda s: s.inflight,
    "consumers": lambda s: s.consumers,
    "producers": lambda s: s.producers,
    "enqueued": lambda s: s.enqueues,
    "dequeued": lambda s: s.dequeues,
    "expired": lambda s: s.expired,
}


def _of_destination(
    counter: Callable[[DestinationStatistics], int],
) -> Callable[[RegionDestination], int]:
    return lambda destination: counter(destination.statistics)


_SORTABLE: Final = ("pending", "consumers", "enqueued", "dequeued")
COLUMNS: Final[dict[str, Callable[[RegionDestination], int | str]]] = {
    "name": lambda d: d.destination.physical_name.lower(),
    **{name: _of_destination(_COUNTERS[name]) for name in _SORTABLE},
}
"""The columns by which tables can be sorted."""


def _is_dead_letter_queue(destination: RegionDestination) -> bool:
    if destination.is_dead_letter_queue:
        return True
    name = destination.destination
    return not name.is_topic and name.physical_name.startswith(_DEAD_LETTERS)


def row_of(destination: RegionDestination) -> DestinationRow:
    """Return the row of a destination."""
    counters, name = destination.statistics, destination.destination
    return DestinationRow(
        name=name.physical_name,
        is_topic=name.is_topic,
        is_temporary=name.is_temporary,
        **{column: counter(counters) for column, counter in _COUNTERS.items()},
        memory=destination.memory.used,
        paused=isinstance(destination, Queue) and destination.dispatcher.is_paused,
        is_dead_letter_queue=_is_dead_letter_queue(destination),
    )


def _is_plain(name: Destination) -> bool:
    return not name.is_temporary and not name.physical_name.startswith(ADVISORY_PREFIX)


def destination_page(
    context: ManagementContext,
    *,
    topics: bool,
    text: str = "",
    everything: bool = False,
    sort: str = "name",
    descending: bool = False,
    number: int = 1,
    size: int = 50,
) -> Page[DestinationRow]:
    """Return a page of the queues or topics whose names contain `text`.

    `everything` includes temporary and advisory destinations. `sort` is a key of `COLUMNS`, by
    default the name.
    """
    wanted = text.lower()
    found = [
        entry.base
        for name, entry in context.destinations().items()
        if name.is_topic == topics
        and (everything or _is_plain(name))
        and wanted in name.physical_name.lower()
    ]
    found.sort(key=COLUMNS["name"])
    if sort != "name" and sort in COLUMNS:
        found.sort(key=COLUMNS[sort], reverse=descending)
    elif descending:
        found.reverse()
    page = page_of(found, number, size)
    rows = [row_of(each) for each in page.items]
    return Page(rows, page.number, page.first, page.has_next, page.total)


def dead_letter_queues(context: ManagementContext) -> list[DestinationRow]:
    """Return the dead-letter queues, those with the most messages first."""
    found = (e.base for e in context.destinations().values() if _is_dead_letter_queue(e.base))
    return sorted((row_of(each) for each in found), key=lambda r: (-r.pending, r.name))


def find_destination(
    context: ManagementContext, kind: str, name: str
) -> tuple[Destination, RegionDestination] | None:
    """Return a permanent queue or topic or, if there is none, a temporary one."""
    for destination, entry in context.destinations().items():
        if destination.physical_name == name and destination.is_topic == (kind == "topic"):
            return destination, entry.base
    return None


def destination_view(management: Management, kind: str, name: str) -> View[Any]:
    """Return the view of a queue or topic.

    Raises:
        InvalidDestinationException: there is none.
    """
    found = find_destination(management.context, kind, name)
    if found is None:
        page = "topics" if kind == "topic" else "queues"
        raise InvalidDestinationException(
            f"There is no {kind} {name[:200]!r}",
            hint=f"it may have been deleted; create it on the page {page}",
        )
    destination, base = found
    context = management.context  # not a search, which takes long with many destinations
    name_of_view = context.names.destination(destination)
    return View(name_of_view, TOPIC if destination.is_topic else QUEUE, Managed(context, base))
