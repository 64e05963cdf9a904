"""A bridge, which forwards messages from the local broker to the consumers of a remote one.

    local connection   vm:// to the local broker: subscriptions, their messages, acknowledgements
    remote connection  to the URI: advisories in, messages out

Both are client connections, so users, access rights and limits apply. A bridge ends with the first
failure of either; the network connector then starts another bridge. (activemq-edges NW1)

Forwarding of messages, which are acknowledged locally once the remote broker has them.

(activemq-edges NW4, NW5)

The inbound direction of a duplex bridge: the remote broker as a client of the local one.

Over the bridge's connection the remote broker sends commands like a client. They are passed
unchanged to the local broker over `vm://`, and the local broker's commands are passed back.
(activemq-edges NW1)
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeAlias

import anyio

from pyjms.errors import (
    ConfigurationException,
    ConnectionFailedException,
    DestinationDoesNotExistException,
    InvalidClientIDException,
    JMSException,
)
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.transport import Channel, create_transport
from pyjms.transport.openwire import RequestTransport, from_throwable
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import (
    AckType,
    ActiveMQBytesMessage,
    ActiveMQMessage,
    BrokerId,
    BrokerInfo,
    BrokerSubscriptionInfo,
    Command,
    ConsumerControl,
    MessageAck,
    MessageDispatch,
    Response,
    ShutdownInfo,
)
from pyjms.wire.openwire.commands import ConnectionError as ConnectionErrorCommand
from pyjms_broker.api.message import copy_command, copy_for_destination
from pyjms_broker.connector.openwire.throwables import to_throwable
from pyjms_broker.network.attributes import (
    NetworkConnectorAttributes,
    inbound_properties,
    written_properties,
)
from pyjms_broker.network.demand import (
    Between,
    BridgeSubscriptions,
    RemoteAdvisories,
    durable_name,
    durable_subscriptions,
)
from pyjms_broker.network.ends import BridgeEnd, LocalEnd
from pyjms_broker.network.networks import Demand, NetworkHost
from pyjms_broker.network.remotes import Remote
from pyjms_broker.region.base_destination import ADVISORY_TYPE
from pyjms_broker.region.bridge_filter import appended, may_pass
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.subscription import LAST_DELIVERED_UNSET

__all__ = ["Login", "LoopBackError", "NetworkBridge"]

logger = get_logger(__name__)


class ForwardingListener(Protocol):
    """Is notified of the outcome of forwarded messages; implemented by the bridge."""

    def confirmed(self, demand: Demand) -> None:
        """Count a message that was acknowledged."""

    def refused(self, message: ActiveMQMessage, error: Exception) -> None:
        """Report a message that the remote broker refused."""

    def fail(self, error: Exception) -> None:
        """End the bridge; the next bridge forwards the unacknowledged messages."""


@dataclass(eq=False, repr=False)
class Forwarder:
    """Forwards the messages of a bridge to the remote broker.

    Args:
        local, remote: the two connections of the bridge.
        broker_id: the id of the local broker, which is appended to each message's path.
        attributes: the attributes of the network connector.
        listener: is notified of acknowledged and refused messages, and of the bridge's failure.
    """

    _local: LocalEnd
    _remote: BridgeEnd
    _broker_id: BrokerId
    _attributes: NetworkConnectorAttributes
    _listener: ForwardingListener
    _under_way: dict[MessageDispatch, int] = field(default_factory=dict, init=False)
    _waiting: BackgroundTask | None = field(default=None, init=False)
    enqueue_count: int = field(default=0, init=False)
    """The number of messages that the local broker has dispatched to the bridge."""
    dequeue_count: int = field(default=0, init=False)
    """The number of messages that the remote broker has received."""

    @property
    def last_sent(self) -> int:
        """The highest sequence number of messages that the remote broker may have; -1: none."""
        return max(self._under_way.values(), default=LAST_DELIVERED_UNSET)

    def reset_counts(self) -> None:
        """Reset the counters."""
        self.enqueue_count = self.dequeue_count = 0

    def forward(self, dispatch: MessageDispatch, demand: Demand) -> None:
        """Forward a message; if it may not pass, a durable subscription only acknowledges it."""
        message = dispatch.message
        if message is None or demand.is_closing:
            return
        self.enqueue_count += 1
        bridge = demand.local.additional_predicate
        if demand.is_durable and bridge is not None and not may_pass(bridge, message):
            self._acknowledge(dispatch, message)
            return
        copy = self._onward(message, dispatch)
        try:
            if message.persistent or self._attributes.always_sync_send:
                demand.unconfirmed += 1
                number = message.message_id.broker_sequence_id if message.message_id else 0
                self._under_way[dispatch] = number
                self._remote.transport.request_soon(copy, partial(self._answered, dispatch, demand))
            else:
                self._remote.transport.oneway(copy)
                self._acknowledge(dispatch, message)
                self.dequeue_count += 1
        except ConnectionFailedException as error:
            self._listener.fail(error)
            return
        if self._remote.transport.congested and self._waiting is None:
            self._local.pause_reading()
            self._waiting = spawn(self._wait_for_remote, name="pyjms bridge drain")

    async def stop(self) -> None:
        """Stop waiting for a remote broker that reads too slowly."""
        await end_tasks(self._waiting)

    def _onward(self, message: ActiveMQMessage, dispatch: MessageDispatch) -> ActiveMQMessage:
        destination = dispatch.destination or message.destination
        assert destination is not None
        copy = copy_for_destination(message, destination, None)
        copy.broker_path = appended(message.broker_path, self._broker_id)
        copy.producer_id = self._remote.producer_id
        copy.original_transaction_id = message.original_transaction_id or message.transaction_id
        copy.transaction_id = None
        copy.raw = None
        if self._attributes.use_compression:
            _compress(copy)
        return copy

    def _answered(
        self, dispatch: MessageDispatch, demand: Demand, outcome: Response | Exception
    ) -> None:
        message = dispatch.message
        assert message is not None
        refusal: DestinationDoesNotExistException | None = None
        if isinstance(outcome, Exception):
            if not isinstance(outcome, ConnectionFailedException):
                self._listener.refused(message, outcome)
            if not isinstance(outcome, DestinationDoesNotExistException):
                self._listener.fail(outcome)
                return
            refusal = outcome  # a temporary destination may be deleted in the meantime
            logger.warning("%s is not forwarded: %s", message.message_id, outcome)
        self._under_way.pop(dispatch, None)
        demand.unconfirmed -= 1
        self.dequeue_count += refusal is None
        self._acknowledge(dispatch, message, refusal)
        self._listener.confirmed(demand)

    def _acknowledge(
        self, dispatch: MessageDispatch, message: ActiveMQMessage, refusal: Exception | None = None
    ) -> None:
        ack = MessageAck(
            dispatch.destination,
            consumer_id=dispatch.consumer_id,
            ack_type=int(AckType.INDIVIDUAL if refusal is None else AckType.POISON),
            first_message_id=message.message_id,
            last_message_id=message.message_id,
            message_count=1,
            poison_cause=None if refusal is None else to_throwable(refusal),
        )
        self._local.send(ack)

    async def _wait_for_remote(self) -> None:
        await self._remote.transport.drained()
        self._waiting = None
        self._local.resume_reading()


def _compress(message: ActiveMQMessage) -> None:
    """Compress an uncompressed body; that of a BytesMessage is preceded by its size."""
    content = message.content
    if message.compressed or not content:
        return
    body = bytes(content)
    packed = zlib.compress(body)
    if isinstance(message, ActiveMQBytesMessage):
        packed = len(body).to_bytes(4, "big") + packed
    message.content, message.compressed = packed, True


def local_transport(host: NetworkHost) -> RequestTransport:
    """Return a transport to the local broker that is not started."""
    options = {"create": "false", "network": "true"}
    return create_transport(TransportURI("vm", host.broker_name, options))


class InboundConnection:
    """Passes commands unchanged between the remote and the local broker.

    Args:
        host: the local broker.
        remote: the bridge's transport to the remote broker.
        fail: ends the bridge.
    """

    def __init__(
        self, host: NetworkHost, remote: Channel[Command], fail: Callable[[Exception], None]
    ) -> None:
        self._remote = remote
        self._fail = fail
        # without the correlator, which would renumber the commands
        self._local = local_transport(host).next
        self._local.listener = self
        self.received_count = 0
        """The number of messages that the remote broker has sent."""

    async def start(self, about: BrokerInfo) -> None:
        """Connect to the local broker; `about` describes the remote one.

        Raises:
            ConnectionFailedException: the local broker is stopping.
        """
        await self._local.start()
        self._local.oneway(about)

    def take(self, command: Command) -> None:
        """Pass a command of the remote broker to the local one."""
        if isinstance(command, ActiveMQMessage):
            self.received_count += 1
        try:
            self._local.oneway(command)
        except ConnectionFailedException as error:
            self._fail(error)

    async def stop(self) -> None:
        """Close the connection to the local broker. Idempotent."""
        await self._local.stop()

    # from the own broker
    def on_command(self, command: Command) -> None:
        """Pass a command of the local broker to the remote one, except for its BrokerInfo."""
        if isinstance(command, BrokerInfo):
            return
        try:
            self._remote.oneway(command)
        except ConnectionFailedException as error:
            self._fail(error)

    def on_exception(self, error: Exception) -> None:
        """End the bridge, because the local broker has closed the connection."""
        self._fail(error)


Login: TypeAlias = tuple[str | None, str | None]
"""User name and password."""


class LoopBackError(ConfigurationException):
    """The remote broker is the local one."""


class NetworkBridge:
    """A bridge to one remote broker. Use it on the broker's event loop; it is started once.

    Args:
        host: the local broker.
        attributes: the attributes of the network connector.
        remote: the remote broker's addresses.
    """

    direction = "inbound"
    """Part of the client id at the local broker."""
    created_by_duplex = False
    """Whether the remote broker opened the connection."""

    def __init__(
        self, host: NetworkHost, attributes: NetworkConnectorAttributes, remote: Remote
    ) -> None:
        self._host = host
        self._attributes = attributes
        self._where = remote
        self._inbound: InboundConnection | None = None
        self._remote: BridgeEnd | None = None
        self._local: LocalEnd | None = None
        self._subscriptions: BridgeSubscriptions | None = None
        self._forwarder: Forwarder | None = None
        self._error: Exception | None = None
        self._ended = anyio.Event()
        self._advisories: RemoteAdvisories | None = None
        self._is_reported = False
        self._remote_subscriptions: BrokerSubscriptionInfo | None = None
        self.remote = BrokerInfo(BrokerId())
        """The remote broker's description of itself, once known, without secrets."""

    @property
    def remote_name(self) -> str:
        """The name of the remote broker, once known."""
        return self.remote.broker_name or ""

    @property
    def remote_id(self) -> BrokerId:
        """The id of the remote broker, once known."""
        return self.remote.broker_id or BrokerId()

    def _describe(self, info: BrokerInfo) -> None:
        """Store the remote broker's description of itself, without the options of its bridge."""
        self.remote = BrokerInfo(
            info.broker_id, info.broker_url, broker_name=info.broker_name, network_connection=True
        )

    @property
    def connector_name(self) -> str:
        """The name of its network connector, which may belong to the remote broker."""
        return self._attributes.name

    @property
    def received_count(self) -> int:
        """The number of messages that the remote broker has sent over a duplex connection."""
        return 0 if self._inbound is None else self._inbound.received_count

    @property
    def remote_address(self) -> str:
        """The address of the remote broker; empty until connected."""
        return "" if self._remote is None else self._remote.transport.remote_address

    @property
    def local_address(self) -> str:
        """The address of the local broker; empty until connected."""
        return "" if self._local is None else self._local.transport.remote_address

    @property
    def enqueue_count(self) -> int:
        """The number of messages that the local broker has dispatched to the bridge."""
        return 0 if self._forwarder is None else self._forwarder.enqueue_count

    @property
    def dequeue_count(self) -> int:
        """The number of messages that the remote broker has received."""
        return 0 if self._forwarder is None else self._forwarder.dequeue_count

    def reset_counts(self) -> None:
        """Reset the message counters. ActiveMQ: resetStats."""
        if self._forwarder is not None:
            self._forwarder.reset_counts()
        if self._inbound is not None:
            self._inbound.received_count = 0

    async def start(self) -> None:
        """Connect both brokers, and forward from now on. Call `stop` afterwards, even on failure.

        Raises:
            LoopBackError: the remote broker is the local one.
            JMSException: a broker is unreachable, or refuses the bridge.
        """
        attributes, host = self._attributes, self._host
        self._remote = remote = await self._reach()
        if self.remote_id == host.broker_id:
            raise LoopBackError(
                f"Network connector {attributes.name}: {self._where} leads to this broker itself",
                hint="name other brokers only",
            )
        if self.remote_name == host.broker_name:
            logger.warning(
                "Network connector %s: the broker at %s has the same name as this one, %s; give "
                "each broker in a network a unique name, which is part of the bridges' client ids",
                attributes.name,
                remote.transport.remote_address,
                self.remote_name,
            )
        await self._introduce(remote)
        token = attributes.client_id_token
        client_id = token.join((attributes.name, host.broker_name, "outbound"))
        try:
            await remote.open(client_id, *self._remote_login())
        except InvalidClientIDException as error:
            raise self._explained(error) from error
        self._local = local = LocalEnd(local_transport(host), self._on_local, self.fail)
        await local.start()
        client_id = token.join(
            (attributes.name, self.remote_name, self.direction, host.broker_name)
        )
        await local.open(client_id, *self._local_login())
        await self._forward(local, remote)
        self._is_reported = True
        host.networks.started(self)

    def _remote_login(self) -> Login:
        """Return the user name and password for the remote broker."""
        attributes = self._attributes
        if attributes.remote_user_name is None:
            return self._local_login()
        return attributes.remote_user_name, attributes.remote_password

    def _local_login(self) -> Login:
        """Return the user name and password for the local broker."""
        return self._attributes.user_name, self._attributes.password

    async def _reach(self) -> BridgeEnd:
        """Connect to the remote broker at the first of its addresses that responds."""
        failure: JMSException | None = None
        for uri in self._where.in_order():
            self._error = None
            duplex = self._attributes.duplex
            transport = create_transport(uri)
            end = BridgeEnd(transport, self._on_remote, self.fail, is_duplex=duplex)
            try:
                introduction = await end.start()
            except JMSException as error:
                failure = error
                await _stopped(end)
            except BaseException:
                await _stopped(end)
                raise
            else:
                self._describe(introduction)
                return end
        raise failure or ConnectionFailedException(f"{self._where} names no broker")

    async def _introduce(self, remote: BridgeEnd) -> None:
        """Send the BrokerInfo of the bridge, which says whether it is duplex."""
        attributes, host = self._attributes, self._host
        info = BrokerInfo(
            host.broker_id,
            host.connect_uri,
            broker_name=host.broker_name,
            network_connection=True,
            duplex_connection=attributes.duplex,
        )
        if not attributes.duplex:
            if attributes.sync_durable_subs:
                without = replace(attributes, user_name=None, password=None)
                info.network_properties = written_properties(without)
            remote.transport.oneway(info)
            return
        info.network_properties = written_properties(attributes)
        self._inbound = InboundConnection(host, remote.transport, self.fail)
        about = copy_command(self.remote)
        about.network_properties = inbound_properties(attributes)
        await self._inbound.start(about)
        remote.transport.oneway(info)
        if attributes.sync_durable_subs:
            remote.transport.oneway(durable_subscriptions(host, attributes))

    async def _forward(self, local: LocalEnd, remote: BridgeEnd) -> None:
        attributes, host = self._attributes, self._host
        between = Between(host.broker_name, host.broker_id, self.remote_id)
        self._subscriptions = subscriptions = BridgeSubscriptions(
            attributes, between, local, host.networks.demand
        )
        self._forwarder = Forwarder(local, remote, host.broker_id, attributes, self)
        for destination in attributes.statically_included_destinations:
            subscriptions.add_static(destination)
        if not attributes.dynamic_only:
            self._resume_durables(subscriptions, local.client_id)
        if self._remote_subscriptions is not None:
            subscriptions.synchronize(self._remote_subscriptions)
        self._advisories = RemoteAdvisories(remote, subscriptions)
        if not attributes.static_bridge:
            await self._advisories.subscribe()

    def _resume_durables(self, subscriptions: BridgeSubscriptions, client_id: str) -> None:
        """Resume forwarding for the durable subscriptions left by earlier bridges.

        (activemq-edges NW8)
        """
        for subscription in self._host.region_broker.subscriptions.all():
            if not isinstance(subscription, DurableTopicSubscription):
                continue
            key, destination = subscription.key, subscription.requested
            name = durable_name(self._host.broker_name, destination)
            if key.client_id == client_id and key.subscription_name == name:
                subscriptions.add_static(destination, name)

    # ForwardingListener
    def confirmed(self, demand: Demand) -> None:
        """Count a forwarded message that was acknowledged."""
        if self._subscriptions is not None:
            self._subscriptions.confirmed(demand)

    def refused(self, message: ActiveMQMessage, error: Exception) -> None:
        """Report a message that the remote broker has refused, if so configured."""
        if self._attributes.advisory_for_failed_forward:
            self._host.broker.network_forward_failed(message, error)

    async def wait_ended(self) -> None:
        """Wait until either connection has failed. Cancellable.

        Raises:
            JMSException: the reason for the end.
        """
        await self._ended.wait()
        assert self._error is not None
        raise ConnectionFailedException(str(self._error)) from self._error

    def fail(self, error: Exception) -> None:
        """End the bridge; only the first error is kept."""
        if self._error is None:
            self._error = error
            self._ended.set()

    async def stop(self) -> None:
        """Close both connections; unconfirmed messages stay at the local broker. Idempotent.

        Not cancellable.
        """
        with anyio.CancelScope(shield=True):
            if self._is_reported:
                self._is_reported = False
                self._host.networks.ended(self)
            last_sent = LAST_DELIVERED_UNSET
            if self._subscriptions is not None:
                self._subscriptions.close()
            if self._forwarder is not None:
                last_sent = self._forwarder.last_sent
                await self._forwarder.stop()
            if self._local is not None:
                await self._local.stop(last_sent)
            if self._inbound is not None:
                await self._inbound.stop()
            if self._remote is not None:
                await self._remote.stop(LAST_DELIVERED_UNSET)

    # from the local broker
    def _on_local(self, command: Command) -> None:
        subscriptions, forwarder = self._subscriptions, self._forwarder
        if self._error is not None or subscriptions is None or forwarder is None:
            return
        if isinstance(command, MessageDispatch):
            demand = subscriptions.of_consumer(command.consumer_id)
            if demand is not None:
                forwarder.forward(command, demand)
        elif isinstance(command, ConsumerControl) and command.close:
            demand = subscriptions.of_consumer(command.consumer_id)
            if demand is not None:
                subscriptions.drop(demand)
        elif isinstance(command, ConnectionErrorCommand):
            logger.warning(
                "Network connector %s: this broker reports an error to the bridge to %s: %s",
                self._attributes.name,
                self.remote_name,
                from_throwable(command.exception),
            )

    # from the remote broker
    def _on_remote(self, command: Command) -> None:
        if isinstance(command, MessageDispatch):
            if command.message is not None:
                self.on_advisory(command.message)
        elif isinstance(command, ActiveMQMessage) and command.type == ADVISORY_TYPE:
            self.on_advisory(command)  # ActiveMQ forwards advisories over a duplex connection
        elif isinstance(command, ConnectionErrorCommand):
            self.fail(self._explained(from_throwable(command.exception)))
        elif isinstance(command, ShutdownInfo):
            self.fail(ConnectionFailedException(f"Broker {self.remote_name} stops"))
        elif isinstance(command, BrokerSubscriptionInfo):
            self.on_subscriptions(command)
        elif self._inbound is not None:
            self._inbound.take(command)

    def _explained(self, error: Exception) -> Exception:
        """Return an error of the remote broker, with an explanation if the client id is in use."""
        if not isinstance(error, InvalidClientIDException):
            return error
        return InvalidClientIDException(
            error.reason,
            hint=f"another broker of the network may be named {self._host.broker_name}, too; or "
            f"{self.remote_name} has not noticed yet that an earlier bridge has ended",
        )

    def on_subscriptions(self, command: BrokerSubscriptionInfo) -> None:
        """Handle the list of all durable subscriptions of the remote broker."""
        attributes = self._attributes
        if not attributes.sync_durable_subs or attributes.dynamic_only or self._error is not None:
            return
        if self._subscriptions is None:
            self._remote_subscriptions = command
        else:
            self._subscriptions.synchronize(command)

    def on_advisory(self, message: ActiveMQMessage) -> None:
        """Handle an advisory about a remote consumer or temporary destination."""
        if self._advisories is not None and self._error is None:
            self._advisories.take(message)


async def _stopped(end: BridgeEnd) -> None:
    with anyio.CancelScope(shield=True):
        await end.stop(LAST_DELIVERED_UNSET)
