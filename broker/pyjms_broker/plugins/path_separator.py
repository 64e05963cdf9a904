"""destinationPathSeparatorPlugin: clients may use a separator other than a dot.

(activemq-broker 1.1)
"""

from __future__ import annotations

from dataclasses import dataclass

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    ConsumerControl,
    ConsumerInfo,
    DestinationInfo,
    MessageAck,
    MessagePull,
    ProducerInfo,
)
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.exchange import ConsumerExchange, ProducerExchange
from pyjms_broker.api.filter import PluginFilter
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.attribute import attribute

__all__ = ["DestinationPathSeparatorPlugin"]


@dataclass(frozen=True, kw_only=True)
class DestinationPathSeparatorPlugin:
    """Sets the separator. Source: ActiveMQ DestinationPathSeparatorBroker.

    Raises:
        ConfigurationException: the separator is empty, or has another meaning in names.
    """

    path_separator: str = attribute(
        "/", "Separator that clients may use instead of the dot in destination names."
    )

    def __post_init__(self) -> None:
        separator = self.path_separator
        if not separator or any(reserved in separator for reserved in ".,*>?"):
            raise ConfigurationException(
                f"path_separator: {separator!r} cannot separate the parts of a name",
                hint="use a text without . , * > and ?, for example /",
            )

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`."""
        return DestinationPathSeparatorBroker(broker, self)


class DestinationPathSeparatorBroker(PluginFilter[DestinationPathSeparatorPlugin]):
    """Replaces the separator in clients' destination names, except for temporary ones."""

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        destination = message.destination
        if destination is not None and self.plugin.path_separator in destination.physical_name:
            message.destination = self._converted(destination)
            message.raw = None
        return self.next.send(exchange, message)

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        self._convert(ack)
        return self.next.acknowledge(exchange, ack)

    def message_pull(self, context: ConnectionContext, pull: MessagePull) -> None:
        self._convert(pull)
        self.next.message_pull(context, pull)

    def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        self._convert(info)
        return self.next.add_consumer(context, info)

    def remove_consumer(
        self, context: ConnectionContext, info: ConsumerInfo, last_delivered_sequence_id: int
    ) -> None:
        self._convert(info)
        self.next.remove_consumer(context, info, last_delivered_sequence_id)

    def process_consumer_control(
        self, exchange: ConsumerExchange, control: ConsumerControl
    ) -> None:
        self._convert(control)
        self.next.process_consumer_control(exchange, control)

    def add_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        self._convert(info)
        self.next.add_producer(context, info)

    def remove_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        self._convert(info)
        self.next.remove_producer(context, info)

    def add_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        self._convert(info)
        self.next.add_destination_info(context, info)

    def remove_destination_info(self, context: ConnectionContext, info: DestinationInfo) -> None:
        self._convert(info)
        self.next.remove_destination_info(context, info)

    def add_destination(
        self, context: ConnectionContext, destination: Destination, create_temporary: bool = False
    ) -> BrokerDestination:
        return self.next.add_destination(context, self._converted(destination), create_temporary)

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        self.next.remove_destination(context, self._converted(destination), timeout)

    def _convert(
        self,
        command: MessageAck
        | MessagePull
        | ConsumerInfo
        | ConsumerControl
        | ProducerInfo
        | DestinationInfo,
    ) -> None:
        destination = command.destination
        if destination is not None and self.plugin.path_separator in destination.physical_name:
            command.destination = self._converted(destination)

    def _converted(self, destination: Destination) -> Destination:
        separator = self.plugin.path_separator
        if destination.is_temporary or separator not in destination.physical_name:
            return destination
        kind = type(destination)
        if destination.is_composite:  # its members may have prefixes, such as topic://
            members = [self._converted(each) for each in destination.composite_destinations]
            converted = kind(",".join(each.qualified_name for each in members))
        else:
            converted = kind(destination.physical_name.replace(separator, "."))
        converted.options = destination.options
        return converted
