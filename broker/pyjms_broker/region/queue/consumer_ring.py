"""The consumers of a queue, in the order in which they are offered messages.

Only those whose window has space are in `ready`, so the cost of a message does not depend on the
number of consumers that are full. A consumer that got a message goes behind its equals.
(activemq-broker Q5 to Q7)
"""

from __future__ import annotations

from bisect import insort
from operator import attrgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyjms_broker.api.subscription import Subscription
    from pyjms_broker.region.subscription.prefetch import PrefetchSubscription

__all__ = ["Candidate", "ConsumerRing"]

_ALWAYS_EXCLUSIVE: Final = 127
"""The priority with which an exclusive consumer replaces any other one."""
_order = attrgetter("order")


class Candidate:
    """The entry of one consumer in the ring of one queue."""

    __slots__ = ("assigned_groups", "order", "ready", "reported_slow", "stamp", "subscription")

    def __init__(self, subscription: PrefetchSubscription, stamp: int) -> None:
        self.subscription = subscription
        self.stamp = stamp
        self.assigned_groups = 0
        self.ready = False
        self.reported_slow = False
        self.order: tuple[int, int, int] = (0, 0, 0)


class ConsumerRing:
    """All consumers of a queue, and the ready ones in the order in which they are tried.

    They are ordered by priority, then by fewest groups, then by longest time without a message.
    """

    def __init__(self, *, use_priority: bool, rotates: bool, all_exclusive: bool) -> None:
        """Create an empty ring.

        Args:
            use_priority: whether consumers of higher priority come first.
            rotates: whether a consumer that got a message goes behind its equals.
            all_exclusive: whether every consumer counts as exclusive.
        """
        self.use_priority = use_priority
        self.rotates = rotates
        self.exclusive: Candidate | None = None
        """The consumer that gets all messages; None if no exclusive consumer is attached.
        (activemq-broker Q16, Q17)"""
        self._rotates_without_exclusive = rotates
        self._all_exclusive = all_exclusive
        self.candidates: dict[Subscription, Candidate] = {}
        self.ready: list[Candidate] = []
        self._stamp = 0

    def __len__(self) -> int:
        return len(self.candidates)

    def add(self, subscription: PrefetchSubscription) -> Candidate:
        """Add a consumer behind its equals; it is ready if its window has space."""
        self._stamp += 1
        candidate = Candidate(subscription, self._stamp)
        self.candidates[subscription] = candidate
        if not subscription.is_full():
            self.add_ready(candidate)
        if self._all_exclusive or subscription.info.exclusive:
            self._claim_exclusive(candidate)
        return candidate

    def remove(self, subscription: Subscription) -> Candidate | None:
        """Remove a consumer and return its entry; None if it had none."""
        candidate = self.candidates.pop(subscription, None)
        if candidate is not None and candidate.ready:
            self.ready.remove(candidate)
            candidate.ready = False
        if candidate is not None and candidate is self.exclusive:
            self._elect_exclusive()
        return candidate

    def _claim_exclusive(self, newcomer: Candidate) -> None:
        holder = self.exclusive
        priority = newcomer.subscription.info.priority
        if (
            holder is None
            or priority > holder.subscription.info.priority
            or priority == _ALWAYS_EXCLUSIVE
        ):
            self.exclusive = newcomer
        self.rotates = False

    def _elect_exclusive(self) -> None:
        candidates = [
            candidate
            for candidate in self.candidates.values()
            if self._all_exclusive or candidate.subscription.info.exclusive
        ]
        self.exclusive = max(
            candidates, key=lambda candidate: candidate.subscription.info.priority, default=None
        )
        self.rotates = self.exclusive is None and self._rotates_without_exclusive

    def add_ready(self, candidate: Candidate) -> None:
        """Add a consumer to `ready`, because its window has space."""
        candidate.ready = True
        candidate.reported_slow = False
        priority = candidate.subscription.info.priority if self.use_priority else 0
        candidate.order = (-priority, candidate.assigned_groups, candidate.stamp)
        ready = self.ready
        if not ready or ready[-1].order <= candidate.order:
            ready.append(candidate)
        else:
            insort(ready, candidate, key=_order)

    def remove_ready(self, index: int) -> None:
        """Remove the consumer at `index` from `ready`, because its window is full."""
        self.ready.pop(index).ready = False

    def rotate(self, candidate: Candidate, index: int) -> None:
        """Move a consumer that got a message behind its equals; it was at `index` of `ready`.

        The dispatch may have changed `ready` meanwhile.
        """
        ready = self.ready
        if index >= len(ready) or ready[index] is not candidate:
            if not candidate.ready:
                return
            index = ready.index(candidate)
        is_full = candidate.subscription.is_full()
        if not self.rotates or len(self.candidates) == 1:
            if is_full:
                self.remove_ready(index)
            return
        self.remove_ready(index)
        self._stamp += 1
        candidate.stamp = self._stamp
        if not is_full:
            self.add_ready(candidate)

    def reorder(self, candidate: Candidate) -> None:
        """Move a ready consumer to its new position after its number of groups has changed."""
        if candidate.ready:
            self.ready.remove(candidate)
            self.add_ready(candidate)
