"""A bridge, which forwards messages from the local broker to the consumers of a remote one.

    local connection   vm:// to the local broker: subscriptions, their messages, acknowledgements
    remote connection  to the URI: advisories in, messages out

Both are client connections, so users, access rights and limits apply. A message is acknowledged
locally once the remote broker has it. A bridge ends with the first failure of either connection;
the network connector then starts another bridge. (activemq-edges NW1, NW4, NW5)

Over the connection of a duplex bridge the remote broker also sends commands like a client. They are
passed unchanged to the local broker over another `vm://`, and its commands are passed back.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio

from pyjms.errors import (
    ConfigurationException,
    ConnectionFailedException,
    DestinationDoesNotExistException,
    InvalidClientIDException,
    JMSException,
    LocalProtocolError,
    MessageFormatException,
)
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.ids import IdGenerator
from pyjms.runtime.logging import get_logger
from pyjms.transport.base import Transport
from pyjms.transport.openwire.correlator import RequestTransport, from_throwable
from pyjms.transport.registry import create_transport
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire import commands
from pyjms_broker.api.message import copy_command, copy_for_destination
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.openwire.throwables import to_throwable
from pyjms_broker.network.attributes import (
    NetworkConnectorAttributes,
    inbound_properties,
    written_properties,
)
from pyjms_broker.network.demand import (
    BridgeSubscriptions,
    Demand,
    durable_name,
    durable_subscriptions,
)
from pyjms_broker.region.base_destination import ADVISORY_TYPE
from pyjms_broker.region.bridge_filter import may_pass, path_with
from pyjms_broker.region.durable_subscription import DurableTopicSubscription
from pyjms_broker.region.subscription import LAST_DELIVERED_UNSET

if TYPE_CHECKING:
    from pyjms_broker.network.connector import Remote

logger = get_logger(__name__)

_TIMEOUT: Final = 30.0
"""Seconds to wait for the broker's BrokerInfo, and for each response while a bridge starts."""
_SESSION: Final = 1


Login: TypeAlias = tuple[str | None, str | None]
"""User name and password."""


class LoopBackError(ConfigurationException):
    """The remote broker is the local one."""


_LASTING_REFUSALS: Final = (DestinationDoesNotExistException, MessageFormatException)
"""Refusals that another try would meet again: a temporary destination may have been deleted."""


class NetworkBridge:
    """A bridge to one remote broker. Use it on the broker's event loop; it is started once."""

    direction = "inbound"
    """Part of the client id at the local broker."""
    created_by_duplex = False
    """Whether the remote broker opened the connection."""

    def __init__(
        self, host: BrokerHost, attributes: NetworkConnectorAttributes, remote: Remote
    ) -> None:
        self._host = host
        self._attributes = attributes
        self._where = remote
        self._inbound: _InboundConnection | None = None
        self._remote: BridgeEnd | None = None
        self._local: BridgeEnd | None = None
        self._local_transport: RequestTransport | None = None
        self._subscriptions: BridgeSubscriptions | None = None
        self._under_way: dict[commands.MessageDispatch, int] = {}
        """Forwarded messages without a confirmation, with their sequence numbers."""
        self._waiting: BackgroundTask | None = None
        self.enqueue_count = 0
        """The number of messages that the local broker has dispatched to the bridge."""
        self.dequeue_count = 0
        """The number of messages that the remote broker has received."""
        self.received_count = 0
        """The number of messages that the remote broker has sent over a duplex connection."""
        self._error: Exception | None = None
        self._ended = anyio.Event()
        self._is_reported = False
        self._remote_subscriptions: commands.BrokerSubscriptionInfo | None = None
        self.remote = commands.BrokerInfo(commands.BrokerId())
        """The remote broker's description of itself, once known, without secrets."""

    @property
    def remote_name(self) -> str:
        """The name of the remote broker, once known."""
        return self.remote.broker_name or ""

    @property
    def remote_id(self) -> commands.BrokerId:
        """The id of the remote broker, once known."""
        return self.remote.broker_id or commands.BrokerId()

    def _describe(self, info: commands.BrokerInfo) -> None:
        """Store the remote broker's description of itself, without the options of its bridge."""
        self.remote = commands.BrokerInfo(
            info.broker_id, info.broker_url, broker_name=info.broker_name, network_connection=True
        )

    @property
    def connector_name(self) -> str:
        """The name of its network connector, which may belong to the remote broker."""
        return self._attributes.name

    @property
    def remote_address(self) -> str:
        """The address of the remote broker; empty until connected."""
        return "" if self._remote is None else self._remote.transport.remote_address

    @property
    def local_address(self) -> str:
        """The address of the local broker; empty until connected."""
        return "" if self._local is None else self._local.transport.remote_address

    def reset_counts(self) -> None:
        """Reset the message counters. ActiveMQ: resetStats."""
        self.enqueue_count = self.dequeue_count = self.received_count = 0

    async def start(self) -> None:
        """Connect both brokers, and forward from now on. Call `stop` afterwards in any case."""
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
            raise self._explain(error) from error
        self._local_transport = _local_transport(host)
        self._local = local = BridgeEnd(self._local_transport, self._on_local, self.fail)
        await local.start()
        client_id = token.join(
            (attributes.name, self.remote_name, self.direction, host.broker_name)
        )
        await local.open(client_id, *self._local_login())
        await self._subscribe(local, remote)
        self._is_reported = True
        host.networks.on_start(self)

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
                await _stop(end)
            except BaseException:
                await _stop(end)
                raise
            else:
                self._describe(introduction)
                return end
        raise failure or ConnectionFailedException(f"{self._where} names no broker")

    async def _introduce(self, remote: BridgeEnd) -> None:
        """Send the BrokerInfo of the bridge, which says whether it is duplex."""
        attributes, host = self._attributes, self._host
        info = commands.BrokerInfo(
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
        self._inbound = _InboundConnection(self, host, remote.transport)
        about = copy_command(self.remote)
        about.network_properties = inbound_properties(attributes)
        await self._inbound.start(about)
        remote.transport.oneway(info)
        if attributes.sync_durable_subs:
            remote.transport.oneway(durable_subscriptions(host, attributes))

    async def _subscribe(self, local: BridgeEnd, remote: BridgeEnd) -> None:
        attributes = self._attributes
        self._subscriptions = subscriptions = BridgeSubscriptions(
            self._host, attributes, self.remote_id, local, remote
        )
        for destination in attributes.statically_included_destinations:
            subscriptions.add_static(destination)
        if not attributes.dynamic_only:
            self._resume_durables(subscriptions, local.client_id)
        if self._remote_subscriptions is not None:
            subscriptions.synchronize(self._remote_subscriptions)
        if not attributes.static_bridge:
            await subscriptions.subscribe()

    def _resume_durables(self, subscriptions: BridgeSubscriptions, client_id: str) -> None:
        """Resume forwarding for the durable subscriptions left by earlier bridges."""
        for subscription in self._host.region_broker.subscriptions.all():
            if not isinstance(subscription, DurableTopicSubscription):
                continue
            key, destination = subscription.key, subscription.requested
            name = durable_name(self._host.broker_name, destination)
            if key.client_id == client_id and key.subscription_name == name:
                subscriptions.add_static(destination, name)

    async def wait_ended(self) -> None:
        """Wait until either connection has failed. Cancellable."""
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
                self._host.networks.on_end(self)
            if self._subscriptions is not None:
                self._subscriptions.close()
            # the remote broker may have the messages up to this one
            last_sent = max(self._under_way.values(), default=LAST_DELIVERED_UNSET)
            await end_tasks(self._waiting)
            if self._local is not None:
                await self._local.stop(last_sent)
            if self._inbound is not None:
                await self._inbound.stop()
            if self._remote is not None:
                await self._remote.stop(LAST_DELIVERED_UNSET)

    # from the local broker
    def _on_local(self, command: commands.Command) -> None:
        subscriptions = self._subscriptions
        if self._error is not None or subscriptions is None:
            return
        if isinstance(command, commands.MessageDispatch):
            demand = subscriptions.of_consumer(command.consumer_id)
            if demand is not None:
                self._forward(command, demand)
        elif isinstance(command, commands.ConsumerControl) and command.close:
            demand = subscriptions.of_consumer(command.consumer_id)
            if demand is not None:
                subscriptions.drop(demand)
        elif isinstance(command, commands.ConnectionError):
            logger.warning(
                "Network connector %s: this broker reports an error to the bridge to %s: %s",
                self._attributes.name,
                self.remote_name,
                from_throwable(command.exception),
            )

    def _forward(self, dispatch: commands.MessageDispatch, demand: Demand) -> None:
        """Forward a message; if it may not pass, a durable subscription only acknowledges it."""
        message = dispatch.message
        local, remote = self._local, self._remote
        if message is None or local is None or remote is None or demand.is_closing:
            return
        self.enqueue_count += 1
        bridge = demand.local.additional_predicate
        if demand.is_durable and bridge is not None and not may_pass(bridge, message):
            local.send(_acknowledgement(dispatch, message))
            return
        destination = dispatch.destination or message.destination
        assert destination is not None
        copy = copy_for_destination(message, destination, None)
        copy.broker_path = path_with(message.broker_path, self._host.broker_id)
        copy.producer_id = remote.producer_id
        copy.original_transaction_id = message.original_transaction_id or message.transaction_id
        copy.transaction_id = None
        copy.raw = None
        if self._attributes.use_compression:
            _compress(copy)
        try:
            if message.persistent or self._attributes.always_sync_send:
                demand.unconfirmed += 1
                number = message.message_id.broker_sequence_id if message.message_id else 0
                self._under_way[dispatch] = number
                remote.transport.request_soon(copy, partial(self._on_answer, dispatch, demand))
            else:
                remote.transport.oneway(copy)
                local.send(_acknowledgement(dispatch, message))
                self.dequeue_count += 1
        except ConnectionFailedException as error:
            self.fail(error)
            return
        except LocalProtocolError as error:  # the frames to the remote broker cannot carry it
            if self._under_way.pop(dispatch, None) is not None:
                demand.unconfirmed -= 1
            self._dead_letter(dispatch, message, error)
            return
        if remote.transport.congested and self._waiting is None:
            if self._local_transport is not None:
                self._local_transport.pause_reading()
            self._waiting = spawn(self._wait_for_remote, remote, name="pyjms bridge drain")

    def _on_answer(
        self,
        dispatch: commands.MessageDispatch,
        demand: Demand,
        outcome: commands.Response | Exception,
    ) -> None:
        message = dispatch.message
        assert message is not None
        refusal: Exception | None = None
        if isinstance(outcome, Exception):
            is_refused = not isinstance(outcome, ConnectionFailedException)
            if is_refused and self._attributes.advisory_for_failed_forward:
                self._host.broker.network_forward_failed(message, outcome)
            if not isinstance(outcome, _LASTING_REFUSALS):
                self.fail(outcome)
                return
            refusal = outcome
        self._under_way.pop(dispatch, None)
        demand.unconfirmed -= 1
        if refusal is not None:
            self._dead_letter(dispatch, message, refusal)
        elif self._local is not None:
            self.dequeue_count += 1
            self._local.send(_acknowledgement(dispatch, message))
        if self._subscriptions is not None:
            self._subscriptions.end_if_confirmed(demand)

    def _dead_letter(
        self,
        dispatch: commands.MessageDispatch,
        message: commands.ActiveMQMessage,
        refusal: Exception,
    ) -> None:
        """Let the local broker dead-letter a message that will never be forwarded."""
        logger.warning("%s is not forwarded: %s", message.message_id, refusal)
        if self._local is not None:
            self._local.send(_acknowledgement(dispatch, message, refusal))

    async def _wait_for_remote(self, remote: BridgeEnd) -> None:
        await remote.transport.drain()
        self._waiting = None
        if self._local_transport is not None:
            self._local_transport.resume_reading()

    # from the remote broker
    def _on_remote(self, command: commands.Command) -> None:
        if isinstance(command, commands.MessageDispatch):
            if command.message is not None:
                self.on_advisory(command.message)
        elif isinstance(command, commands.ActiveMQMessage) and command.type == ADVISORY_TYPE:
            self.on_advisory(command)  # ActiveMQ forwards advisories over a duplex connection
        elif isinstance(command, commands.ConnectionError):
            error = from_throwable(command.exception)
            if isinstance(error, MessageFormatException):  # its message is acknowledged already
                logger.warning("%s has refused a message: %s", self.remote_name, error)
            else:
                self.fail(self._explain(error))
        elif isinstance(command, commands.ShutdownInfo):
            self.fail(ConnectionFailedException(f"Broker {self.remote_name} stops"))
        elif isinstance(command, commands.BrokerSubscriptionInfo):
            self.on_subscriptions(command)
        elif self._inbound is not None:
            self.received_count += isinstance(command, commands.ActiveMQMessage)
            self._inbound.take(command)

    def _explain(self, error: Exception) -> Exception:
        """Return an error of the remote broker, with an explanation if the client id is in use."""
        if not isinstance(error, InvalidClientIDException):
            return error
        return InvalidClientIDException(
            error.reason,
            hint=f"another broker of the network may be named {self._host.broker_name}, too; or "
            f"{self.remote_name} has not noticed yet that an earlier bridge has ended",
        )

    def on_subscriptions(self, command: commands.BrokerSubscriptionInfo) -> None:
        """Handle the list of all durable subscriptions of the remote broker."""
        attributes = self._attributes
        if not attributes.sync_durable_subs or attributes.dynamic_only or self._error is not None:
            return
        if self._subscriptions is None:
            self._remote_subscriptions = command
        else:
            self._subscriptions.synchronize(command)

    def on_advisory(self, message: commands.ActiveMQMessage) -> None:
        """Handle an advisory about a remote consumer or temporary destination."""
        if self._subscriptions is not None and self._error is None:
            self._subscriptions.take(message)


async def _stop(end: BridgeEnd) -> None:
    with anyio.CancelScope(shield=True):
        await end.stop(LAST_DELIVERED_UNSET)


def _acknowledgement(
    dispatch: commands.MessageDispatch,
    message: commands.ActiveMQMessage,
    refusal: Exception | None = None,
) -> commands.MessageAck:
    return commands.MessageAck(
        dispatch.destination,
        consumer_id=dispatch.consumer_id,
        ack_type=int(commands.AckType.INDIVIDUAL if refusal is None else commands.AckType.POISON),
        first_message_id=message.message_id,
        last_message_id=message.message_id,
        message_count=1,
        poison_cause=None if refusal is None else to_throwable(refusal),
    )


def _compress(message: commands.ActiveMQMessage) -> None:
    """Compress an uncompressed body; that of a BytesMessage is preceded by its size."""
    content = message.content
    if message.compressed or not content:
        return
    body = bytes(content)
    packed = zlib.compress(body)
    if isinstance(message, commands.ActiveMQBytesMessage):
        packed = len(body).to_bytes(4, "big") + packed
    message.content, message.compressed = packed, True


def _local_transport(host: BrokerHost) -> RequestTransport:
    """Return a transport to the local broker that is not started."""
    options = {"create": "false", "network": "true"}
    return create_transport(TransportURI("vm", host.broker_name, options))


class _InboundConnection:
    """Passes commands unchanged between the remote and the local broker."""

    def __init__(
        self, bridge: NetworkBridge, host: BrokerHost, remote: Transport[commands.Command]
    ) -> None:
        self._remote = remote
        self._fail = bridge.fail
        # without the correlator, which would renumber the commands
        self._local = _local_transport(host).next
        self._local.listener = self

    async def start(self, about: commands.BrokerInfo) -> None:
        """Connect to the local broker; `about` describes the remote one."""
        await self._local.start()
        self._local.oneway(about)

    def take(self, command: commands.Command) -> None:
        """Pass a command of the remote broker to the local one."""
        try:
            self._local.oneway(command)
        except ConnectionFailedException as error:
            self._fail(error)

    async def stop(self) -> None:
        """Close the connection to the local broker. Idempotent."""
        await self._local.stop()

    # from the own broker
    def on_command(self, command: commands.Command) -> None:
        """Pass a command of the local broker to the remote one, except for its BrokerInfo."""
        if isinstance(command, commands.BrokerInfo):
            return
        try:
            self._remote.oneway(command)
        except ConnectionFailedException as error:
            self._fail(error)
        except LocalProtocolError as error:
            if not isinstance(command, commands.MessageDispatch) or command.message is None:
                raise
            logger.warning("%s is not forwarded: %s", command.message.message_id, error)
            self.take(_acknowledgement(command, command.message, error))

    def on_exception(self, error: Exception) -> None:
        """End the bridge, because the local broker has closed the connection."""
        self._fail(error)


class BridgeEnd:
    """A connection of a bridge, with one session and one producer without a destination.

    Args:
        transport: the transport, not started.
        on_command: called with the broker's commands other than responses.
        on_failure: called with the failure of the transport.
        is_duplex: whether the broker at the other end also forwards over the connection.
    """

    def __init__(
        self,
        transport: RequestTransport,
        on_command: Callable[[commands.Command], None],
        on_failure: Callable[[Exception], None],
        *,
        is_duplex: bool = False,
    ) -> None:
        self.transport = transport
        self.connection_id = commands.ConnectionId(IdGenerator().generate())
        self.producer_id = commands.ProducerId(self.connection_id.value, 1, _SESSION)
        self.client_id = ""
        self._deliver = on_command
        self._fail = on_failure
        self._consumers = itertools.count(1)
        self._introduction: commands.BrokerInfo | None = None
        self._introduced = anyio.Event()
        self._error: Exception | None = None
        self._has_connection = False
        self._is_duplex = is_duplex
        transport.listener = self

    def next_consumer_id(self) -> commands.ConsumerId:
        """Return the id of a new consumer of the session."""
        return commands.ConsumerId(self.connection_id.value, _SESSION, next(self._consumers))

    async def start(self) -> commands.BrokerInfo:
        """Connect; return the broker's BrokerInfo."""
        await self.transport.start()
        with _clock.timeout(_TIMEOUT):
            await self._introduced.wait()
        if self._introduction is None:
            raise ConnectionFailedException(
                f"{self.transport.remote_address}: the broker has not introduced itself"
            ) from self._error
        return self._introduction

    async def open(self, client_id: str, user_name: str | None, password: str | None) -> None:
        """Log in, and open the session and the producer."""
        self.client_id = client_id
        info = commands.ConnectionInfo(self.connection_id, client_id, password, user_name)
        self._has_connection = True
        await self.request(info)
        await self.request(
            commands.SessionInfo(commands.SessionId(self.connection_id.value, _SESSION))
        )
        await self.request(commands.ProducerInfo(self.producer_id))

    async def request(self, command: commands.Command) -> None:
        """Send a command and wait for its response, which a duplex connection does not have."""
        if self._is_duplex:
            self.transport.oneway(command)  # a refusal arrives as a ConnectionError
        else:
            await self.transport.request(command, _TIMEOUT)

    def send(self, command: commands.Command) -> None:
        """Send a command; end the bridge if the transport has failed."""
        try:
            self.transport.oneway(command)
        except ConnectionFailedException as error:
            self._fail(error)

    def try_request(
        self, command: commands.Command, on_refusal: Callable[[Exception], None] | None = None
    ) -> None:
        """Send a command without waiting; a refusal is passed to `on_refusal`, or logged."""

        def on_response(outcome: commands.Response | Exception) -> None:
            # a failure of the connection ends the bridge anyway
            if isinstance(outcome, Exception) and not isinstance(
                outcome, ConnectionFailedException
            ):
                if on_refusal is not None:
                    on_refusal(outcome)
                else:
                    logger.warning("A request of a network bridge was refused: %s", outcome)

        try:
            self.transport.request_soon(command, on_response)
        except ConnectionFailedException as error:
            logger.debug("%s: nothing is sent: %s", self.transport.remote_address, error)

    async def stop(self, last_delivered: int) -> None:
        """Close the connection; messages after `last_delivered` were not processed. Idempotent."""
        if self._has_connection and self._error is None:
            self._has_connection = False
            try:
                end = commands.RemoveInfo(self.connection_id, last_delivered)
                self.transport.oneway(commands.ShutdownInfo() if self._is_duplex else end)
            except ConnectionFailedException as error:
                logger.debug("%s is lost already: %s", self.transport.remote_address, error)
        await self.transport.stop()

    # from the transport
    def on_command(self, command: commands.Command) -> None:
        """Handle a command of the broker."""
        if isinstance(command, commands.BrokerInfo):
            self._introduction = command
            self._introduced.set()
        else:
            self._deliver(command)

    def on_exception(self, error: Exception) -> None:
        """Handle a failure of the transport."""
        self._error = error
        self._introduced.set()
        self._fail(error)
