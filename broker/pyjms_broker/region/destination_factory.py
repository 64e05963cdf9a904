"""Creates queues and topics with their message stores."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.jms.destination import Destination
from pyjms_broker.api.text import can_be_written
from pyjms_broker.policy.map import PolicyMap
from pyjms_broker.policy.wildcard import matches
from pyjms_broker.region.base_destination import ADVISORY_PREFIX, BaseDestination
from pyjms_broker.region.queue.queue import Queue
from pyjms_broker.region.topic.advisory_topic import AdvisoryTopic
from pyjms_broker.region.topic.topic import Topic

if TYPE_CHECKING:
    from pyjms_broker.region.services import RegionServices

__all__ = ["make_destination"]


def make_destination(
    broker: RegionServices,
    policy_map: PolicyMap,
    existing_destinations: Collection[Destination],
    destination: Destination,
) -> BaseDestination:
    """Create a queue or a topic, with the messages that its store has already.

    Raises:
        IllegalStateException: the policy's maximum is reached (activemq-broker D12).
        InvalidDestinationException: the name cannot be stored.
    """
    if not can_be_written(destination.physical_name):
        raise InvalidDestinationException(
            f"The name of {destination!r} cannot be encoded as UTF-8",
            hint="it contains half of a surrogate pair; use another name",
        )
    policy = policy_map.entry_for(destination)
    is_advisory = destination.physical_name.startswith(ADVISORY_PREFIX)
    target = policy.target
    if policy.max_destinations >= 0 and not is_advisory:
        existing = sum(target is None or matches(target, d) for d in existing_destinations)
        if existing >= policy.max_destinations:
            raise IllegalStateException(
                "The maxmimum number of destinations allowed "
                f"({policy.max_destinations}) for the policy "
                f"{target or destination} has already been reached."
            )
    is_stored = not destination.is_temporary and not is_advisory
    prioritized = policy.prioritized_messages
    store = broker.store
    if destination.is_queue:
        queue_store = store.queue_message_store(destination, prioritized) if is_stored else None
        return Queue(broker, destination, policy, queue_store)
    if is_advisory:
        return AdvisoryTopic(broker, destination, policy, None)
    topic_store = store.topic_message_store(destination, prioritized) if is_stored else None
    return Topic(broker, destination, policy, topic_store)
