"""The consumers of advisories, since an advisory without a consumer is not created."""

from __future__ import annotations

from pyjms.jms.destination import ADVISORY_PREFIX, Destination, Topic
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo
from pyjms_broker.policy.map import PolicyMap
from pyjms_broker.policy.wildcard import MAX_CACHED_LENGTH, matches

__all__ = ["AdvisoryConsumers"]

_MAX_CACHED_TOPICS = 1000


class AdvisoryConsumers:
    """The consumers that may get advisories, on advisory topics or on topic patterns."""

    def __init__(self, policies: PolicyMap) -> None:
        """Create it with the policies that let topics keep messages for later consumers."""
        self._policies = policies
        self._destinations: dict[ConsumerId, tuple[Destination, ...]] = {}
        self._cache: dict[str, bool] = {}

    def add(self, info: ConsumerInfo) -> None:
        """Add a consumer if it may get advisories."""
        if info.destination is None or info.consumer_id is None:
            return
        subscribed = tuple(
            member
            for member in info.destination.composite_destinations
            if member.is_topic
            and (member.is_pattern or member.physical_name.startswith(ADVISORY_PREFIX))
        )
        if subscribed:
            self._destinations[info.consumer_id] = subscribed
            self._cache.clear()

    def remove(self, consumer_id: ConsumerId | None) -> None:
        """Remove a consumer; unknown ones are ignored."""
        if consumer_id is not None and self._destinations.pop(consumer_id, None) is not None:
            self._cache.clear()

    def includes(self, topic: Topic) -> bool:
        """Return whether a consumer, or a later one, may get a message sent to `topic`."""
        found = self._cache.get(topic.physical_name)
        if found is None:
            found = any(
                matches(subscribed, topic)
                for destinations in self._destinations.values()
                for subscribed in destinations
            )
            if not found:
                policy = self._policies.entry_for(topic)
                found = policy.subscription_recovery_policy is not None
            if len(topic.physical_name) > MAX_CACHED_LENGTH:
                return found
            if len(self._cache) >= _MAX_CACHED_TOPICS:
                self._cache.clear()
            self._cache[topic.physical_name] = found
        return found
