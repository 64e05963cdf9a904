"""The destinations that a network connector forwards. (activemq-edges NW2)"""

from __future__ import annotations

from collections.abc import Iterable

from pyjms.jms.destination import ADVISORY_PREFIX, Destination, Topic
from pyjms_broker.advisory.topics import CONSUMER_PREFIX, VIRTUAL_CONSUMER_PREFIX
from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.policy.wildcard import matches

__all__ = ["PermittedDestinations", "advisory_topic"]

_TEMPORARY = f"{ADVISORY_PREFIX}TempQueue,{ADVISORY_PREFIX}TempTopic"
_WORD = {True: "Topic", False: "Queue"}


class PermittedDestinations:
    """Forwarded destinations: exclusion, then static and dynamic inclusion, by default all."""

    def __init__(self, attributes: NetworkConnectorAttributes) -> None:
        self._attributes = attributes

    def includes(self, destination: Destination) -> bool:
        """Return whether a destination, or every member of a composite, is forwarded."""
        return all(map(self._includes, destination.composite_destinations))

    def _includes(self, destination: Destination) -> bool:
        attributes = self._attributes
        if destination.is_temporary:
            return attributes.bridge_temp_destinations
        if _any_matches(attributes.excluded_destinations, destination):
            return False
        if _any_matches(attributes.statically_included_destinations, destination):
            return True
        dynamic = attributes.dynamically_included_destinations
        return not dynamic or _any_matches(dynamic, destination)


def _any_matches(patterns: Iterable[Destination], destination: Destination) -> bool:
    return any(matches(pattern, destination) for pattern in patterns)


def advisory_topic(attributes: NetworkConnectorAttributes) -> Topic:
    """Return the topics of the advisories about remote consumers.

    Those of temporary destinations come first, so that a destination is known before its
    consumers.
    """
    names = attributes.destination_filter
    if not names:
        included = attributes.dynamically_included_destinations
        topics = [
            f"{CONSUMER_PREFIX}{_WORD[each.is_topic]}.{each.physical_name}" for each in included
        ]
        if not included:
            topics = [f"{CONSUMER_PREFIX}>"]
        if attributes.use_virtual_dest_subs:
            # the end of a consumer is reported on the topic of the virtual destination's pattern
            topics.append(f"{VIRTUAL_CONSUMER_PREFIX}>")
        names = ",".join(dict.fromkeys(topics))
    if attributes.bridge_temp_destinations:
        names = f"{_TEMPORARY},{names}"
    return Topic(names)
