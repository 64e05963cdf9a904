"""Findings for the operator, each with its reason and a remedy.

Every finding describes the current state. There is no history and no guess.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final
from urllib.parse import urlencode

from pyjms_broker.console.model.destinations import DestinationRow, row_of
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.views.clients import clients
from pyjms_broker.region.topic.durable_subscription import DurableTopicSubscription

__all__ = ["MOST", "Problem", "problems"]

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


def problems(context: ManagementContext) -> list[Problem]:
    """Return at most `MOST` findings, serious ones first."""
    every = (
        *_usage(context),
        *_blocked(context),
        *_networks(context),
        *_subscriptions(context),
        *_destinations(context),
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


def _blocked(context: ManagementContext) -> Iterator[Problem]:
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
        elif each.is_slow:
            kind = "topic" if each.requested.is_topic else "queue"
            name = each.requested.physical_name
            yield Problem(
                True,
                "Slow consumer",
                f"{each.context.client_id or 'NOTSET'} on {kind} {name}",
                f"it has {each.in_flight:,} unacknowledged messages of a prefetch of"
                f" {each.prefetch_size:,}, and {each.pending_count:,} wait for it",
                "check whether it is stuck, add consumers, or lower its prefetch",
                f"{kind}?{urlencode({'name': name})}",
            )


def _destinations(context: ManagementContext) -> Iterator[Problem]:
    for entry in context.destinations().values():
        if not entry.base.statistics.messages:
            continue
        row = row_of(entry.base)
        found = _of_queue(row)
        if found is not None:
            yield found


def _of_queue(row: DestinationRow) -> Problem | None:
    page = f"queue?{urlencode({'name': row.name})}"
    count = f"{row.pending:,} message{'' if row.pending == 1 else 's'}"
    if row.is_dead_letter_queue:
        return Problem(
            False,
            "Dead letters",
            row.name,
            f"it has {count} that no consumer could process",
            "see their reasons; retry, move or delete them",
            f"dead-letters?{urlencode({'queue': row.name})}",
        )
    if row.paused:
        return Problem(
            True,
            "Paused queue with messages",
            row.name,
            f"it has {count}, and nothing is dispatched",
            "resume it",
            page,
        )
    if not row.consumers and not row.is_topic:
        return Problem(
            False,
            "Nobody listens",
            row.name,
            f"it has {count} and no consumer",
            "start a consumer, or move or purge the messages",
            page,
        )
    return None
