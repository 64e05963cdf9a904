"""A transport to one broker, before a failover transport uses it and after."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from pyjms.transport.openwire.correlator import RequestTransport
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import BrokerInfo, Command

__all__ = ["Peer", "open_peer"]


class Peer:
    """One broker and the started transport to it.

    It listens to the transport until somebody else does, and keeps the broker's description.
    """

    def __init__(self, uri: TransportURI, transport: RequestTransport) -> None:
        self.uri = uri
        self.transport = transport
        self.error: Exception | None = None
        self.broker_info: BrokerInfo | None = None
        self.on_lost: Callable[[Peer], None] | None = None
        transport.listener = self

    def dismiss(self) -> None:
        """Listen to the transport again: it is no longer in use."""
        self.on_lost = None
        self.transport.listener = self

    async def stop(self) -> None:
        """Stop the transport. Not cancellable."""
        self.dismiss()
        with anyio.CancelScope(shield=True):
            await self.transport.stop()

    def on_command(self, command: Command) -> None:
        """Keep the broker's description of itself."""
        if isinstance(command, BrokerInfo):
            self.broker_info = command

    def on_exception(self, error: Exception) -> None:
        """Note that the transport has failed."""
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
