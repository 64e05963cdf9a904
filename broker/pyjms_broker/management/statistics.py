"""statisticsBrokerPlugin: replies to clients' requests for statistics. (activemq-broker Z1 to Z4)

A request is a message to one of the names below, with a reply destination; it is not enqueued. The
replies are subject to the requester's access rights and flow control: the response to the request
waits until its replies have space, so that requests cannot fill the memory. One request gets at
most `MOST_REPLIES`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from pyjms.errors import IllegalStateException, ResourceAllocationException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.types import Long
from pyjms.wire.openwire.commands import ActiveMQMapMessage, ActiveMQMessage
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.access import STATISTICS_PREFIX, is_statistics
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import Completion, all_of
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.fields import readable_properties
from pyjms_broker.api.statistics import DestinationStatistics
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.management.host import ManagementContext, minimum, reset_statistics, totals
from pyjms_broker.policy.wildcard import matches
from pyjms_broker.region.base_destination import ADVISORY_TYPE
from pyjms_broker.region.queue import Queue as BrokerQueue

if TYPE_CHECKING:
    from pyjms_broker.management.management import Management

MOST_REPLIES: Final = 1000
_BROKER: Final = f"{STATISTICS_PREFIX}Broker"
_SUBSCRIPTION: Final = f"{STATISTICS_PREFIX}Subscription"
_DESTINATION: Final = f"{STATISTICS_PREFIX}Destination"
_RESET: Final = f"{_BROKER}.Reset"
_END: Final = f"{_DESTINATION}.List.End.With.Null"
_FIRST: Final = f"{_DESTINATION}.Include.First.Message.Timestamp"

_Values = dict[str, object]


class StatisticsBrokerPlugin:
    """Clients ask for statistics with messages. Source: ActiveMQ StatisticsBrokerPlugin."""

    def install_plugin(self, broker: Broker) -> Broker:
        """Raise an error, because the filter needs the management views.

        Raises:
            IllegalStateException: always; broker services call `install_managed_plugin`.
        """
        raise IllegalStateException(
            "The statistics plug-in needs the management model of a broker service",
            hint="pass it to BrokerService(plugins=[StatisticsBrokerPlugin()])",
        )

    def install_managed_plugin(self, broker: Broker, management: Management) -> Broker:
        """Return the filter around `broker`."""
        return StatisticsBroker(broker, management.context)


class StatisticsBroker(BrokerFilter):
    """Consumes the requests and sends the replies."""

    def __init__(self, next_broker: Broker, tree: ManagementContext) -> None:
        super().__init__(next_broker)
        self._tree = tree

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        to = message.destination
        if to is None or message.reply_to is None or not is_statistics(to):
            return self.next.send(exchange, message)
        name = to.physical_name.lower()
        for prefix, replies_to in _REQUESTS.items():
            if name.startswith(prefix.lower()):
                if exchange.context.access is not None:  # this filter may be outside its own
                    exchange.context.access.check_request(message)
                replies = replies_to(self._tree, to, readable_properties(message))
                return self._send(exchange, message, list(islice(replies, MOST_REPLIES + 1)))
        return self.next.send(exchange, message)

    def _send(
        self, exchange: ProducerExchange, request: ActiveMQMessage, replies: list[_Values]
    ) -> Completion:
        if len(replies) > MOST_REPLIES:
            raise ResourceAllocationException(
                f"{request.destination} requests more than {MOST_REPLIES} replies",
                hint="use a more specific name that matches fewer destinations",
            )
        forwarding = ProducerExchange(exchange.context)
        return all_of(
            [self.next.send(forwarding, self._reply(request, values)) for values in replies]
        )

    def _reply(self, request: ActiveMQMessage, values: _Values) -> ActiveMQMapMessage:
        message_id = self._tree.next_message_id()
        return ActiveMQMapMessage(
            producer_id=message_id.producer_id,
            destination=request.reply_to,
            message_id=message_id,
            correlation_id=request.correlation_id,
            type=ADVISORY_TYPE,
            priority=4,
            persistent=False,
            response_required=request.response_required,
            content=encode_map(values),
        )


def _counters(statistics: DestinationStatistics, memory: MemoryUsage) -> _Values:
    return {
        "size": Long(statistics.messages),
        "enqueueCount": Long(statistics.enqueues),
        "dequeueCount": Long(statistics.dequeues),
        "dispatchCount": Long(statistics.dispatched),
        "expiredCount": Long(statistics.expired),
        "inflightCount": Long(statistics.inflight),
        "averageMessageSize": statistics.average_size,
        "memoryPercentUsage": memory.percent,
        "memoryUsage": Long(memory.used),
        "memoryLimit": Long(memory.limit),
        "averageEnqueueTime": statistics.average_time,
        "maxEnqueueTime": float(statistics.max_time),
        "minEnqueueTime": float(minimum(statistics.min_time)),
        "consumerCount": Long(statistics.consumers),
        "producerCount": Long(statistics.producers),
    }


def _cached_messages(destination: BrokerDestination) -> int:
    return len(destination.base.references) if isinstance(destination.base, BrokerQueue) else 0


def _broker(tree: ManagementContext, _to: Destination, properties: _Values) -> Iterator[_Values]:
    host = tree.host
    if _RESET in properties:
        reset_statistics(host)
    usage = host.system_usage
    uris = {each.uri.scheme: each.connect_uri for each in host.connectors}
    yield {
        "brokerName": host.broker_name,
        "brokerId": str(host.broker_id),
        **_counters(totals(host), usage.memory),
        "messagesCached": Long(sum(map(_cached_messages, tree.region.destinations().values()))),
        "storePercentUsage": usage.store.percent,
        "storeUsage": Long(usage.store.used),
        "storeLimit": Long(usage.store.limit),
        "tempPercentUsage": usage.temp.percent,
        "tempUsage": Long(usage.temp.used),
        "tempLimit": Long(usage.temp.limit),
        "openwire": uris.get("tcp", ""),
        **{scheme: uris.get(scheme, "") for scheme in ("stomp", "ssl", "stomp+ssl")},
        "vm": host.vm_uri,
        "dataDirectory": os.fspath(host.data_path),
    }


def _destinations(
    tree: ManagementContext, to: Destination, properties: _Values
) -> Iterator[_Values]:
    name = to.physical_name[len(_DESTINATION) :].removeprefix(".")
    asked = name.replace(_END, "")
    if asked:
        wanted = (Topic if to.is_topic else Queue)(asked)
        for destination, found in tree.destinations().items():
            if matches(wanted, destination):
                yield _destination(tree, found, with_first=_FIRST in properties)
    if asked != name or _END in properties:
        yield {}


def _destination(
    tree: ManagementContext, destination: BrokerDestination, *, with_first: bool
) -> _Values:
    values = {
        "brokerName": tree.host.broker_name,
        "brokerId": str(tree.host.broker_id),
        "destinationName": destination.destination.qualified_name,
        **_counters(destination.statistics, destination.memory),
        "messagesCached": Long(_cached_messages(destination)),
    }
    first = next(destination.messages(), None) if with_first else None
    if first is not None:
        values["firstMessageTimestamp"] = Long(first.message.broker_in_time)
    return values


def _subscriptions(
    tree: ManagementContext, _to: Destination, _properties: _Values
) -> Iterator[_Values]:
    return map(_subscription, tree.region.subscriptions.all())


def _subscription(subscription: Subscription) -> _Values:
    info, consumer_id = subscription.info, subscription.consumer_id
    return {
        "destinationName": subscription.requested.qualified_name,
        "clientId": subscription.context.client_id,
        "connectionId": None if consumer_id is None else consumer_id.connection_id,
        "sessionId": Long(0 if consumer_id is None else consumer_id.session_id),
        "selector": info.selector,
        "enqueueCounter": Long(subscription.enqueue_count),
        "dequeueCounter": Long(subscription.dequeue_count),
        "dispatchedCounter": Long(subscription.dispatched_count),
        "dispatchedQueueSize": subscription.in_flight,
        "prefetchSize": subscription.prefetch_size,
        "maximumPendingMessageLimit": info.maximum_pending_message_limit,
        "exclusive": info.exclusive,
        "retroactive": info.retroactive,
        "slowConsumer": subscription.is_slow,
    }


_Request: TypeAlias = "Callable[[ManagementContext, Destination, _Values], Iterator[_Values]]"
_REQUESTS: Final[dict[str, _Request]] = {
    _BROKER: _broker,
    _SUBSCRIPTION: _subscriptions,
    _DESTINATION: _destinations,
}
