"""The network connectors and bridges of a broker.

What they need is imported for the first of them: a broker starts without the modules of networks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyjms.errors import ConfigurationException
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerId,
    BrokerInfo,
    ConsumerInfo,
    MessageId,
    ProducerId,
)
from pyjms.wire.openwire.schema import MESSAGES
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import COMPLETED, Completion
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.connector.base import BrokerHost

if TYPE_CHECKING:
    from pyjms_broker.connector.openwire.connection import BrokerConnection, CommandHandler
    from pyjms_broker.network.attributes import NetworkConnectorAttributes
    from pyjms_broker.network.bridge import NetworkBridge
    from pyjms_broker.network.connector import NetworkConnector
    from pyjms_broker.network.demand import DemandTable
    from pyjms_broker.network.duplex import ReverseBridge


# --- The audit of messages that come over bridges: a message that is forwarded again is dropped.
#
# Whether a bridge forwards a message at all, by hop count and path, is decided in
# `pyjms_broker.region.bridge_filter`. (activemq-edges NW1)

logger = get_logger(__name__)

_DEPTH: Final = 10_000
"""The number of recorded messages of each producer."""
_PRODUCERS: Final = 1024
"""The number of recorded producers, each counted once per destination."""


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


class Networks:
    """The network connectors of a broker, and the bridges that other brokers have requested."""

    def __init__(self, host: BrokerHost) -> None:
        self._host = host
        self._started: dict[NetworkBridge, None] = {}
        self.connectors: list[NetworkConnector] = []
        self._reverse: dict[str, ReverseBridge] = {}
        """By network connector and broker, once logged in."""
        self._reverse_tasks: set[BackgroundTask] = set()
        self._is_stopping = False

    @cached_property
    def demand(self) -> DemandTable:
        """The subscriptions of all bridges."""
        from pyjms_broker.network.demand import DemandTable  # noqa: PLC0415 - see above

        return DemandTable()

    @cached_property
    def audit(self) -> NetworkAudit:
        """Detects messages that bridges send repeatedly."""
        return NetworkAudit()

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
        """Add a network connector without starting it."""
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
            connection.resources.when_logged_in(
                lambda context: connection.send_command(
                    durable_subscriptions(self._host, attributes, context)
                )
            )
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


# --- The end of what network connectors have subscribed for a client that comes here itself.
#
# A client that moves from a remote broker to this one keeps its consumer ids. Until the remote
# broker notices that it has left, this broker would also send it messages by the bridge.
# (ActiveMQ ConnectionSplitBroker; activemq-broker B1)


class ConnectionSplitBroker(BrokerFilter):
    """Removes a consumer from the bridges' subscriptions when it is added here."""

    def __init__(self, next_broker: Broker, demand: DemandTable) -> None:
        super().__init__(next_broker)
        self._demand = demand

    def add_consumer(self, context: ConnectionContext, info: ConsumerInfo) -> Subscription:
        if not info.network_subscription and self._demand.consumer_moved_here(info.consumer_id):
            logger.info("Consumer %s has moved here from another broker", info.consumer_id)
        return self.next.add_consumer(context, info)
