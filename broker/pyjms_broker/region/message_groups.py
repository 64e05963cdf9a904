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

import zlib
from collections import OrderedDict
from typing import TYPE_CHECKING

from pyjms_broker.api.message import MessageReference, copy_command
from pyjms_broker.api.subscription import Subscription

if TYPE_CHECKING:
    from pyjms_broker.region.queue import Candidate, ConsumerRing


class SimpleMessageGroupMap:
    """The owners of all groups, without a limit. Source: ActiveMQ MessageGroupMap."""

    def __init__(self) -> None:
        self._owners: dict[str, Subscription] = {}

    def get(self, group_id: str) -> Subscription | None:
        """Return the owner of a group; None if it has none."""
        return self._owners.get(group_id)

    def put(self, group_id: str, owner: Subscription) -> Subscription | None:
        """Set the owner of a group; return the consumer that thereby loses a group, if any."""
        previous = self._owners.get(group_id)
        self._owners[group_id] = owner
        return previous

    def remove(self, group_id: str) -> Subscription | None:
        """Remove the owner of a group and return it."""
        return self._owners.pop(group_id, None)

    def remove_owner(self, owner: Subscription) -> int:
        """Release all groups of a consumer and return their number."""
        groups = [group for group, other in self._owners.items() if other is owner]
        for group in groups:
            del self._owners[group]
        return len(groups)

    def owners(self) -> dict[str, Subscription]:
        """Return the owners by group name, for the groups whose names are known."""
        return dict(self._owners)


class CachedMessageGroupMap(SimpleMessageGroupMap):
    """A map of the `cache_size` most recently used groups; others lose their owners."""

    def __init__(self, cache_size: int = 1024) -> None:
        super().__init__()
        self.cache_size = cache_size
        recent: OrderedDict[str, Subscription] = OrderedDict()
        self._owners = self._recent = recent

    def get(self, group_id: str) -> Subscription | None:
        owner = self._owners.get(group_id)
        if owner is not None:
            self._recent.move_to_end(group_id)
        return owner

    def put(self, group_id: str, owner: Subscription) -> Subscription | None:
        previous = self._owners.get(group_id)
        self._owners[group_id] = owner
        self._recent.move_to_end(group_id)
        if len(self._owners) > self.cache_size:
            return self._recent.popitem(last=False)[1]
        return previous


class BucketMessageGroupMap(SimpleMessageGroupMap):
    """A map of `bucket_count` hash buckets; all groups of a bucket have one owner.

    The names of the `cache_size` most recent groups are stored for `owners`.
    """

    def __init__(self, bucket_count: int = 1024, cache_size: int = 64) -> None:
        super().__init__()
        self.bucket_count = bucket_count
        self.cache_size = cache_size
        self._names: OrderedDict[str, None] = OrderedDict()

    def _bucket(self, group_id: str) -> str:
        return str(zlib.crc32(group_id.encode(errors="surrogatepass")) % self.bucket_count)

    def get(self, group_id: str) -> Subscription | None:
        return super().get(self._bucket(group_id))

    def put(self, group_id: str, owner: Subscription) -> Subscription | None:
        self._names[group_id] = None
        self._names.move_to_end(group_id)
        if len(self._names) > self.cache_size:
            self._names.popitem(last=False)
        return super().put(self._bucket(group_id), owner)

    def remove(self, group_id: str) -> Subscription | None:
        return super().remove(self._bucket(group_id))

    def owners(self) -> dict[str, Subscription]:
        known = [(name, self.get(name)) for name in self._names]
        return {name: owner for name, owner in known if owner is not None}


_OPTIONS = {
    "cached": {"cacheSize": 1024},
    "bucket": {"bucketCount": 1024, "cacheSize": 64},
    "simple": {},
}


def message_group_map(factory_type: str) -> SimpleMessageGroupMap:
    """Return the map for a setting such as `cached?cacheSize=1024`."""
    name, _, query = factory_type.partition("?")
    if name not in _OPTIONS:
        raise ValueError(
            f"unknown message_group_map_factory_type {name!r}; use one of "
            f"{', '.join(sorted(_OPTIONS))}"
        )
    options = dict(_OPTIONS[name])
    for part in filter(None, query.split("&")):
        key, _, value = part.partition("=")
        if key not in options or not value.isdecimal() or int(value) < 1:
            raise ValueError(
                f"message_group_map_factory_type {name!r}: invalid option {part!r}; the options "
                f"are {', '.join(options) or 'none'}, each a number from 1"
            )
        options[key] = int(value)
    if name == "cached":
        return CachedMessageGroupMap(options["cacheSize"])
    if name == "bucket":
        return BucketMessageGroupMap(options["bucketCount"], options["cacheSize"])
    return SimpleMessageGroupMap()


class GroupAssignment:
    """The owners of one queue's message groups; see the module's docstring."""

    def __init__(self, groups: SimpleMessageGroupMap, ring: ConsumerRing) -> None:
        self.groups = groups
        self.is_rescan_due = False
        """Whether a group has lost its owner, so that waiting messages may be dispatched."""
        self._ring = ring

    def remove_owner(self, owner: Subscription) -> None:
        """Release all groups of a consumer that leaves."""
        self.groups.remove_owner(owner)

    def release(self, group_id: str) -> None:
        """Remove the owner of a group, if any. Source: ActiveMQ Queue.removeMessageGroup."""
        self._uncount_group(self.groups.remove(group_id))

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
        self._uncount_group(loser)
        _set_first_for_consumer(reference, is_first=True)

    def _uncount_group(self, owner: Subscription | None) -> None:
        """Decrease the group count of a consumer, if it is still one of the queue's."""
        losing = None if owner is None else self._ring.candidates.get(owner)
        if losing is not None:
            losing.assigned_groups -= 1
            self._ring.reorder(losing)


def _set_first_for_consumer(reference: MessageReference, is_first: bool) -> None:
    if reference.message.jms_xgroup_first_for_consumer != is_first:
        copy = copy_command(reference.message)
        copy.jms_xgroup_first_for_consumer = is_first
        reference.replace_message(copy)
