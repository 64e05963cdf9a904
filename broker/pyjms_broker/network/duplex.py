"""The accepting end of duplex bridges, which forwards to the broker that opened the connection.

Requests of the other broker are handled like those of any client; its responses and its advisories
about consumers go to a bridge in the opposite direction. (activemq-edges NW1)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from pyjms.errors import ConnectionFailedException, JMSException
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import spawn
from pyjms.runtime.logging import get_logger
from pyjms.transport.base import Transport
from pyjms.transport.openwire.correlator import ResponseCorrelator
from pyjms.wire.openwire import commands
from pyjms.wire.openwire.schema import MESSAGES
from pyjms_broker.api.completion import COMPLETED
from pyjms_broker.connector.base import BrokerHost
from pyjms_broker.connector.openwire.command_handlers import RESPONSES
from pyjms_broker.connector.openwire.connection import (
    BrokerConnection,
    CommandHandler,
    CommandResult,
)
from pyjms_broker.network.attributes import NetworkConnectorAttributes
from pyjms_broker.network.bridge import BridgeEnd, Login, NetworkBridge
from pyjms_broker.network.connector import Remote
from pyjms_broker.region.base_destination import ADVISORY_TYPE

logger = get_logger(__name__)

_LOGIN = 30.0
"""Seconds within which the other broker must log in."""


def reverse_handlers(bridge: ReverseBridge, send: CommandHandler) -> dict[int, CommandHandler]:
    """Return the handlers of what the broker to which `bridge` forwards sends other than requests.

    `send` handles its messages.
    """

    def take(_connection: BrokerConnection, command: commands.Command) -> CommandResult:
        bridge.take(command)
        return COMPLETED

    def on_message(
        connection: BrokerConnection, message: commands.ActiveMQMessage
    ) -> CommandResult:
        bridge.received_count += 1
        return send(connection, message)

    def on_plain_message(
        connection: BrokerConnection, message: commands.ActiveMQMessage
    ) -> CommandResult:
        handler = take if message.type == ADVISORY_TYPE else on_message
        return handler(connection, message)

    answers = (*RESPONSES, commands.MessageDispatch.TYPE, commands.ConnectionError.TYPE)
    return {
        **dict.fromkeys((*answers, commands.BrokerSubscriptionInfo.TYPE), take),
        **dict.fromkeys(MESSAGES, on_message),
        commands.ActiveMQMessage.TYPE: on_plain_message,
    }


class ReverseBridge(NetworkBridge):
    """A bridge over a connection that the remote broker opened."""

    direction = "inbound_duplex"
    created_by_duplex = True

    def __init__(
        self,
        host: BrokerHost,
        attributes: NetworkConnectorAttributes,
        connection: BrokerConnection,
        info: commands.BrokerInfo,
    ) -> None:
        super().__init__(host, attributes, Remote(()))
        self._connection = connection
        self._stopped = anyio.Event()
        self._login = anyio.CancelScope()
        self._correlator = ResponseCorrelator(_AcceptedConnection(connection))
        self._describe(info)

    def take(self, command: commands.Command) -> None:
        """Handle a response to this bridge's requests, an advisory or a list of subscriptions."""
        if isinstance(command, commands.ActiveMQMessage):
            self.on_advisory(command)
        elif isinstance(command, commands.BrokerSubscriptionInfo):
            self.on_subscriptions(command)
        else:
            self._correlator.on_command(command)

    def end(self, error: Exception | None) -> None:
        """End the bridge, because the connection has ended with this error."""
        self.fail(error or ConnectionFailedException(f"{self.remote_name} has left"))
        self._login.cancel()

    async def wait_stopped(self) -> None:
        """Wait until it has ended and has disconnected from the local broker."""
        await self._stopped.wait()

    @asynccontextmanager
    async def _logging_in(self) -> AsyncIterator[bool]:
        """Wait until the other broker is authenticated; yield whether it is.

        Until then it gets nothing, and ends no other bridge. The connection is watched until the
        end of the block.
        """
        added = self._connection.resources.connection_added
        watch = spawn(self._watch, name=f"duplex bridge to {self.remote_name} watch")
        try:
            with self._login, _clock.timeout(_LOGIN):
                await added.wait()
            yield added.is_set()
        finally:
            watch.cancel()
            self._stopped.set()

    async def live(self, bridges: dict[str, ReverseBridge]) -> None:
        """Forward from the login of the other broker until the connection ends.

        It is in `bridges` meanwhile, and ends an earlier bridge of the same network connector.
        """
        key = f"{self.connector_name}@{self.remote_id}"
        async with self._logging_in() as is_logged_in:
            if not is_logged_in:
                return
            while (earlier := bridges.get(key)) is not None:
                earlier.end(ConnectionFailedException("Its network connector has connected again"))
                await earlier.wait_stopped()
            bridges[key] = self
            try:
                await self._live()
            finally:
                del bridges[key]

    async def _live(self) -> None:
        address = self._connection.remote_address
        try:
            await self.start()
            logger.info("Duplex bridge to %s at %s established", self.remote_name, address)
            await self.wait_ended()
        except JMSException as error:
            logger.warning("The duplex bridge to %s has ended: %s", self.remote_name, error)
            self._connection.stop_soon(error)
        finally:
            await self.stop()

    async def _watch(self) -> None:
        await self._connection.wait_stopped()
        self.end(None)

    def _remote_login(self) -> Login:
        return self._attributes.user_name, self._attributes.password

    def _local_login(self) -> Login:
        """Return the other broker's login: the bridge has the rights of its connection."""
        states = self._connection.resources.connections.values()
        return next(((each.info.user_name, each.info.password) for each in states), (None, None))

    async def _reach(self) -> BridgeEnd:
        return BridgeEnd(self._correlator, self._on_remote, self.fail, is_duplex=True)

    async def _introduce(self, remote: BridgeEnd) -> None:
        """Do nothing: the connector has already sent the BrokerInfo."""


class _AcceptedConnection(Transport[commands.Command]):
    """The sending half of an accepted connection, whose owner handles the input."""

    def __init__(self, connection: BrokerConnection) -> None:
        self._connection = connection

    async def start(self) -> None:
        """Do nothing: the connection is already open."""

    async def stop(self) -> None:
        self._connection.stop_soon()

    def oneway(self, command: commands.Command) -> None:
        self._connection.send_command(command)

    @property
    def congested(self) -> bool:
        return self._connection.congested

    async def drain(self) -> None:
        await self._connection.drain()

    @property
    def remote_address(self) -> str:
        return self._connection.remote_address

    def pause_reading(self) -> None:
        """Do nothing: the other broker's commands are read in any case."""

    def resume_reading(self) -> None:
        """Do nothing, as reading is never paused."""
