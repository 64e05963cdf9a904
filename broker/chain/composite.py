"""Composite destinations: a send or a producer on `a,b,c` becomes one for each member.

Consumers are not split: one subscription matches several destinations. (ActiveMQ B4)
"""

from __future__ import annotations

from broker.chain.copies import copied, readdressed
from broker.completion import Completion, all_of
from broker.context import ConnectionContext, ProducerExchange
from broker.filter import BrokerFilter
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ActiveMQMessage, ProducerInfo

__all__ = ["CompositeDestinationBroker"]


class CompositeDestinationBroker(BrokerFilter):
    """Splits what is addressed to several destinations."""

    def add_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        for part in _split(info):
            self.next.add_producer(context, part)

    def remove_producer(self, context: ConnectionContext, info: ProducerInfo) -> None:
        for part in _split(info):
            self.next.remove_producer(context, part)

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion | None:
        destination = message.destination
        if destination is None or not destination.is_composite:
            return self.next.send(exchange, message)
        first, *others = destination.composite_destinations
        copies = [readdressed(message, member, destination) for member in others]
        message.destination = first
        message.original_destination = destination
        message.raw = None
        return all_of([self._send_one(exchange, part) for part in (message, *copies)])

    def _send_one(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion | None:
        part = ProducerExchange(exchange.context, exchange.info)
        return self.next.send(part, message)


def _split(info: ProducerInfo) -> list[ProducerInfo]:
    destination = info.destination
    if destination is None or not destination.is_composite:
        return [info]
    return [_on(info, member) for member in destination.composite_destinations]


def _on(info: ProducerInfo, destination: Destination) -> ProducerInfo:
    part = copied(info)
    part.destination = destination
    return part
