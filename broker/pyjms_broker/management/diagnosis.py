"""Why is nothing delivered from a queue, to a consumer, or of a message?

The command `why`, the console's pages, its warnings and Jolokia's operations `why` all show what
this module finds by the table of `causes`. A cause is found in the broker's state alone: nothing is
recorded for it while messages flow. Messages are looked at in slices, so that the loop is not held.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from itertools import islice
from typing import Final, NamedTuple

from pyjms.errors import InvalidDestinationException
from pyjms.jms.destination import Destination
from pyjms.runtime import clock as _clock
from pyjms.runtime.slices import Slices
from pyjms.wire.openwire.commands import MessageId, ProducerId
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.management.causes import Finding, findings_of, many, refusals, time_text
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.management.situation import MOST_CONSUMERS, Situation, is_stalled, name_of
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.queue import Queue

_MOST_EXAMINED: Final = 1000
"""The maximum number of waiting messages that are looked at."""
_QUOTED: Final = 200


class Diagnosis(NamedTuple):
    """What was found about a queue, a consumer or a message."""

    subject: str
    """What it is about, as in `queue orders`."""
    state: str
    findings: tuple[Finding, ...]

    def as_item(self) -> dict[str, object]:
        """Return it for Jolokia."""
        keys = ("cause", "title", "text", "hint", "consumer", "serious")
        rows = [dict(zip(keys, each, strict=True)) for each in self.findings]
        return {"subject": self.subject, "state": self.state, "findings": rows}


async def diagnose(tree: ManagementContext, name: str) -> Diagnosis:
    """Return why nothing is delivered from a queue, to a consumer, or of a message. Cancellable."""
    kind, _, bare = name.rpartition("://")
    for destination, entry in tree.destinations().items():
        is_named = destination.physical_name == bare and destination.PREFIX.startswith(kind)
        if is_named and isinstance(entry.base, BaseDestination):
            return await diagnose_destination(tree, entry.base)
    slices = Slices()
    for subscription in tree.region.subscriptions.all():
        if name in _names_of(subscription):
            return await diagnose_consumer(tree, subscription)
        await slices.after_item()
    async for queue, reference in _find_message(tree, name, slices):
        return await diagnose_message(tree, queue, reference)
    raise InvalidDestinationException(
        f"There is no queue, consumer or message {name[:_QUOTED]!r}",
        hint="a message may have been consumed or have expired meanwhile; `pyjms broker dstat` and"
        " `query` list queues and consumers",
    )


def _names_of(subscription: Subscription) -> tuple[str, ...]:
    if isinstance(subscription, DurableTopicSubscription):
        key = subscription.key
        return f"{key.client_id}:{key.subscription_name}", str(subscription.consumer_id)
    return (str(subscription.consumer_id),)


_ID: Final = re.compile(r"(ID:.{1,200}):(-?\d{1,19}):(-?\d{1,19}):(\d{1,19})", re.ASCII)


def _message_id(text: str) -> MessageId:
    parts = _ID.fullmatch(text)
    if parts is None:
        return MessageId(text)
    producer = ProducerId(parts[1], int(parts[3]), int(parts[2]))
    return MessageId(None, producer, int(parts[4]))


async def _find_message(
    tree: ManagementContext, text: str, slices: Slices
) -> AsyncIterator[tuple[Queue, MessageReference]]:
    wanted = _message_id(text)
    for entry in tuple(tree.destinations().values()):
        queue = entry.base
        if not isinstance(queue, Queue) or queue.disposed:
            continue
        for reference in tuple(queue.references):
            if str(reference.message_id) == text:
                yield queue, reference
            await slices.after_item()
        found = queue.contents.find_paged_out(wanted) if queue.contents.paged_out_count else None
        if found is not None:
            yield queue, found


async def diagnose_destination(tree: ManagementContext, destination: BaseDestination) -> Diagnosis:
    """Return why nothing is delivered from a queue or topic. Cancellable."""
    situation = Situation(tree, destination)
    await situation.look(_MOST_EXAMINED)
    word = "topic" if destination.destination.is_topic else "queue"
    subject = f"{word} {destination.destination.physical_name}"
    if situation.queue is None:
        state = many(destination.statistics.consumers, "consumer")
    else:
        state = _state(situation.queue)
    return Diagnosis(subject, state, findings_of(situation))


def _state(queue: Queue) -> str:
    in_flight, arrival = queue.statistics.inflight, queue.oldest_arrival()
    age = f", the oldest for {time_text((_clock.time_ms() - arrival) / 1000)}" if arrival else ""
    return (
        f"{many(queue.dispatcher.pending_count, 'message', 'wait')}, {in_flight:,}"
        f" {'is' if in_flight == 1 else 'are'} in flight{age};"
        f" {many(queue.statistics.consumers, 'consumer')}"
    )


async def diagnose_consumer(tree: ManagementContext, subscription: Subscription) -> Diagnosis:
    """Return why a consumer gets nothing. Cancellable."""
    bases = [each.base for each in subscription.destinations]
    found = [each for each in bases if isinstance(each, BaseDestination)]
    findings: dict[Finding, None] = {}
    state = f"{subscription.in_flight:,} in flight, {subscription.dequeue_count:,} acknowledged"
    looked_at: list[BaseDestination | None] = [*found[:MOST_CONSUMERS]]
    for destination in looked_at or [None]:
        situation = Situation(tree, destination)
        situation.chosen = subscription
        await situation.look(_MOST_EXAMINED)
        findings.update(dict.fromkeys(findings_of(situation)))
        if destination is not None:
            state += f"; {destination.destination.physical_name}: "
            state += many(situation.waiting, "message", "wait")
    return Diagnosis(name_of(subscription), state, tuple(findings))


async def diagnose_message(
    tree: ManagementContext, queue: Queue, reference: MessageReference
) -> Diagnosis:
    """Return why a message is not delivered. Cancellable."""
    situation = Situation(tree, queue)
    situation.message = reference
    await situation.look(1)
    subject = f"message {reference.message_id} in queue {queue.destination.physical_name}"
    return Diagnosis(subject, _state(queue), findings_of(situation))


_FEW: Final = 100
"""The number of waiting messages that are looked at for a warning."""
_MOST_WARNED: Final = 50
"""The maximum number of queues that are looked at for warnings."""


def _may_be_stuck(queue: Queue) -> bool:
    """Return quickly whether a diagnosis of a queue whose messages wait is worth its time."""
    dispatcher = queue.dispatcher
    if dispatcher.is_paused:
        return False
    if dispatcher.is_delayed or dispatcher.ring.ready:
        return True
    return any(is_stalled(each) for each in islice(dispatcher.ring.candidates, MOST_CONSUMERS))


_SEPARATE: Final = frozenset({"paused", "no_consumer", "bridge", "full"})
"""Causes that are warnings of their own, found without looking at messages."""


async def warnings(tree: ManagementContext) -> tuple[list[tuple[Destination, Finding]], int]:
    """Return what keeps messages of queues with consumers waiting. Cancellable.

    The number is of the queues that were not looked at, because others came first.
    """
    found: list[tuple[Destination, Finding]] = []
    slices = Slices()
    looked = left = 0
    refused = {each.what for each in refusals(tree)}
    for destination, entry in tree.destinations().items():
        queue = entry.base
        if not isinstance(queue, Queue) or not queue.dispatcher.pending_count:
            continue
        if _may_be_stuck(queue) or destination.qualified_name in refused:
            if looked >= _MOST_WARNED:
                left += 1
                continue
            looked += 1
            situation = Situation(tree, queue)
            await situation.look(_FEW)
            findings = findings_of(situation, _SEPARATE)
            found += [(destination, each) for each in findings if each.is_serious]
        await slices.after_item()
    return found, left
