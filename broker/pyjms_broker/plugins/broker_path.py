"""traceBrokerPathPlugin: a property that lists the brokers a message has passed.

ActiveMQ appends the name on dispatch, so a redelivery to another consumer lists the same broker
twice. This filter appends it once, when the broker accepts the message.
(activemq-broker 1.1)
"""

from __future__ import annotations

from dataclasses import dataclass

from pyjms._logger import get_logger
from pyjms.errors import ConfigurationException, JMSException
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.api.filter import PluginFilter
from pyjms_broker.attribute import attribute
from pyjms_broker.scheduler.schedule_properties import properties_of

__all__ = ["TraceBrokerPathPlugin"]

logger = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class TraceBrokerPathPlugin:
    """Records the path of each message. Source: ActiveMQ TraceBrokerPathPlugin.

    Raises:
        ConfigurationException: the name of the property is empty.
    """

    stamp_property: str = attribute(
        "BrokerPath", "Name of the property; its value is a comma-separated list of broker names."
    )

    def __post_init__(self) -> None:
        if not self.stamp_property:
            raise ConfigurationException("stamp_property is empty")

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`."""
        return TraceBrokerPathBroker(broker, self)


class TraceBrokerPathBroker(PluginFilter[TraceBrokerPathPlugin]):
    """Appends the broker's name to a property of each message from clients and other brokers."""

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        if not exchange.context.is_broker:  # dead letters are already stamped
            self._stamp(message)
        return self.next.send(exchange, message)

    def _stamp(self, message: ActiveMQMessage) -> None:
        try:
            properties = properties_of(message)
        except JMSException as error:
            logger.warning(
                "%s: message %s gets no property %s: its properties cannot be decoded: %s",
                message.destination,
                message.message_id,
                self.plugin.stamp_property,
                error,
            )
            return
        passed = properties.get(self.plugin.stamp_property)
        name = self.broker_name
        properties[self.plugin.stamp_property] = name if passed is None else f"{passed},{name}"
        message.marshalled_properties = encode_map(properties)
        message.raw = None
