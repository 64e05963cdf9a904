"""Assignment of message groups to consumers.

Theory of operation
-------------------

All messages of a group (`JMSXGroupID`) go to one consumer, its owner, in order. The dispatch of the
group's first message determines the owner; the group map only stores it.

    group       sequence number    consumer             effect
    ==========  =================  ===================  =========================================
    no owner    any                the first with space becomes the owner and gets the message
    owned       1                  the first with space becomes the owner and gets the message
    owned       0, or above 1      the owner            gets the message
    owned       negative           the owner            gets the message; the group has no owner
                                                        afterwards
    owned       any but 1          another one          does not get the message

A group also loses its owner when that consumer leaves (`remove_owner`), and when the group map
drops the group: `cached` keeps a limited number of groups, and `bucket` assigns all groups of a
hash bucket to one owner.

Invariants:

- `assigned_groups` of a consumer's entry in the ring is its number of groups. Of consumers with
  equal priority, the one with the fewest groups is tried first, so the ring must be reordered after
  each change. The count may exceed the number of groups in the map if several groups share a
  bucket; it only affects the order.
- A group that loses its owner may make waiting messages dispatchable: `accepts` reports that in
  `is_rescan_due`, which the dispatcher resets.
- `JMSXGroupFirstForConsumer` is set in a copy of the message, because the store and other
  references share the original.

(activemq-broker Q23 to Q28)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms_broker.api.copying import copy_command
from pyjms_broker.region.queue.message_groups import MessageGroupMap

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference
    from pyjms_broker.api.subscription import Subscription
    from pyjms_broker.region.queue.consumer_ring import Candidate, ConsumerRing

__all__ = ["GroupAssignment"]


class GroupAssignment:
    """The owners of one queue's message groups; see the module's docstring."""

    def __init__(self, groups: MessageGroupMap, ring: ConsumerRing) -> None:
        self.groups = groups
        self.is_rescan_due = False
        """Whether a group has lost its owner, so that waiting messages may be dispatched."""
        self._ring = ring

    def remove_owner(self, owner: Subscription) -> None:
        """Release all groups of a consumer that leaves."""
        self.groups.remove_owner(owner)

    def release(self, group_id: str) -> None:
        """Remove the owner of a group, if any. Source: ActiveMQ Queue.removeMessageGroup."""
        self._lost(self.groups.remove(group_id))

    def release_all(self) -> None:
        """Remove the owners of all groups."""
        for owner in dict.fromkeys(self.groups.owners().values()):
            self.groups.remove_owner(owner)
            losing = self._ring.candidates.get(owner)
            if losing is not None:
                losing.assigned_groups = 0
                self._ring.reorder(losing)

    def accepts(self, candidate: Candidate, reference: MessageReference) -> bool:
        """Return whether the message may go to this consumer; if so, it must be dispatched."""
        group_id = reference.group_id
        if group_id is None:
            return True
        sequence = reference.message.group_sequence
        owner = self.groups.get(group_id)
        if sequence == 1 or owner is None:
            self._assign(group_id, candidate, reference)
            return True
        if owner is not candidate.subscription:
            return False
        _set_first_for_consumer(reference, is_first=False)
        if sequence < 0:
            self.groups.remove(group_id)
            candidate.assigned_groups -= 1
            self._ring.reorder(candidate)
            self.is_rescan_due = True
        return True

    def _assign(self, group_id: str, candidate: Candidate, reference: MessageReference) -> None:
        loser = self.groups.put(group_id, candidate.subscription)
        candidate.assigned_groups += 1
        self._lost(loser)
        _set_first_for_consumer(reference, is_first=True)

    def _lost(self, owner: Subscription | None) -> None:
        """Decrease the group count of a consumer, if it is still one of the queue's."""
        losing = None if owner is None else self._ring.candidates.get(owner)
        if losing is not None:
            losing.assigned_groups -= 1
            self._ring.reorder(losing)


def _set_first_for_consumer(reference: MessageReference, is_first: bool) -> None:
    if reference.message.jms_xgroup_first_for_consumer != is_first:
        reference.message = copy_command(reference.message)
        reference.message.jms_xgroup_first_for_consumer = is_first
