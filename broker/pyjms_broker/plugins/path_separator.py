"""destinationPathSeparatorPlugin: clients may use a separator other than a dot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Protocol, TypeVar, cast

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Destination
from pyjms.runtime.forwarding import delegate
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageAck, MessagePull
from pyjms_broker.api.broker import Broker, PluginFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext, ConsumerExchange, ProducerExchange
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.attribute import attribute

_Method = TypeVar("_Method", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class DestinationPathSeparatorPlugin:
    """Clients may write another separator than a dot.

    Source: ActiveMQ DestinationPathSeparatorBroker.

    Raises:
        ConfigurationException: the separator is empty, or has another meaning in names.
    """

    converts_names: ClassVar[bool] = True

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


class _Command(Protocol):
    destination: Destination | None


def _converting(method: _Method) -> _Method:
    """Return a filter's `method`, which first converts the command in its second argument."""
    pass_on = delegate(method, attrgetter("next"))

    def call(
        self: DestinationPathSeparatorBroker,
        scope: Any,
        command: _Command,
        *more: Any,
        **named: Any,
    ) -> Any:
        self.convert(command)
        return pass_on(self, scope, command, *more, **named)

    return cast("_Method", call)


class DestinationPathSeparatorBroker(PluginFilter[DestinationPathSeparatorPlugin]):
    """Replaces the separator in clients' destination names, except for temporary ones."""

    add_consumer = _converting(Broker.add_consumer)
    remove_consumer = _converting(Broker.remove_consumer)
    process_consumer_control = _converting(Broker.process_consumer_control)
    add_producer = _converting(Broker.add_producer)
    remove_producer = _converting(Broker.remove_producer)
    add_destination_info = _converting(Broker.add_destination_info)
    remove_destination_info = _converting(Broker.remove_destination_info)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        destination = message.destination
        if destination is not None and self.plugin.path_separator in destination.physical_name:
            message.destination = self._translate(destination)
            message.raw = None
        return self.next.send(exchange, message)

    def acknowledge(self, exchange: ConsumerExchange, ack: MessageAck) -> Completion:
        self.convert(ack)
        return self.next.acknowledge(exchange, ack)

    def message_pull(self, context: ConnectionContext, pull: MessagePull) -> None:
        self.convert(pull)
        self.next.message_pull(context, pull)

    def add_destination(
        self, context: ConnectionContext, destination: Destination, create_temporary: bool = False
    ) -> BrokerDestination:
        return self.next.add_destination(context, self._translate(destination), create_temporary)

    def remove_destination(
        self, context: ConnectionContext, destination: Destination, timeout: float
    ) -> None:
        self.next.remove_destination(context, self._translate(destination), timeout)

    def convert(self, command: _Command) -> None:
        """Replace the separator in the destination of a command."""
        destination = command.destination
        if destination is not None and self.plugin.path_separator in destination.physical_name:
            command.destination = self._translate(destination)

    def _translate(self, destination: Destination) -> Destination:
        separator = self.plugin.path_separator
        if destination.is_temporary or separator not in destination.physical_name:
            return destination
        kind = type(destination)
        if destination.is_composite:  # its members may have prefixes, such as topic://
            members = [self._translate(each) for each in destination.composite_destinations]
            converted = kind(",".join(each.qualified_name for each in members))
        else:
            converted = kind(destination.physical_name.replace(separator, "."))
        converted.options = destination.options
        return converted
