"""forcePersistencyModeBrokerPlugin: makes all messages persistent, or all non-persistent.

(activemq-broker 1.1)
"""

from __future__ import annotations

from dataclasses import dataclass

from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.filter import PluginFilter
from pyjms_broker.attribute import flag

__all__ = ["ForcePersistencyModeBrokerPlugin"]


@dataclass(frozen=True, kw_only=True)
class ForcePersistencyModeBrokerPlugin:
    """Overrides the delivery mode. Source: ActiveMQ ForcePersistencyModeBrokerPlugin."""

    persistence_flag: bool = flag(
        "Whether all messages are persistent, dead letters included; false: none is."
    )

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`."""
        return ForcePersistencyModeBroker(broker, self)


class ForcePersistencyModeBroker(PluginFilter[ForcePersistencyModeBrokerPlugin]):
    """Sets the delivery mode of each message with a different one."""

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        if message.persistent is not self.plugin.persistence_flag:
            message.persistent = self.plugin.persistence_flag
            message.raw = None
        return self.next.send(exchange, message)
