"""Virtual destinations, which wrap a destination when it is created.

A destination to which none of them applies is not wrapped, so its messages have no extra cost.
Virtual topics: `VirtualTopic.Orders` feeds `Consumer.A.VirtualTopic.Orders`,
`Consumer.B. ...`: each group of consumers has its own queue. Only existing queues get a copy.
(ActiveMQ DestinationInterceptor, VirtualDestinationInterceptor; activemq-broker V1 to V12)
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from pyjms.errors import JMSException, ResourceAllocationException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.runtime.ids import IdGenerator
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionId, LocalTransactionId
from pyjms_broker.api.completion import COMPLETED, Completion, all_of
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.destination import BrokerDestination, DestinationFilter
from pyjms_broker.api.message import MessageReference, copy_for_destination
from pyjms_broker.api.names import PREFIXES
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.transaction import PendingWork
from pyjms_broker.attribute import attribute, flag
from pyjms_broker.filters.advisories import is_advisory_topic
from pyjms_broker.filters.transactions import LocalTransaction
from pyjms_broker.policy.wildcard import matches
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.region.topic import Topic as RegionTopic
from pyjms_broker.store.api import StoreState

_MAX_FORWARDING_DEPTH = 32
_OWN_CONNECTION = ConnectionId(IdGenerator().generate())
_transactions = itertools.count(1)


class Routes:
    """Forwards messages of virtual destinations through the region, with a limited depth."""

    def __init__(self, region: RegionBroker) -> None:
        self.region = region
        self._depth = 0

    def forward(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        """Send `message` to the region, where virtual destinations may apply again.

        Raises:
            JMSException: the virtual destinations form a cycle.

        """
        if self._depth >= _MAX_FORWARDING_DEPTH:
            raise JMSException(
                f"Virtual destinations form a cycle at {message.destination}",
                hint="remove the forward_to entry that leads back to its own destination",
            )
        self._depth += 1
        try:
            return self.region.send(exchange.for_forwarding(), message)
        finally:
            self._depth -= 1


class VirtualDestination(ABC):
    """A rule that forwards the messages sent to matching destinations."""

    @property
    @abstractmethod
    def virtual_destination(self) -> Destination:
        """The name or pattern of the destinations to which it applies."""

    def demanded_by(self, destination: Destination) -> Destination | None:
        """Return the destination or pattern that it forwards to `destination`; None if none."""
        return None

    def makes_queue(self, pattern: Destination) -> bool:
        """Return whether a consumer of a pattern of queues needs a queue of that very name."""
        return False

    @abstractmethod
    def intercept(self, destination: BrokerDestination, routes: Routes) -> BrokerDestination:
        """Return `destination` itself, or a filter around it if this rule applies to it."""


class VirtualDestinationInterceptor:
    """Passes each new destination through the virtual destinations, in their order."""

    def __init__(
        self, region: RegionBroker, virtual_destinations: Sequence[VirtualDestination]
    ) -> None:
        self._routes = Routes(region)
        self._virtual = tuple(virtual_destinations)

    def __call__(self, destination: BrokerDestination) -> BrokerDestination:
        for virtual in self._virtual:
            destination = virtual.intercept(destination, self._routes)
        return destination

    def queue_consumer_added(self, subscription: Subscription) -> None:
        """Send the messages kept by a queue's topics to its first consumer (activemq-broker V6).

        Messages that the queue has already received are left out. A pattern of the queues of
        virtual topics becomes a queue of its own, which the topics feed (activemq-broker V7).
        """
        queue, region = subscription.requested, self._routes.region
        for pattern in queue.composite_destinations:
            if pattern.is_pattern and any(each.makes_queue(pattern) for each in self._virtual):
                region.root.add_destination(subscription.context, pattern)
        if queue.is_pattern or queue.is_composite:
            return
        for virtual in self._virtual:
            source = virtual.demanded_by(queue)
            for topic in () if source is None else region.destinations_matching(source):
                if all(found.consumers == [subscription] for found in subscription.destinations):
                    self._send_kept(topic, subscription)

    def _send_kept(self, topic: BrokerDestination, subscription: Subscription) -> None:
        queue = subscription.requested
        if not isinstance(topic.base, RegionTopic):
            return  # the source is a composite queue, which keeps no messages for later consumers
        for reference in tuple(topic.base.kept_for(subscription)):
            copy = copy_for_destination(reference.message, queue, topic.destination)
            copy.transaction_id = None
            copy.response_required = False
            copy.raw = None
            self._routes.forward(ProducerExchange(self._routes.region.context), copy)


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base class
class VirtualTopicAttributes:
    """The attributes of virtual topics, with the broker's default name and prefix."""

    name: str = attribute("VirtualTopic.>", "Name or pattern of the topics.")
    prefix: str = attribute("Consumer.*.", "Prefix of the queues' names, before the topic's name.")
    postfix: str = attribute("", "Suffix of the queues' names, after the topic's name.")
    selector_aware: bool = flag(
        "Whether a queue gets only the messages that a connected consumer's selector matches."
    )
    local: bool = flag("Whether messages that came from another broker are not copied.")
    drop_on_resource_limit: bool = flag(
        "Whether a full queue is skipped instead of failing the send."
    )
    transacted_send: bool = flag(
        "Whether several queues get a persistent message all or none, in one transaction."
    )
    set_original_destination: bool = flag(
        "Whether copies have the topic as their original destination.", default=True
    )
    """Whether copies have the queue as destination and the topic as original destination."""


@dataclass(frozen=True)
class VirtualTopic(VirtualTopicAttributes, VirtualDestination):
    """Topics that `name` matches feed the queues `prefix` + topic + `postfix`.

    Source: ActiveMQ VirtualTopic, with the broker's default name and prefix.
    """

    @property
    def virtual_destination(self) -> Topic:
        return Topic(self.name)

    def demanded_by(self, destination: Destination) -> Topic | None:
        """Return the topic that feeds a queue; for a pattern of queues, the pattern of topics."""
        if not matches(Queue(f"{self.prefix}>"), destination):
            return None
        before, after = self.prefix.count("."), self.postfix.count(".")
        path = destination.physical_name.split(".")
        fed = ".".join(path[before : len(path) - after])
        return Topic(fed) if fed else self.virtual_destination

    def makes_queue(self, pattern: Destination) -> bool:
        return matches(Queue(f"{self.prefix}>"), pattern)

    def intercept(self, destination: BrokerDestination, routes: Routes) -> BrokerDestination:
        topic = destination.destination
        if is_advisory_topic(topic) or topic.is_temporary or not matches(Topic(self.name), topic):
            return destination
        return _VirtualTopicFilter(destination, self, routes)


class _DroppingTransaction(LocalTransaction):
    """Commits the other copies if a queue stays full."""

    def pending_failed(self, work: PendingWork, cause: BaseException) -> None:
        if isinstance(cause, ResourceAllocationException):
            self.pending_finished(work)
        else:
            super().pending_failed(work, cause)


class _VirtualTopicFilter(DestinationFilter):
    """One topic, and the pattern of its queues' names."""

    def __init__(self, topic: BrokerDestination, settings: VirtualTopic, routes: Routes) -> None:
        super().__init__(topic)
        self._settings = settings
        self._region = routes.region
        self._pattern = Queue(
            f"{settings.prefix}{topic.destination.physical_name}{settings.postfix}"
        )

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        if self._settings.local and message.broker_path:
            return self.next.send(exchange, message)
        queues = [
            queue
            for queue in self._region.destinations_overlapping(self._pattern)
            if not queue.disposed
        ]
        is_single = len(queues) < 2 or not message.persistent or exchange.transaction is not None
        if is_single or not self._settings.transacted_send:
            copies = [self._send_copy(exchange, message, queue) for queue in queues]
            return all_of([*copies, self.next.send(exchange, message)])
        return self._send_together(exchange, message, queues)

    def _send_together(
        self,
        exchange: ProducerExchange,
        message: ActiveMQMessage,
        queues: Sequence[BrokerDestination],
    ) -> Completion:
        """Send the copies in a transaction of the broker, and the message to the topic.

        A copy that waits for space delays all others, and the consumers of the topic.
        """
        region = self._region
        xid = LocalTransactionId(next(_transactions), _OWN_CONNECTION)
        kind = _DroppingTransaction if self._settings.drop_on_resource_limit else LocalTransaction
        transaction = kind(xid, region.store.transaction_store(), lambda _: None)
        within = exchange.within(transaction)
        try:
            copies = [self._send_copy(within, message, queue) for queue in queues]
        except Exception as error:
            transaction.rollback(error)
            raise
        committed = all_of([*copies, transaction.commit(one_phase=True)])
        if not transaction.is_waiting:
            return all_of([committed, self.next.send(exchange, message)])
        result = Completion()

        def publish(done: Completion) -> None:
            if done.error is not None:
                result.complete(done.error)
            else:
                self.next.send(exchange, message).then(lambda sent: result.complete(sent.error))

        committed.then(publish)
        return result

    def _send_copy(
        self, exchange: ProducerExchange, message: ActiveMQMessage, queue: BrokerDestination
    ) -> Completion:
        settings = self._settings
        if settings.set_original_destination:
            copy = copy_for_destination(message, queue.destination, message.destination)
        else:
            copy = copy_for_destination(message, self.destination, message.original_destination)
        if settings.selector_aware and not self._is_wanted(copy, queue):
            return COMPLETED
        if not settings.drop_on_resource_limit:
            return queue.send(exchange, copy)
        try:
            completion = queue.send(exchange, copy)
        except ResourceAllocationException:
            if self._has_failed():
                raise
            return COMPLETED
        return completion if completion is COMPLETED else self._ignoring_full_queue(completion)

    def _ignoring_full_queue(self, completion: Completion) -> Completion:
        result = Completion()

        def pass_on(done: Completion) -> None:
            is_full = isinstance(done.error, ResourceAllocationException)
            result.complete(None if is_full and not self._has_failed() else done.error)

        completion.then(pass_on)
        return result

    def _has_failed(self) -> bool:
        """Return whether the store has failed, which raises the same exception as a full store."""
        return self._region.store.state is StoreState.FAILED

    def _is_wanted(self, copy: ActiveMQMessage, queue: BrokerDestination) -> bool:
        reference = MessageReference(copy, queue)
        matches = any(subscription.matches(reference) for subscription in queue.consumers)
        return matches or self._region.root.is_awaited(reference)


# --- Composite queues and topics: what is sent to one is forwarded to others.


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
