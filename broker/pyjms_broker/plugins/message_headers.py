"""Plug-ins that change the headers of each message that is sent.

timeStampingBrokerPlugin sets timestamps to the broker's time, forcePersistencyModeBrokerPlugin the
delivery mode, and traceBrokerPathPlugin a property that lists the brokers a message has passed.
ActiveMQ appends the name on dispatch, so a redelivery to another consumer lists the same broker
twice. The filter here appends it once, when the broker accepts the message.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyjms.errors import ConfigurationException, JMSException
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.broker import Broker, PluginFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.attribute import attribute, duration, flag

logger = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class TimeStampingBrokerPlugin:
    """Messages get the broker's time, and keep their time to live.

    Source: ActiveMQ TimeStampingBrokerPlugin.
    """

    zero_expiration_override: float = duration(
        0.0, "Time to live of messages that have none; 0: they do not expire."
    )
    ttl_ceiling: float = duration(0.0, "Longest time to live; 0: unlimited.")
    future_only: bool = flag(
        "Whether a message is left unchanged if the change would make it expire earlier."
    )
    process_network_messages: bool = flag("Whether messages from other brokers are also stamped.")

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`."""
        return TimeStampingBroker(broker, self)


class TimeStampingBroker(PluginFilter[TimeStampingBrokerPlugin]):
    """Stamps clients' messages, unless their producer has disabled timestamps."""

    def __init__(self, next_broker: Broker, plugin: TimeStampingBrokerPlugin) -> None:
        super().__init__(next_broker, plugin)
        self._default_ttl = round(plugin.zero_expiration_override * 1000)
        self._ttl_ceiling = round(plugin.ttl_ceiling * 1000)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        if (
            message.timestamp > 0
            and not exchange.context.is_broker  # dead letters keep their times
            and (self.plugin.process_network_messages or not message.broker_path)
        ):
            self._stamp(message)
        return self.next.send(exchange, message)

    def _stamp(self, message: ActiveMQMessage) -> None:
        now = _clock.time_ms()
        old = message.expiration
        ttl = old - message.timestamp if old > 0 else self._default_ttl
        if 0 < self._ttl_ceiling < ttl:
            ttl = self._ttl_ceiling
        expiration = now + ttl
        if self.plugin.future_only and expiration <= old:
            return
        if ttl > 0:
            message.expiration = expiration
        message.timestamp = now
        message.raw = None


@dataclass(frozen=True, kw_only=True)
class ForcePersistencyModeBrokerPlugin:
    """Every message is persistent, or none is.

    Source: ActiveMQ ForcePersistencyModeBrokerPlugin.
    """

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


@dataclass(frozen=True, kw_only=True)
class TraceBrokerPathPlugin:
    """A property lists the brokers that a message has passed.

    Source: ActiveMQ TraceBrokerPathPlugin.

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
            properties = message.properties
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
