"""The consumers of advisories: an advisory without a consumer costs nothing."""

from __future__ import annotations

from pyjms.jms.destination import Destination, Topic
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo
from pyjms_broker.advisory.topics import PREFIX
from pyjms_broker.policy.wildcard import LONGEST_REMEMBERED, matches

__all__ = ["Audience"]

_MAX_CACHED_TOPICS = 1000


class Audience:
    """The consumers that may get advisories: on advisory topics, or on wildcards of topics."""

    def __init__(self) -> None:
        self._members: dict[ConsumerId, tuple[Destination, ...]] = {}
        self._cache: dict[str, bool] = {}

    def add(self, info: ConsumerInfo) -> None:
        """Record a consumer if it may get advisories."""
        if info.destination is None or info.consumer_id is None:
            return
        wanted = tuple(
            member
            for member in info.destination.composite_destinations
            if member.is_topic and (member.is_pattern or member.physical_name.startswith(PREFIX))
        )
        if wanted:
            self._members[info.consumer_id] = wanted
            self._cache.clear()

    def remove(self, consumer_id: ConsumerId | None) -> None:
        """Remove a consumer; unknown ones are ignored."""
        if consumer_id is not None and self._members.pop(consumer_id, None) is not None:
            self._cache.clear()

    def hears(self, topic: Topic) -> bool:
        """Whether a consumer would get a message sent to `topic`."""
        heard = self._cache.get(topic.physical_name)
        if heard is None:
            heard = any(
                matches(wanted, topic) for member in self._members.values() for wanted in member
            )
            if len(topic.physical_name) > LONGEST_REMEMBERED:
                return heard
            if len(self._cache) >= _MAX_CACHED_TOPICS:
                self._cache.clear()
            self._cache[topic.physical_name] = heard
        return heard
