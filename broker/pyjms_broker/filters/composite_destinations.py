"""Composite destinations: a send or a producer on `a,b,c` becomes one per member.

Consumers are not split: one subscription matches several destinations. (activemq-broker B4)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.errors import InvalidDestinationException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, ConsumerInfo, ProducerInfo
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import Completion, all_of
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.message import copy_command, copy_for_destination
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.region.flow_control import send_when_created

if TYPE_CHECKING:
    from pyjms_broker.region.region_broker import RegionBroker

MAXIMUM_MEMBERS = 1000
"""The maximum number of members of a composite, which bounds the work of one short command."""


class CompositeDestinationBroker(BrokerFilter):
    """Splits sends and producers on composite destinations into one per member."""

    passes_plain = True

    def __init__(self, next_broker: Broker, region: RegionBroker) -> None:
        super().__init__(next_broker)
        self._region = region

    def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        if info.destination is not None:
            members_of(info.destination)
        return self.next.add_consumer(context, info)

    def add_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        for part in _split(info):
            self.next.add_producer(context, part)

    def remove_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        for part in _split(info):
            self.next.remove_producer(context, part)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        destination = message.destination
        if destination is None or not destination.is_composite:
            return self.next.send(exchange, message)
        first, *others = members_of(destination)

        def send() -> Completion:
            copies = [copy_for_destination(message, member, destination) for member in others]
            message.destination = first
            message.original_destination = destination
            message.raw = None
            return all_of([self._send_one(exchange, part) for part in (message, *copies)])

        return send_when_created(self._region, exchange, message, (first, *others), send)

    def _send_one(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        part = exchange.for_forwarding()
        return self.next.send(part, message)


def _split(info: ProducerInfo) -> list[ProducerInfo]:
    destination = info.destination
    if destination is None or not destination.is_composite:
        return [info]
    return [_with_destination(info, member) for member in members_of(destination)]


def members_of(destination: Destination) -> tuple[Destination, ...]:
    """Return the members of a composite."""
    if destination.physical_name.count(",") >= MAXIMUM_MEMBERS:
        raise InvalidDestinationException(
            f"A composite destination has more than {MAXIMUM_MEMBERS} members",
            hint="send to several smaller composites",
        )
    members = destination.composite_destinations
    if not members:
        raise InvalidDestinationException(
            f"The composite destination {destination} has no members",
            hint="name the destinations, separated by commas",
        )
    return members


def _with_destination(info: ProducerInfo, destination: Destination) -> ProducerInfo:
    part = copy_command(info)
    part.destination = destination
    return part
