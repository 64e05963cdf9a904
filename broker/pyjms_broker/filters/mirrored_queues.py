"""Mirrored queues: messages sent to a queue are first copied to a topic. (activemq-broker V12)"""

from __future__ import annotations

from dataclasses import dataclass

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.completion import Completion, all_of
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.destination import BrokerDestination, DestinationFilter
from pyjms_broker.api.message import copy_for_destination
from pyjms_broker.api.names import PREFIXES
from pyjms_broker.filters.virtual_topics import Routes, VirtualDestination


@dataclass(frozen=True)
class MirroredQueue(VirtualDestination):
    """Mirrors every queue to the topic `prefix` + name + `postfix`. (ActiveMQ MirroredQueue)"""

    prefix: str = "VirtualTopic.Mirror."
    postfix: str = ""
    temporary: bool = True
    """Whether temporary queues are also mirrored."""

    @property
    def virtual_destination(self) -> Queue:
        return Queue(">")

    def intercept(self, destination: BrokerDestination, routes: Routes) -> BrokerDestination:
        queue = destination.destination
        if not queue.is_queue or (queue.is_temporary and not self.temporary):
            return destination
        if queue.physical_name.startswith(PREFIXES):
            return destination
        mirror = Topic(f"{self.prefix}{queue.physical_name}{self.postfix}")
        return _MirroredFilter(destination, mirror, routes)


class _MirroredFilter(DestinationFilter):
    def __init__(self, queue: BrokerDestination, mirror: Topic, routes: Routes) -> None:
        super().__init__(queue)
        self._mirror = mirror
        self._routes = routes

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        copy = copy_for_destination(message, self._mirror, message.original_destination)
        return all_of([self._routes.forward(exchange, copy), self.next.send(exchange, message)])

    def dispose(self, context: ConnectionContext) -> None:
        self.next.dispose(context)
        region = self._routes.region
        if self._mirror in region.destinations():
            region.root.remove_destination(context, self._mirror, -1)
