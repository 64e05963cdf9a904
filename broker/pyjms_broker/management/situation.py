"""What a diagnosis looks at: a queue, a consumer or a message, and the messages that wait.

The broker sees neither whether a client's connection was started nor whether its application
receives: OpenWire tells neither. A consumer that has acknowledged nothing yet may be either.
(activemq-edges 7)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import SequenceMatcher
from itertools import islice
from typing import Final

from pyjms.runtime import clock as _clock
from pyjms.runtime.slices import Slices
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.management.host import ManagementContext
from pyjms_broker.policy.slow_consumers import AbortSlowAckConsumerAttributes
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.queue import Queue
from pyjms_broker.region.subscription import PrefetchSubscription, QueueSubscription

_MOST_READ: Final = 20_000
"""The maximum number of messages that are read to find the waiting ones."""
_LONGEST: Final = 1.0
"""The maximum time in seconds that selectors are evaluated for a diagnosis."""
MOST_CONSUMERS: Final = 20
"""The maximum number of consumers of a queue that a finding is about."""
STALLED: Final = AbortSlowAckConsumerAttributes().max_time_since_last_ack
"""Seconds without an acknowledgement after which a consumer no longer counts as working."""


class Situation:
    """What the causes look at: a queue or a subscription of a topic, and its waiting messages."""

    def __init__(self, tree: ManagementContext, destination: BaseDestination | None) -> None:
        self.tree = tree
        self.destination = destination
        self.queue = destination if isinstance(destination, Queue) else None
        self.chosen: Subscription | None = None
        """The consumer that was asked for; None: a queue or a message."""
        self.message: MessageReference | None = None
        """The message that was asked for."""
        self.waiting = 0
        """The number of waiting messages."""
        self.sample: list[MessageReference] = []
        """The first waiting messages, of which the first `examined` were looked at."""
        self.examined = 0
        self.unwanted = 0
        """The number of messages looked at that no consumer wants."""
        self.first_wanted: dict[Subscription, int | None] = {}
        """For each consumer, the index of the first message that it wants."""
        self.similar: Queue | None = None
        """The queue of a similar name that has what this one lacks: consumers or messages."""

    @property
    def consumers(self) -> list[QueueSubscription]:
        """The consumers of the queue, without browsers."""
        if self.queue is None:
            return []
        return [
            c for c in self.queue.dispatcher.ring.candidates if isinstance(c, QueueSubscription)
        ]

    @property
    def asked(self) -> list[Subscription]:
        """The consumers that a finding may be about."""
        return (
            list(islice(self.consumers, MOST_CONSUMERS)) if self.chosen is None else [self.chosen]
        )

    async def look(self, most: int) -> None:
        """Read the first waiting messages of the queue, and ask which consumers want them."""
        queue = self.queue
        if queue is None:
            self.waiting = 0 if self.chosen is None else self.chosen.pending_count
            return
        self.waiting = queue.dispatcher.pending_count
        slices = Slices()
        if self.message is not None:
            self.sample = [self.message] if self.message.owner is None else []
        elif self.waiting:
            for reference in islice(queue.messages(), _MOST_READ):
                if reference.owner is None and not (reference.dropped or reference.acked):
                    self.sample.append(reference)
                    if len(self.sample) >= most:
                        break
                await slices.after_item()
        consumers = self.consumers if self.chosen is None else [self.chosen]
        await self._compare(list(islice(consumers, 10 * MOST_CONSUMERS)), slices)
        if self.chosen is not None or self.message is not None:
            return
        if self.waiting and not self.consumers:
            self.similar = await _similar_queue(self.tree, queue, _has_consumer)
        elif not self.waiting and not queue.statistics.inflight:
            self.similar = await _similar_queue(self.tree, queue, _is_left_alone)

    async def _compare(self, consumers: list[Subscription], slices: Slices) -> None:
        alike: dict[object, list[PrefetchSubscription]] = {}
        for each in consumers:
            if isinstance(each, PrefetchSubscription):
                alike.setdefault(wish_of(each), []).append(each)
        found: dict[object, int] = {}
        end = _clock.stopwatch() + _LONGEST
        for index, reference in enumerate(self.sample):
            is_wanted = False
            for wish, (first, *_) in alike.items():
                if is_wanted and wish in found:
                    continue
                if not first.refusal_of(reference):
                    is_wanted = True
                    found.setdefault(wish, index)
                await slices.after_item()
            self.examined = index + 1
            self.unwanted += not is_wanted
            if _clock.stopwatch() > end:
                break
        for wish, members in alike.items():
            self.first_wanted.update(dict.fromkeys(members, found.get(wish)))


def _has_consumer(queue: Queue) -> bool:
    return any(isinstance(each, QueueSubscription) for each in queue.dispatcher.ring.candidates)


def _is_left_alone(queue: Queue) -> bool:
    """Return whether a queue has messages and no consumer."""
    return queue.dispatcher.pending_count > 0 and not _has_consumer(queue)


def wish_of(subscription: Subscription) -> object:
    """Return what consumers have in common that want the same messages."""
    info = subscription.info
    own = info.consumer_id if info.no_local or info.additional_predicate is not None else None
    return info.selector or "", own, id(subscription.context.message_policy)


def name_of(subscription: Subscription) -> str:
    """Return the name of a consumer for a finding, with its client."""
    if isinstance(subscription, DurableTopicSubscription):
        key = subscription.key
        return f"durable subscription {key.subscription_name} of client {key.client_id}"
    client = subscription.context.client_id or "without an id"
    return f"consumer {subscription.consumer_id} of client {client}"


def age_of(reference: MessageReference) -> float:
    """Return for how many seconds a message has been dispatched; 0: unknown."""
    out = 0 if reference.cached is None else reference.cached.broker_out_time
    return max(0.0, (_clock.time_ms() - out) / 1000) if out else 0.0


def unacknowledged_for(subscription: Subscription) -> float | None:
    """Return for how many seconds a consumer has acknowledged nothing; None: it works, or unknown.

    No time is kept of each acknowledgement. A window that is full is filled again by each one, so
    that the newest message in it is about as old as the last one. Of a window with space, only
    that nothing was ever acknowledged is known.
    """
    if not subscription.in_flight:
        return None
    since = _clock.now() - subscription.last_ack_time
    if not isinstance(subscription, PrefetchSubscription):
        return since if subscription.dequeue_count == 0 else None
    if subscription.times_acks:
        return since
    in_flight = subscription.dispatched.values()
    if subscription.dequeue_count == 0 and not subscription.prefetch_extension:
        return min(since, age_of(next(iter(in_flight))))
    if len(in_flight) - subscription.prefetch_extension >= subscription.prefetch_size > 0:
        return min(since, age_of(next(reversed(in_flight))))
    return None


def is_stalled(subscription: Subscription) -> bool:
    """Return whether a consumer has messages and has acknowledged none for `STALLED` seconds."""
    since = unacknowledged_for(subscription)
    return since is not None and since >= STALLED


def is_slow(subscription: Subscription) -> bool:
    """Return whether messages wait for a consumer that takes none; one that works is not slow."""
    if isinstance(subscription, PrefetchSubscription) and not is_stalled(subscription):
        return False
    return subscription.is_slow


# The queue whose name is most like another's: a sender and its consumer may differ by a letter.

_MOST_NAMES: Final = 2000
"""The maximum number of destinations whose names are compared."""
_LONGEST_NAME: Final = 255
_CUTOFF: Final = 0.8
_NUMBERS: Final = re.compile(r"\d+")


async def _similar_queue(
    tree: ManagementContext, queue: Queue, is_wanted: Callable[[Queue], bool]
) -> Queue | None:
    """Return the queue among those wanted whose name is most like that of `queue`. Cancellable."""
    name = queue.destination.physical_name
    if queue.destination.is_temporary or len(name) > _LONGEST_NAME:
        return None
    best, nearest = _CUTOFF, None
    slices = Slices()
    matcher = SequenceMatcher(None, "", name.casefold())
    for entry in tuple(islice(tree.destinations().values(), _MOST_NAMES)):
        other = entry.base
        if isinstance(other, Queue) and other is not queue and not other.destination.is_temporary:
            other_name = other.destination.physical_name
            if is_wanted(other) and not _is_meant_to_differ(name, other_name):
                matcher.set_seq1(other_name.casefold())
                if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
                    ratio = matcher.ratio()
                    if ratio > best:
                        best, nearest = ratio, other
        await slices.after_item()
    return nearest


def _is_meant_to_differ(name: str, other: str) -> bool:
    """Return whether names differ by a number or by whole parts: `orders.2`, `DLQ.orders`."""
    if len(other) > _LONGEST_NAME or _NUMBERS.sub("", name) == _NUMBERS.sub("", other):
        return True
    parts, others = set(name.split(".")), set(other.split("."))
    return parts <= others or others <= parts
