"""Creation of queues and topics with their message stores, and changes of their policies."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyjms.errors import IllegalStateException, InvalidDestinationException
from pyjms.jms.destination import ADVISORY_PREFIX, Destination
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.text import can_be_written
from pyjms_broker.policy.map import PolicyMap
from pyjms_broker.policy.wildcard import matches
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.destination_table import DestinationTable
from pyjms_broker.region.expiry_scanner import ExpiryScanner
from pyjms_broker.region.queue.queue import Queue
from pyjms_broker.region.slow_consumers import SlowConsumers
from pyjms_broker.region.topic.advisory_topic import AdvisoryTopic
from pyjms_broker.region.topic.topic import Topic

if TYPE_CHECKING:
    from pyjms_broker.region.services import RegionServices

__all__ = ["DestinationChanges", "make_destination"]


def make_destination(
    broker: RegionServices,
    policy_map: PolicyMap,
    existing_destinations: Collection[Destination],
    destination: Destination,
) -> BaseDestination:
    """Create a queue or a topic, with the messages that are already in its store.

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


@dataclass(eq=False, repr=False)
class DestinationChanges:
    """Changes the policies of existing destinations, and the filters around them.

    Source: ActiveMQ PolicyEntry.update. (activemq-broker 1.1)
    """

    _table: DestinationTable
    _policy_map: PolicyMap
    _expiry: ExpiryScanner
    _slow_consumers: SlowConsumers

    def change_policies(self, policies: PolicyMap) -> dict[Destination, frozenset[str]]:
        """Apply these policies to new and existing destinations.

        A destination whose entry stays the same object keeps an operator's changes.

        Returns:
            By destination, the attributes that differ but take effect only for a new destination.
        """
        policy_map = self._policy_map
        before = {name: policy_map.entry_for(name) for name in self._table.destinations}
        policy_map.replace(policies)
        kept: dict[Destination, frozenset[str]] = {}
        for name, found in self._table.all().items():
            entry = policy_map.entry_for(name)
            if entry is before[name]:
                continue
            self._expiry.remove(found)
            self._slow_consumers.remove(found)
            kept[name] = found.change_policy(entry)
            self._expiry.add(found)
            self._slow_consumers.add(found)
        return {name: attributes for name, attributes in kept.items() if attributes}

    def change_filters(self, filtered: Callable[[BrokerDestination], BrokerDestination]) -> None:
        """Replace the filters around all destinations; messages sent before are not affected."""
        for name, found in self._table.all().items():
            self._table.change_entry_point(name, filtered(found))
