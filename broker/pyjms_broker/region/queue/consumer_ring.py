"""The consumers of a queue in the order in which they are asked. (activemq-broker Q5 to Q7)

Only those with room are in `ready`; a message costs the same whether the others are one
or a thousand. Who took a message goes behind its equals.
"""

from __future__ import annotations

from bisect import insort
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyjms_broker.api.subscription import Subscription
    from pyjms_broker.region.queue.subscription import QueueSubscription

__all__ = ["Candidate", "ConsumerRing"]

_order = attrgetter("order")


class Candidate:
    """One consumer's place in one queue."""

    __slots__ = ("assigned_groups", "order", "ready", "reported_slow", "stamp", "subscription")

    def __init__(self, subscription: QueueSubscription, stamp: int) -> None:
        self.subscription = subscription
        self.stamp = stamp
        self.assigned_groups = 0
        self.ready = False
        self.reported_slow = False
        self.order: tuple[int, int, int] = (0, 0, 0)


class ConsumerRing:
    """All candidates, and the ready ones in the order in which they are asked.

    That is by priority, then fewest groups, then longest without a message.
    """

    def __init__(self, use_priority: bool, rotates: bool) -> None:
        self.use_priority = use_priority
        self.rotates = rotates
        self.candidates: dict[Subscription, Candidate] = {}
        self.ready: list[Candidate] = []
        self._stamp = 0

    def __len__(self) -> int:
        return len(self.candidates)

    def add(self, subscription: QueueSubscription) -> Candidate:
        """Take a consumer in, behind its equals; ready if it has room."""
        self._stamp += 1
        candidate = Candidate(subscription, self._stamp)
        self.candidates[subscription] = candidate
        if not subscription.is_full():
            self.put_ready(candidate)
        return candidate

    def remove(self, subscription: Subscription) -> Candidate | None:
        """Take a consumer out; return its place, None if it had none."""
        candidate = self.candidates.pop(subscription, None)
        if candidate is not None and candidate.ready:
            self.ready.remove(candidate)
            candidate.ready = False
        return candidate

    def put_ready(self, candidate: Candidate) -> None:
        """Say that a consumer has room."""
        candidate.ready = True
        candidate.reported_slow = False
        priority = candidate.subscription.info.priority if self.use_priority else 0
        candidate.order = (-priority, candidate.assigned_groups, candidate.stamp)
        ready = self.ready
        if not ready or ready[-1].order <= candidate.order:
            ready.append(candidate)
        else:
            insort(ready, candidate, key=_order)

    def put_full(self, index: int) -> None:
        """Say that the consumer at `index` of `ready` has no room."""
        self.ready.pop(index).ready = False

    def took(self, candidate: Candidate, index: int) -> None:
        """End the turn of a consumer that took a message, last seen at `index` of `ready`."""
        ready = self.ready
        if index >= len(ready) or ready[index] is not candidate:
            if not candidate.ready:
                return
            index = ready.index(candidate)
        is_full = candidate.subscription.is_full()
        if not self.rotates or len(self.candidates) == 1:
            if is_full:
                self.put_full(index)
            return
        self.put_full(index)
        self._stamp += 1
        candidate.stamp = self._stamp
        if not is_full:
            self.put_ready(candidate)

    def reorder(self, candidate: Candidate) -> None:
        """Put a ready consumer where it belongs now, after its number of groups changed."""
        if candidate.ready:
            self.ready.remove(candidate)
            self.put_ready(candidate)
