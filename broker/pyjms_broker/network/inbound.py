"""The other direction of a duplex bridge: the remote broker as a client of this one.

Over the bridge's connection the remote broker sends what a client sends. It is passed to the own
broker over `vm://` as it comes, and what the own broker sends goes back. (activemq-edges NW1)
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
    """Return a transport to the own broker, not started."""
    options = {"create": "false", "network": "true"}
    return create_transport(TransportURI("vm", host.broker_name, options))


class InboundConnection:
    """Passes commands between the remote and the own broker, unchanged.

    Args:
        host: the own broker.
        remote: the bridge's transport to the remote broker.
        fail: ends the bridge.
    """

    def __init__(
        self, host: NetworkHost, remote: Channel[Command], fail: Callable[[Exception], None]
    ) -> None:
        self._remote = remote
        self._fail = fail
        # without the correlator, which would number the commands anew
        self._local = local_transport(host).next
        self._local.listener = self
        self.received_count = 0
        """How many messages the remote broker has sent."""

    async def start(self, about: BrokerInfo) -> None:
        """Connect to the own broker; `about` describes the remote one.

        Raises:
            ConnectionFailedException: it is stopping.
        """
        await self._local.start()
        self._local.oneway(about)

    def take(self, command: Command) -> None:
        """Pass on a command of the remote broker."""
        if isinstance(command, ActiveMQMessage):
            self.received_count += 1
        try:
            self._local.oneway(command)
        except ConnectionFailedException as error:
            self._fail(error)

    async def stop(self) -> None:
        """End the connection to the own broker. Idempotent."""
        await self._local.stop()

    # from the own broker
    def on_command(self, command: Command) -> None:
        """Pass on what the own broker sends; the bridge has introduced it already."""
        if isinstance(command, BrokerInfo):
            return
        try:
            self._remote.oneway(command)
        except ConnectionFailedException as error:
            self._fail(error)

    def on_exception(self, error: Exception) -> None:
        """End the bridge: the own broker has closed the connection."""
        self._fail(error)
