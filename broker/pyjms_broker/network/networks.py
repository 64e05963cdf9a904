"""The network connectors and bridges of a broker.

What they need is imported for the first of them: a broker starts without the modules of networks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from pyjms.errors import ConfigurationException
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerId,
    ConsumerId,
    ConsumerInfo,
    MessageId,
    ProducerId,
)
from pyjms.wire.openwire.schema import MESSAGES
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.connector.base import BrokerHost, TransportConnector
from pyjms_broker.region.region_broker import RegionBroker

if TYPE_CHECKING:
    from pyjms.wire.openwire.commands import BrokerInfo
    from pyjms_broker.connector.openwire.connection import BrokerConnection, CommandHandler
    from pyjms_broker.network.attributes import NetworkConnectorAttributes
    from pyjms_broker.network.bridge import NetworkBridge
    from pyjms_broker.network.connector import NetworkConnector
    from pyjms_broker.network.demand import BridgeSubscriptions
    from pyjms_broker.network.duplex import ReverseBridge

logger = get_logger(__name__)

_DEPTH: Final = 10_000
"""The number of recorded messages of each producer."""
_PRODUCERS: Final = 1024
"""The number of recorded producers, each counted once per destination."""
DurableKey: TypeAlias = tuple[str | None, str | None]
"""The client id and name of a remote durable subscription."""


class NetworkHost(BrokerHost, Protocol):
    """The part of the broker service that network connectors use."""

    @property
    def connect_uri(self) -> str:
        """The URI for JMS clients."""

    @property
    def connectors(self) -> list[TransportConnector]:
        """The connectors, in order."""

    @property
    def region_broker(self) -> RegionBroker:
        """The innermost broker of the filter chain."""

    @property
    def networks(self) -> Networks:
        """The network connectors, and the state shared by all bridges."""


class Networks:
    """The network connectors of a broker, and the bridges that other brokers have requested."""

    def __init__(self, host: NetworkHost) -> None:
        self._host = host
        self.demand = DemandTable()
        self.audit = NetworkAudit()
        """Detects messages that bridges send repeatedly."""
        self._started: dict[NetworkBridge, None] = {}
        self.connectors: list[NetworkConnector] = []
        self._reverse: dict[str, ReverseBridge] = {}
        """By network connector and broker, once logged in."""
        self._reverse_tasks: set[BackgroundTask] = set()
        self._is_stopping = False

    @property
    def duplex_bridges(self) -> list[ReverseBridge]:
        """The bridges over connections that other brokers opened."""
        return list(self._reverse.values())

    @property
    def bridges(self) -> list[NetworkBridge]:
        """All bridges."""
        own = [bridge for connector in self.connectors for bridge in connector.bridges]
        return [*own, *self.duplex_bridges]

    def add(
        self, uri: str, attributes: NetworkConnectorAttributes | None = None
    ) -> NetworkConnector:
        """Add a network connector without starting it.

        Raises:
            ConfigurationException: the URI is invalid, or the name is already in use.
            UnsupportedOperationException: the scheme of a broker is not supported.
        """
        from pyjms_broker.network.connector import NetworkConnector  # noqa: PLC0415 - see above

        connector = NetworkConnector(self._host, uri, attributes)
        if any(each.name == connector.name for each in self.connectors):
            raise ConfigurationException(
                f"There are two network connectors named '{connector.name}'",
                hint="give each a unique name: network_connectors.name",
            )
        self.connectors.append(connector)
        return connector

    def add_unnamed(self, uri: str) -> NetworkConnector:
        """Add a network connector with the default attributes, like `add`.

        It gets the first unused name of NC, NC-2, NC-3 and so on.

        Raises:
            JMSException: the URI is invalid.
        """
        from pyjms_broker.network.attributes import NetworkConnectorAttributes  # noqa: PLC0415

        taken = {each.name for each in self.connectors}
        base = NetworkConnectorAttributes().name
        names = (base if n == 1 else f"{base}-{n}" for n in itertools.count(1))
        free = next(name for name in names if name not in taken)
        return self.add(uri, NetworkConnectorAttributes(name=free))

    async def remove(self, name: str) -> bool:
        """Stop and remove a network connector; return whether there was one."""
        found = next((each for each in self.connectors if each.name == name), None)
        if found is None:
            return False
        self.connectors.remove(found)
        await found.stop()
        return True

    def accept(
        self, connection: BrokerConnection, info: BrokerInfo
    ) -> Mapping[int, CommandHandler]:
        """Serve a client that is the bridge of another broker, as it requests in `info`.

        Return the handlers of its commands.
        """
        from pyjms_broker.connector.openwire.command_handlers import HANDLERS  # noqa: PLC0415
        from pyjms_broker.network.attributes import read_properties_of  # noqa: PLC0415
        from pyjms_broker.network.demand import durable_subscriptions  # noqa: PLC0415
        from pyjms_broker.network.duplex import ReverseBridge, reverse_handlers  # noqa: PLC0415

        attributes = read_properties_of(info.network_properties or "")
        is_audited = attributes.check_duplicate_messages_on_duplex
        handlers = dict(HANDLERS)
        if is_audited or connection.connector.audit_network_producers:
            handlers |= dict.fromkeys(MESSAGES, self._on_message)
        if info.duplex_connection:
            bridge = ReverseBridge(self._host, attributes, connection, info)
            name = f"duplex bridge to {info.broker_name}"
            task = spawn(bridge.live, self._reverse, name=name)
            running = {each for each in self._reverse_tasks if not each.done}
            self._reverse_tasks = running | {task}
            handlers |= reverse_handlers(bridge, handlers[ActiveMQMessage.TYPE])
        if attributes.sync_durable_subs and not attributes.dynamic_only:
            connection.send_command(durable_subscriptions(self._host, attributes))
        return handlers

    def _on_message(self, connection: BrokerConnection, message: ActiveMQMessage) -> Completion:
        """Send a message of a bridge unless it was received before."""
        own_id = self._host.broker_id
        return self.audit.send(message, own_id, lambda: connection.on_message(message))

    @property
    def joined(self) -> list[BrokerInfo]:
        """The brokers at the other ends of bridges, one entry per bridge."""
        return [bridge.remote for bridge in self._started]

    def on_start(self, bridge: NetworkBridge) -> None:
        """Report to the broker's filters and clients that a bridge has started forwarding."""
        self._started[bridge] = None
        self._host.broker.network_bridge_started(
            bridge.remote, bridge.created_by_duplex, bridge.remote_address
        )
        for connector in self._host.connectors:
            connector.cluster.broker_joined(bridge.remote)

    def on_end(self, bridge: NetworkBridge) -> None:
        """Report the end of a bridge to the broker's filters and clients.

        Clients are not notified when this broker stops, because they then need the other brokers.
        """
        self._started.pop(bridge, None)
        self._host.broker.network_bridge_stopped(bridge.remote)
        for connector in self._host.connectors:
            connector.cluster.broker_left(bridge.remote, tell=not self._is_stopping)

    def start(self) -> None:
        """Start all network connectors, in the background."""
        self._is_stopping = False
        for connector in self.connectors:
            connector.start()

    async def stop(self) -> None:
        """End all bridges because the broker stops. Idempotent."""
        self._is_stopping = True
        for connector in self.connectors:
            await connector.stop()
        await end_tasks(*self._reverse_tasks)


class Demand:
    """One local subscription of a bridge, which represents consumers of a remote broker.

    A subscription that serves several remote consumers is called a conduit: the remote broker then
    counts as one local consumer. Topics always have one, because the remote broker itself
    dispatches each message to all its subscribers.

    Args:
        owner: the bridge.
        local: the subscription's ConsumerInfo for the local broker.
        is_static: whether it exists even without remote consumers.
        can_be_conduit: whether further consumers of its destination may share it.
    """

    def __init__(
        self,
        owner: BridgeSubscriptions,
        local: ConsumerInfo,
        *,
        is_static: bool,
        can_be_conduit: bool,
    ) -> None:
        self.owner = owner
        self.local = local
        self.is_static = is_static
        self.can_be_conduit = can_be_conduit
        self.consumers: dict[ConsumerId, ConsumerInfo] = {}
        """The remote consumers."""
        self.durables: set[DurableKey] = set()
        """The remote durable subscriptions."""
        self.unconfirmed = 0
        """The number of forwarded messages that are not acknowledged locally yet."""
        self.is_closing = False
        """Whether it forwards nothing more, and ends once no message is unconfirmed."""
        self.is_deleted = False
        """Whether the durable subscription is deleted at that time."""

    @property
    def is_durable(self) -> bool:
        """Whether it is also a durable subscription at the local broker."""
        return self.local.subscription_name is not None

    def take_over(self, other: Demand) -> None:
        """Also serve the consumers of another subscription."""
        self.consumers.update(other.consumers)
        self.durables |= other.durables
        self.is_static |= other.is_static


class DemandTable:
    """The subscriptions of all bridges of one broker."""

    def __init__(self) -> None:
        self._demands: set[Demand] = set()
        self._by_consumer: dict[ConsumerId | None, set[Demand]] = {}
        self._owners: set[BridgeSubscriptions] = set()

    def join(self, owner: BridgeSubscriptions) -> None:
        """Notify a bridge when subscriptions of other bridges end."""
        self._owners.add(owner)

    def leave(self, owner: BridgeSubscriptions) -> None:
        """Remove a bridge and its subscriptions."""
        self._owners.discard(owner)
        left = {demand for demand in self._demands if demand.owner is owner}
        for demand in left:
            self._discard(demand)
        if left:
            self._reconsider(owner)

    def add(self, demand: Demand) -> None:
        """Add a subscription."""
        self._demands.add(demand)
        for each in demand.local.network_consumer_path or ():
            self._by_consumer.setdefault(each, set()).add(demand)

    def remove(self, demand: Demand) -> None:
        """Remove a subscription that has ended."""
        if demand in self._demands:
            self._discard(demand)
            self._reconsider(demand.owner)

    def serving(self, candidate: Demand) -> list[Demand]:
        """Return the subscriptions of other bridges that serve the candidate's consumer."""
        found = {
            demand: None
            for each in candidate.local.network_consumer_path or ()
            for demand in self._by_consumer.get(each, ())
        }
        return [demand for demand in found if demand.owner is not candidate.owner]

    def _discard(self, demand: Demand) -> None:
        self._demands.discard(demand)
        for each in demand.local.network_consumer_path or ():
            of_consumer = self._by_consumer.get(each)
            if of_consumer is not None:
                of_consumer.discard(demand)
                if not of_consumer:
                    del self._by_consumer[each]

    def _reconsider(self, cause: BridgeSubscriptions) -> None:
        for owner in list(self._owners):
            if owner is not cause:
                owner.reconsider()


class NetworkAudit:
    """Detects messages that bridges send repeatedly, which are dropped.

    A bridge that was lost before it got a confirmation sends the message again. A queue detects a
    repeated id with its own audit, and a store does so while it has the message. This audit, which
    all bridges to the broker share, also detects it after the message was consumed. It is exact: a
    message is dropped only if one with its id has arrived in the same destination and is as durable
    as its sender requires.
    """

    def __init__(self) -> None:
        self._seen = MessageAudit(_DEPTH, _PRODUCERS)
        self._pending: dict[MessageId, Completion] = {}
        """Messages that are not stored yet: a repeated send waits for the same completion."""

    def send(
        self, message: ActiveMQMessage, own_id: BrokerId, send: Callable[[], Completion]
    ) -> Completion:
        """Send a message unless it has arrived before; completed when it is stored.

        A message that has already passed this broker, `own_id`, was forwarded from it and returns;
        it is not a repetition.
        """
        path: Sequence[BrokerId | None] = message.broker_path or ()
        key = _key(message)
        if key is None or not message.response_required or own_id in path:
            return send()
        pending = self._pending.get(key)
        if pending is not None:
            return pending
        if self._seen.is_duplicate(key):
            logger.debug("Dropped %s, which a bridge has sent again", message.message_id)
            return COMPLETED
        try:
            sent = send()
        except BaseException:
            self._seen.forget(key)
            raise
        if not sent.done:
            self._pending[key] = sent
        sent.then(lambda done: self._on_sent(key, done))
        return sent

    def _on_sent(self, key: MessageId, done: Completion) -> None:
        self._pending.pop(key, None)
        if done.error is not None:
            self._seen.forget(key)


def _key(message: ActiveMQMessage) -> MessageId | None:
    """Return the key of a persistent message in its destination.

    Copies of a message for several destinations, such as a virtual topic's, have the same id.
    """
    own, destination = message.message_id, message.destination
    if not message.persistent or own is None or own.producer_id is None or destination is None:
        return None
    producer = own.producer_id
    connection = f"{destination.qualified_name}|{producer.connection_id}"
    in_destination = ProducerId(connection, producer.value, producer.session_id)
    return MessageId(None, in_destination, own.producer_sequence_id)
