"""What the operator looks for: kept journal files, and search results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyjms_broker.api.message import MessageReference
from pyjms_broker.console.model.destinations import DestinationView, view_of
from pyjms_broker.console.model.messages import MessageRow, Scan
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.views.clients import clients
from pyjms_broker.region.queue import Queue

_MOST: Final = 50


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """A journal file that is kept, with the reasons."""

    name: str
    reasons: tuple[str, ...]
    keepers: Sequence[Any]
    """The destinations whose messages keep it (`pyjms_broker.store.kahadb`)."""


def kept_segments(context: ManagementContext) -> list[SegmentRow] | None:
    """Return the oldest journal files with the reasons; None if the store has no journal."""
    store: object = context.host.system_usage.store.store
    one: Callable[[], Sequence[Any]] | None = getattr(store, "segment_report", None)
    if one is not None:
        reports = {"": one()}
    else:  # mKahaDB: a store for each filter or destination
        several: Callable[[], dict[str, Sequence[Any]]] | None = getattr(
            store, "segment_reports", None
        )
        if several is None:
            return None
        reports = {f"{folder}/": each for folder, each in several().items()}
    kept = [
        (folder, each) for folder, found in sorted(reports.items()) for each in found if each.needed
    ]
    kept.sort(key=lambda each: each[1].current)  # files being written come last
    return [
        SegmentRow(f"{folder}db-{each.file_id}.log", tuple(_reasons(each)), each.keepers)
        for folder, each in kept[:_MOST]
    ]


def _reasons(report: Any) -> Iterator[str]:
    if report.current:
        yield "it is being written"
    if report.messages:
        yield f"{report.messages:,} messages in it have not been consumed"
    for name in report.subscriptions[:5]:
        yield f"it has the record of the durable subscription {name}"
    if report.transactions:
        yield "a transaction that is still open began in it"
    for other in report.refers_to[:5]:
        yield f"it has the acknowledgements of messages in db-{other}.log"


@dataclass(slots=True)
class Found:
    """The results of a search, at most 50 of each kind.

    `complete` is whether all messages were examined.
    """

    destinations: list[DestinationView] = field(default_factory=list)
    connections: list[tuple[str, str]] = field(default_factory=list)
    """Client id and connection id."""
    subscriptions: list[tuple[str, str, str]] = field(default_factory=list)
    """Client id, subscription name and topic."""
    messages: list[tuple[str, MessageRow]] = field(default_factory=list)
    """Queue and message."""
    complete: bool = True


async def search(
    context: ManagementContext, text: str, selector: str = "", body: str = ""
) -> Found:
    """Find objects by a text in their names, and messages. Cancellable.

    The text is part of a name, ignoring case, a whole message id or correlation id, or part of a
    body. With a selector or a text for bodies, which apply to messages, it is part of the queue's
    name.
    """
    found = Found()
    wanted = text.lower()
    if wanted:
        _find_names(context, wanted, found)
    if selector or body:
        scan = Scan(context, selector, body)
        await _find_messages(context, scan, found, wanted, lambda _: True)
    elif text:
        bodies = Scan(context, None, text)

        def has(reference: MessageReference) -> bool:
            ids = (str(reference.message_id), reference.message.correlation_id)
            return text in ids or bodies.has_text(reference)

        scan = Scan(context, None)
        await _find_messages(context, scan, found, "", has)
        found.complete = found.complete and bodies.complete
    return found


def _find_names(context: ManagementContext, wanted: str, found: Found) -> None:
    for name, entry in context.destinations().items():
        if wanted in name.physical_name.lower() and len(found.destinations) < _MOST:
            found.destinations.append(view_of(context, entry.base))
    found.destinations.sort(key=lambda view: view.destination.physical_name)
    for client in clients(context):
        known = client.state.context
        client_id = known.client_id or ""
        texts = (client_id, known.user_name or "", client.transport.remote_address)
        if any(wanted in each.lower() for each in texts) and len(found.connections) < _MOST:
            found.connections.append((client_id, str(client.state.info.connection_id)))
    for each in context.region.subscriptions.all():
        key = getattr(each, "durable_key", None)
        if key is not None and len(found.subscriptions) < _MOST:
            owner, subscription = key
            if wanted in owner.lower() or wanted in subscription.lower():
                topic = each.requested.physical_name
                found.subscriptions.append((owner, subscription, topic))


async def _find_messages(
    context: ManagementContext,
    scan: Scan,
    found: Found,
    queue_part: str,
    has: Callable[[MessageReference], bool],
) -> None:
    for name, entry in list(context.destinations().items()):
        queue = entry.base
        if not isinstance(queue, Queue) or queue.disposed:
            continue
        if queue_part not in name.physical_name.lower():
            continue
        async for reference in scan.of(queue):
            if has(reference):
                found.messages.append((name.physical_name, MessageRow(reference)))
            if len(found.messages) >= _MOST:
                found.complete = False
                return
        if not scan.complete:
            found.complete = False
            return
