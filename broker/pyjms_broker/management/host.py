"""The context of the views: the broker, names, and the context for sending."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination
from pyjms.runtime.ids import IdGenerator
from pyjms.runtime.machine import ProcessMeter
from pyjms.runtime.watchdog import LoopWatchdog
from pyjms.wire.openwire import commands
from pyjms_broker.api.completion import Completion, completion_of
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.api.names import is_internal
from pyjms_broker.api.statistics import COUNTERS, NO_MINIMUM, SUMS, DestinationStatistics
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.connector.base import BrokerHost, TransportConnector
from pyjms_broker.management.object_name import ObjectName, encoded_part
from pyjms_broker.region.slow_consumers import WatchedStrategy

if TYPE_CHECKING:
    from pyjms_broker.management.history import History
    from pyjms_broker.management.management import Management
    from pyjms_broker.region.region_broker import RegionBroker
    from pyjms_broker.region.system_usage import SystemUsage
    from pyjms_broker.store.jobs.scheduler import JobSchedulerStore

DOMAIN: Final = "org.apache.activemq"


class Names:
    """The names of one broker's views: those of ActiveMQ's MBeans.

    Source: BrokerMBeanSupport. (activemq-edges 7)
    """

    def __init__(self, broker_name: Callable[[], str]) -> None:
        self._broker_name = broker_name

    def broker(self, **more: str) -> ObjectName:
        """Return the broker's name, or one below it with additional keys."""
        keys = {"type": "Broker", "brokerName": self._broker_name(), **more}
        return ObjectName.of(DOMAIN, {key: encoded_part(value) for key, value in keys.items()})

    def destination(self, destination: Destination, **more: str) -> ObjectName:
        """Return a destination's name, or one below it with additional keys."""
        return self.broker(
            destinationType=f"{'Temp' if destination.is_temporary else ''}"
            f"{'Topic' if destination.is_topic else 'Queue'}",
            destinationName=destination.physical_name,
            **more,
        )

    def consumer(self, subscription: Subscription) -> ObjectName:
        """Return a consumer's name; a durable subscription keeps its name while inactive."""
        durable_key = getattr(subscription, "durable_key", None)
        if durable_key is not None:
            client_id, name = durable_key
            consumer = f"Durable({client_id}_{name})"
        else:
            client_id = subscription.context.client_id or "NOTSET"
            consumer = str(subscription.consumer_id)
        return self.destination(
            subscription.requested, endpoint="Consumer", clientId=client_id, consumerId=consumer
        )

    def service(self, service: str, **more: str) -> ObjectName:
        """Return the name of a service of the broker, such as `JobScheduler`."""
        return self.broker(service=service, **more)

    def slow_consumer_strategy(self, watched: WatchedStrategy) -> ObjectName:
        """Return the name of a slow consumer strategy."""
        name = f"{type(watched.strategy).__name__}@{watched.number}"
        return self.service("SlowConsumerStrategy", instanceName=name)

    def xa_transaction(self, xid: commands.XATransactionId) -> ObjectName:
        """Return the name of a prepared transaction."""
        return self.broker(transactionType="RecoveredXaTransaction", xid=str(xid))

    def producer(
        self, destination: Destination | None, client_id: str, producer_id: str
    ) -> ObjectName:
        """Return a producer's name, a dynamic one's if it has no destination."""
        keys = {"clientId": client_id, "producerId": producer_id}
        if destination is None:
            return self.broker(endpoint="dynamicProducer", **keys)
        return self.destination(destination, endpoint="Producer", **keys)

    def network_connector(
        self, name: str, *, duplex: bool = False, bridge: str | None = None
    ) -> ObjectName:
        """Return the name of a network connector, or of its bridge to the address `bridge`.

        `duplex` means that the connector is another broker's.
        """
        return self.broker(
            connector="duplexNetworkConnectors" if duplex else "networkConnectors",
            networkConnectorName=name,
            **({} if bridge is None else {"networkBridge": bridge.replace("://", "_//")}),
        )

    def connector(self, connector_name: str, **more: str) -> ObjectName:
        """Return a connector's name, or one below it with additional keys."""
        return self.broker(
            connector="clientConnectors", connectorName=connector_name.replace("://", "_//"), **more
        )


T = TypeVar("T")


class ManagedBroker(BrokerHost, Protocol):
    """The part of the broker service that the views and the web server use."""

    system_usage: SystemUsage
    persistent: bool
    watchdog: LoopWatchdog | None
    """Measures how late the event loop is; None: the broker is not running."""

    @property
    def management(self) -> Management:
        """The management views of the broker."""

    @property
    def job_store(self) -> JobSchedulerStore | None: ...

    @property
    def data_path(self) -> Path: ...

    @property
    def store_path(self) -> Path | None:
        """The directory of the message store; None in memory."""

    @property
    def started(self) -> bool: ...

    @property
    def slave(self) -> bool: ...

    @property
    def vm_uri(self) -> str: ...

    @property
    def uptime(self) -> float:
        """Seconds since the start."""

    @property
    def history(self) -> History | None:
        """What is recorded of the running broker; None: nothing."""

    def stop_soon(self) -> None:
        """Stop in the background."""

    async def restart_soon(self) -> None:
        """Stop in the background, to be started again with the configuration as it is then."""

    async def start(self) -> None:
        """Start the broker; ignored while it is running."""

    def add_connector(self, uri: str) -> TransportConnector:
        """Add a connector, which the caller starts."""


class ManagementContext:
    """The state shared by all views of one broker."""

    def __init__(self, host: ManagedBroker) -> None:
        self.host = host
        self.names = Names(lambda: host.broker_name)
        self.process = ProcessMeter()
        self._producer_id = commands.ProducerId(IdGenerator().generate())
        self._sequence = itertools.count(1)
        self.client = ConnectionContext()
        """The context of operations, whose sends do not wait for space, as in ActiveMQ."""
        self.client.producer_flow_control = False
        self.client.is_operator = True
        self.client.connection_id = commands.ConnectionId(self._producer_id.connection_id)
        self.client.client_id = self._producer_id.connection_id

    @property
    def region(self) -> RegionBroker:
        """The region broker."""
        return self.host.region_broker

    @property
    def history(self) -> History:
        """What is recorded of the broker."""
        if self.host.history is None:
            raise IllegalStateException(
                "The broker records no history", hint="set web.history in broker.yaml to true"
            )
        return self.host.history

    def destinations(self) -> dict[Destination, BrokerDestination]:
        """Return all destinations except for the broker's internal ones, which have no views."""
        every = self.region.destinations()
        return {name: each for name, each in every.items() if not is_internal(name)}

    def next_message_id(self) -> commands.MessageId:
        """Return the next message id of the broker's own producer."""
        return commands.MessageId(None, self._producer_id, next(self._sequence))

    def send(self, message: commands.ActiveMQMessage) -> Completion:
        """Send a message through the whole filter chain; completed when it is stored."""
        if message.producer_id is None:
            message.producer_id = self._producer_id
        message.response_required = True
        broker = self.host.broker
        return completion_of(broker.send(ProducerExchange(self.client), message), broker, "send")


@dataclass(frozen=True, slots=True)
class Managed(Generic[T]):
    """A managed object of a view, with the context."""

    tree: ManagementContext
    it: T


def minimum(value: int) -> int:
    """Return a minimum of statistics as in ActiveMQ: 0 before the first value."""
    return 0 if value == NO_MINIMUM else value


def totals(host: ManagedBroker) -> DestinationStatistics:
    """Return the sums over all destinations, including removed ones."""
    total = DestinationStatistics()
    region = host.region_broker
    total.add_counters(region.removed_statistics)
    for destination in region.destinations().values():
        total.add(destination.statistics)
    return total


def total(host: ManagedBroker, field: str) -> object:
    """Return one field of `totals`, without the others."""
    if field not in SUMS:
        return getattr(totals(host), field)
    region = host.region_broker
    every = (getattr(each.statistics, field) for each in region.destinations().values())
    return sum(every, getattr(region.removed_statistics, field) if field in COUNTERS else 0)


def reset_statistics(host: ManagedBroker) -> None:
    """Reset the counters of all destinations."""
    region = host.region_broker
    region.removed_statistics.reset()
    for destination in region.destinations().values():
        destination.statistics.reset()
