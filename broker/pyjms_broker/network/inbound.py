"""The inbound direction of a duplex bridge: the remote broker as a client of the local one.

Over the bridge's connection the remote broker sends commands like a client. They are passed
unchanged to the local broker over `vm://`, and the local broker's commands are passed back.
(activemq-edges NW1)
"""

from __future__ import annotations

from collections.abc import Callable

from pyjms.errors import ConnectionFailedException
from pyjms.transport import Channel, create_transport
from pyjms.transport.openwire import RequestTransport
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import ActiveMQMessage, BrokerInfo, Command
from pyjms_broker.network.host import NetworkHost

__all__ = ["InboundConnection", "local_transport"]


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
