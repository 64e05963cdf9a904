"""The tree of a broker's views: search by name or pattern, and access to a view.

Views are created on demand and contain no copies. A pattern with keys visits only the parts of the
tree whose names have these keys. Use it on the broker's event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol, runtime_checkable

from pyjms_broker.api.broker import Broker
from pyjms_broker.management.errors import InstanceNotFoundException
from pyjms_broker.management.host import Managed, ManagedBroker, ManagementContext
from pyjms_broker.management.model import View, ViewKind
from pyjms_broker.management.object_name import ObjectName
from pyjms_broker.management.views.broker import BROKER, HEALTH, RUNTIME_CONFIGURATION
from pyjms_broker.management.views.clients import (
    CONNECTION,
    CONNECTOR,
    NETWORK_BRIDGE,
    NETWORK_CONNECTOR,
    PRODUCER,
    clients,
    producer_name,
    producers,
)
from pyjms_broker.management.views.destinations import QUEUE, TOPIC
from pyjms_broker.management.views.stores import (
    JOB_SCHEDULER,
    PERSISTENCE_ADAPTER,
    XA_TRANSACTION,
    store_name,
)
from pyjms_broker.management.views.subscriptions import (
    DURABLE,
    INACTIVE_DURABLE,
    SLOW_ACK_CONSUMERS,
    SLOW_CONSUMERS,
    SUBSCRIPTION,
    TOPIC_SUBSCRIPTION,
)
from pyjms_broker.policy.slow_consumers import (
    AbortSlowAckConsumerAttributes,
    AbortSlowConsumerAttributes,
)
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.store.jobs.api import DEFAULT_SCHEDULER

_Entry = tuple[ObjectName, ViewKind[Any], object]


class Management:
    """The views of one broker."""

    def __init__(self, host: ManagedBroker) -> None:
        self.context = ManagementContext(host)
        """The state shared by its views."""

    def find(self, pattern: str | ObjectName) -> list[View[Any]]:
        """Return the views that a name or a pattern matches, in no particular order.

        Raises:
            MalformedObjectNameException: the pattern is invalid.
        """
        wanted = ObjectName(pattern) if isinstance(pattern, str) else pattern
        context = self.context
        return [
            View(name, kind, Managed(context, target))
            for keys, entries in _PARTS
            if _may_match(wanted, keys) and (context.host.started or entries is _broker)
            for name, kind, target in entries(context)
            if wanted.matches(name)
        ]

    def view(self, name: str | ObjectName) -> View[Any]:
        """Return the view with that name.

        Raises:
            MalformedObjectNameException: the name is invalid.
            InstanceNotFoundException: there is none.
        """
        wanted = ObjectName(name) if isinstance(name, str) else name
        found = [] if wanted.is_pattern else self.find(wanted)
        if not found:
            raise InstanceNotFoundException(
                f"No view is named {wanted.text[:300]}",
                hint="search with a pattern, such as org.apache.activemq:type=Broker,*",
            )
        return found[0]

    def get(self, name: str | ObjectName, attribute: str) -> object:
        """Return an attribute of a view; see `View.get`."""
        return self.view(name).get(attribute)

    def set(self, name: str | ObjectName, attribute: str, value: object) -> object:
        """Set an attribute of a view; see `View.set`."""
        return self.view(name).set(attribute, value)

    async def invoke(self, name: str | ObjectName, operation: str, *arguments: object) -> object:
        """Invoke an operation of a view; see `View.invoke`."""
        return await self.view(name).invoke(operation, *arguments)


def _may_match(wanted: ObjectName, keys: frozenset[str]) -> bool:
    if wanted.is_open:
        return wanted.keys.keys() <= keys
    return wanted.keys.keys() == keys


def _broker(context: ManagementContext) -> Iterator[_Entry]:
    yield context.names.broker(), BROKER, context.host


def _destinations(context: ManagementContext) -> Iterator[_Entry]:
    for destination, entry_point in context.destinations().items():
        kind = TOPIC if destination.is_topic else QUEUE
        yield context.names.destination(destination), kind, entry_point.base


def _subscriptions(context: ManagementContext) -> Iterator[_Entry]:
    for subscription in context.region.subscriptions.all():
        kind = TOPIC_SUBSCRIPTION if subscription.requested.is_topic else SUBSCRIPTION
        if isinstance(subscription, DurableTopicSubscription):
            kind = DURABLE if subscription.is_active else INACTIVE_DURABLE
        yield context.names.consumer(subscription), kind, subscription


def _health(context: ManagementContext) -> Iterator[_Entry]:
    yield context.names.service("Health"), HEALTH, context.host


def _runtime_configuration(context: ManagementContext) -> Iterator[_Entry]:
    configuration = context.host.updates
    if configuration is not None:
        name = context.names.service("RuntimeConfiguration", name="Plugin")
        yield name, RUNTIME_CONFIGURATION, configuration


def _job_schedulers(context: ManagementContext) -> Iterator[_Entry]:
    jobs = context.host.job_store
    if jobs is not None:
        name = context.names.service("JobScheduler", name=DEFAULT_SCHEDULER)
        yield name, JOB_SCHEDULER, jobs.scheduler()


def _stores(context: ManagementContext) -> Iterator[_Entry]:
    store = context.region.store
    name = context.names.service("PersistenceAdapter", instanceName=store_name(store))
    yield name, PERSISTENCE_ADAPTER, store


def _slow_consumer_strategies(context: ManagementContext) -> Iterator[_Entry]:
    for watched in context.region.slow_consumers.strategies():
        by_ack = isinstance(watched.strategy, AbortSlowAckConsumerAttributes)
        if isinstance(watched.strategy, AbortSlowConsumerAttributes):
            kind = SLOW_ACK_CONSUMERS if by_ack else SLOW_CONSUMERS
            yield context.names.slow_consumer_strategy(watched), kind, watched


def _xa_transactions(context: ManagementContext) -> Iterator[_Entry]:
    for xid in context.host.broker.prepared_transactions(context.client):
        yield context.names.xa_transaction(xid), XA_TRANSACTION, xid


def _connectors(context: ManagementContext) -> Iterator[_Entry]:
    for connector in context.host.connectors:
        yield context.names.connector(connector.name), CONNECTOR, connector


def _network_connectors(context: ManagementContext) -> Iterator[_Entry]:
    for connector in context.host.networks.connectors:
        yield context.names.network_connector(connector.name), NETWORK_CONNECTOR, connector


def _bridges(context: ManagementContext) -> Iterator[_Entry]:
    for bridge in context.host.networks.bridges:
        name = context.names.network_connector(
            bridge.connector_name, duplex=bridge.created_by_duplex, bridge=bridge.remote_address
        )
        yield name, NETWORK_BRIDGE, bridge


def _connections(context: ManagementContext) -> Iterator[_Entry]:
    for client in clients(context):
        known = client.state.context
        named = {"clientId": known.client_id, "remoteAddress": client.transport.remote_address}
        for view_type, name in named.items():
            keys = {"connectionViewType": view_type, "connectionName": name or "NOTSET"}
            parent = known.connector_name or "NOTSET"
            yield context.names.connector(parent, **keys), CONNECTION, client


def _producers(*, dynamic: bool) -> Callable[[ManagementContext], Iterator[_Entry]]:
    def entries(context: ManagementContext) -> Iterator[_Entry]:
        for client in clients(context):
            for exchange in producers(client):
                name = producer_name(context, exchange)
                if dynamic != ("destinationName" in name.keys):
                    yield name, PRODUCER, exchange

    return entries


_ROOT: Final = frozenset({"type", "brokerName"})
_CONNECTOR: Final = _ROOT | {"connector", "connectorName"}
_NETWORK: Final = _ROOT | {"connector", "networkConnectorName"}
_DESTINATION: Final = _ROOT | {"destinationType", "destinationName"}
_PARTS: Final[
    tuple[tuple[frozenset[str], Callable[[ManagementContext], Iterator[_Entry]]], ...]
] = (
    (_ROOT, _broker),
    (_DESTINATION, _destinations),
    (_DESTINATION | {"endpoint", "clientId", "consumerId"}, _subscriptions),
    (_DESTINATION | {"endpoint", "clientId", "producerId"}, _producers(dynamic=False)),
    (_ROOT | {"endpoint", "clientId", "producerId"}, _producers(dynamic=True)),
    (_ROOT | {"service"}, _health),
    (_ROOT | {"service", "name"}, _job_schedulers),
    (_ROOT | {"service", "name"}, _runtime_configuration),
    (_ROOT | {"service", "instanceName"}, _stores),
    (_ROOT | {"service", "instanceName"}, _slow_consumer_strategies),
    (_ROOT | {"transactionType", "xid"}, _xa_transactions),
    (_CONNECTOR, _connectors),
    (_NETWORK, _network_connectors),
    (_NETWORK | {"networkBridge"}, _bridges),
    (_CONNECTOR | {"connectionViewType", "connectionName"}, _connections),
)
"""The parts of the tree, each with the keys of its names."""


@runtime_checkable
class ManagedPlugin(Protocol):
    """A broker plug-in whose filter uses the management views."""

    def install_managed_plugin(self, broker: Broker, management: Management) -> Broker:
        """Return the new outermost filter; called instead of `install_plugin`."""
