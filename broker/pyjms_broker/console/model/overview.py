"""What the operator looks for: findings with a remedy, kept journal files, and search results.

Every finding describes the current state, with its reason. There is no history and no guess.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, Final
from urllib.parse import urlencode

from pyjms_broker.console.model.destinations import (
    DestinationView,
    is_dead_letter_queue,
    is_paused,
    view_of,
)
from pyjms_broker.console.model.messages import MessageRow, Scan
from pyjms_broker.management.diagnosis import is_slow, warnings
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.views.clients import clients
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.queue import Queue

MOST: Final = 200
"""The maximum number of listed findings."""
_NEARLY_FULL: Final = 90


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding.

    Args:
        serious: whether clients are affected now.
        kind: a short description.
        where: the destination, client or store.
        why: the state that was found, with numbers.
        hint: the remedy.
        link: the page for the remedy, relative to the console.
    """

    serious: bool
    kind: str
    where: str
    why: str
    hint: str
    link: str


async def problems(context: ManagementContext) -> list[Problem]:
    """Return at most `MOST` findings, serious ones first. Cancellable."""
    waiting = await _waiting(context)
    every = chain(
        _usage(context),
        _blocked_clients(context),
        _networks(context),
        waiting,
        _subscriptions(context),
        _destinations(context),
    )
    found = list(islice(every, 10 * MOST))
    return sorted(found, key=lambda p: not p.serious)[:MOST]


def _usage(context: ManagementContext) -> Iterator[Problem]:
    usage = context.host.system_usage
    for name, of, limit, full in (
        ("Memory", usage.memory, "memory_limit", "senders wait until consumers acknowledge"),
        ("Store", usage.store, "store_limit", "senders of persistent messages wait"),
        ("Temp store", usage.temp, "temp_limit", "non-persistent messages cannot be paged out"),
        ("Job store", usage.job_scheduler, "job_scheduler_limit", "no message can be scheduled"),
    ):
        percent = of.percent
        if percent >= _NEARLY_FULL:
            yield Problem(
                percent >= 100,
                f"{name} {'full' if percent >= 100 else 'nearly full'}",
                name,
                f"{percent} % of {of.limit:,} bytes are used"
                + (f": {full}" if percent >= 100 else ""),
                f"consume or purge messages, or raise {limit} in broker.yaml",
                "queues?sort=pending&descending=1",
            )


def _blocked_clients(context: ManagementContext) -> Iterator[Problem]:
    for client in clients(context):
        waiting = len(client.state.context.blocked_sends)
        name = client.state.context.client_id or ""
        if waiting:
            address = client.transport.remote_address
            yield Problem(
                True,
                "Blocked producer",
                name,
                f"{waiting} send{'s wait' if waiting > 1 else ' waits'} for space ({address})",
                "let consumers catch up, or raise the limit of the memory or of the destination",
                "connections",
            )


def _networks(context: ManagementContext) -> Iterator[Problem]:
    for connector in context.host.networks.connectors:
        for remote, reason in connector.missing_bridges:
            yield Problem(
                True,
                "No bridge",
                connector.name,
                f"there is none to {remote}: {reason}",
                "start the remote broker, or correct its address, user or password; messages for"
                " its consumers wait here",
                "connections",
            )


async def _waiting(context: ManagementContext) -> list[Problem]:
    found, left = await warnings(context)
    result = [
        Problem(
            True,
            each.title,
            destination.physical_name,
            each.text,
            each.hint,
            f"why?{urlencode({'name': destination.physical_name})}",
        )
        for destination, each in found
    ]
    if left:
        result.append(
            Problem(
                False,
                "More queues whose messages wait",
                f"{left:,} queues",
                "only the first of them were looked at",
                "see their pages",
                "queues?sort=pending&descending=1",
            )
        )
    return result


def _subscriptions(context: ManagementContext) -> Iterator[Problem]:
    for each in context.region.subscriptions.all():
        if isinstance(each, DurableTopicSubscription) and not each.is_active:
            if each.pending_count:
                yield Problem(
                    False,
                    "Offline subscription with messages",
                    f"{each.key.client_id} / {each.key.subscription_name}",
                    f"{each.pending_count:,} messages of {each.requested.physical_name} are kept"
                    " for it, and it has no consumer",
                    "start its consumer, or delete the subscription",
                    "subscribers",
                )
        elif each.requested.is_topic and is_slow(each):
            name = each.requested.physical_name
            yield Problem(
                True,
                "Slow consumer",
                f"{each.context.client_id or 'NOTSET'} on topic {name}",
                f"it has {each.in_flight:,} unacknowledged messages of a prefetch of"
                f" {each.prefetch_size:,}, and {each.pending_count:,} wait for it",
                "check whether it is stuck, add consumers, or lower its prefetch",
                f"topic?{urlencode({'name': name})}",
            )


def _destinations(context: ManagementContext) -> Iterator[Problem]:
    for destination, entry in context.destinations().items():
        messages = entry.base.statistics.messages
        if not messages:
            continue
        name = destination.physical_name
        page = f"queue?{urlencode({'name': name})}"
        count = f"{messages:,} message{'' if messages == 1 else 's'}"
        if is_dead_letter_queue(entry.base):
            yield Problem(
                False,
                "Dead letters",
                name,
                f"it has {count} that no consumer could process",
                "see their reasons; retry, move or delete them",
                f"dead-letters?{urlencode({'queue': name})}",
            )
        elif is_paused(entry.base):
            yield Problem(
                True,
                "Paused queue with messages",
                name,
                f"it has {count}, and nothing is dispatched",
                "resume it",
                page,
            )
        elif not entry.base.statistics.consumers and destination.is_queue:
            yield Problem(
                False,
                "Nobody listens",
                name,
                f"it has {count} and no consumer",
                "start a consumer, or move or purge the messages",
                page,
            )


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


async def search(context: ManagementContext, text: str, selector: str = "") -> Found:
    """Find objects by a text in their names, and messages by a selector. Cancellable.

    The text is part of a name, ignoring case, or a whole message id or correlation id. With a
    selector, which applies to messages, it is part of the queue's name.

    Raises:
        InvalidSelectorException: the selector is not valid.
    """
    found = Found()
    wanted = text.lower()
    if wanted:
        _find_names(context, wanted, found)
    if selector or text:
        await _find_messages(context, text, selector, found)
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
    context: ManagementContext, text: str, selector: str, found: Found
) -> None:
    scan = Scan(context, selector)
    for name, entry in list(context.destinations().items()):
        queue = entry.base
        if not isinstance(queue, Queue) or queue.disposed:
            continue
        if selector and text.lower() not in name.physical_name.lower():
            continue
        async for reference in scan.of(queue):
            ids = (str(reference.message_id), reference.message.correlation_id)
            if selector or text in ids:
                found.messages.append((name.physical_name, MessageRow(reference)))
            if len(found.messages) >= _MOST:
                found.complete = False
                return
        if not scan.complete:
            found.complete = False
            return
