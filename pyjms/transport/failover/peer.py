"""A transport to one broker, before, while and after a failover transport uses it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

import anyio

from pyjms.transport.base import TransportListener
from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import BrokerInfo, Command, ConnectionControl

__all__ = ["Peer", "open_peer"]

_MOST_CONTROLS: Final = 16


class Peer:
    """One broker and the started transport to it.

    It listens to the transport until another listener is set, and keeps the broker's BrokerInfo and
    its latest ConnectionControl commands: ActiveMQ sends the list of its cluster before the
    response to ConnectionInfo.
    """

    def __init__(self, uri: TransportURI, transport: RequestTransport) -> None:
        self.uri = uri
        self.transport = transport
        self.error: Exception | None = None
        self.broker_info: BrokerInfo | None = None
        self.on_lost: Callable[[Peer], None] | None = None
        self._controls: deque[ConnectionControl] = deque(maxlen=_MOST_CONTROLS)
        transport.listener = self

    def dismiss(self) -> None:
        """Listen to the transport again, because it is no longer in use."""
        self.on_lost = None
        self.transport.listener = self

    async def stop(self) -> None:
        """Stop the transport. Not cancellable."""
        self.dismiss()
        with anyio.CancelScope(shield=True):
            await self.transport.stop()

    def on_command(self, command: Command) -> None:
        """Keep the BrokerInfo and the commands about the broker's cluster."""
        if isinstance(command, BrokerInfo):
            self.broker_info = command
        elif isinstance(command, ConnectionControl):
            self._controls.append(command)

    def deliver_to(self, listener: TransportListener[Command]) -> None:
        """Pass on the ConnectionControl commands so far, while `listener` is the transport's."""
        while self._controls and self.transport.listener is listener:
            listener.on_command(self._controls.popleft())

    def on_exception(self, error: Exception) -> None:
        """Record that the transport has failed."""
        self.error = error
        if self.on_lost is not None:
            self.on_lost(self)


async def open_peer(uri: TransportURI, create: Callable[[TransportURI], RequestTransport]) -> Peer:
    """Return a started transport to the broker `uri`.

    Raises:
        JMSException: there is no connection.
    """
    peer = Peer(uri, create(uri))
    try:
        await peer.transport.start()
    except BaseException:
        await peer.stop()
        raise
    return peer
