"""Changes what destinations were created with, while the broker runs.

Source: ActiveMQ runtimeConfigurationPlugin, PolicyEntry.update. (activemq-broker 1.1)
"""

from __future__ import annotations

from collections.abc import Callable

from pyjms.jms.destination import Destination
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.policy.map import PolicyMap
from pyjms_broker.region.destination_table import DestinationTable
from pyjms_broker.region.expiry_scanner import ExpiryScanner
from pyjms_broker.region.slow_consumers import SlowConsumers

__all__ = ["DestinationChanges"]


class DestinationChanges:
    """Changes the policies of existing destinations, and the filters around them."""

    def __init__(
        self,
        table: DestinationTable,
        policy_map: PolicyMap,
        expiry: ExpiryScanner,
        slow_consumers: SlowConsumers,
    ) -> None:
        self._table = table
        self._policy_map = policy_map
        self._expiry = expiry
        self._slow_consumers = slow_consumers

    def change_policies(self, policies: PolicyMap) -> dict[Destination, frozenset[str]]:
        """Have destinations follow these policies, new ones and those that exist.

        A destination whose entry stays the same object keeps what an operator has changed.

        Returns:
            By destination, the attributes that differ and that only a new one follows.
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
        """Put other filters around all destinations; what was sent before is not affected."""
        for name, found in self._table.all().items():
            self._table.change_entry_point(name, filtered(found))
