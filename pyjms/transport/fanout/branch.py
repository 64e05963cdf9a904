"""The connection to one of the brokers of a fanout transport."""

from __future__ import annotations

from typing import Protocol

from pyjms.transport.openwire.reconnecting import ReconnectingTransport
from pyjms.transport.uri import TransportURI
from pyjms.wire.openwire.commands import Command

__all__ = ["Branch", "BranchOwner"]


class BranchOwner(Protocol):
    """The listener of a branch."""

    def branch_command(self, branch: Branch, command: Command) -> None:
        """Handle a command of the branch's broker."""

    def branch_changed(self, branch: Branch, error: Exception | None) -> None:
        """Record that the branch is connected, or is disconnected because of `error`."""


class Branch:
    """One broker, with a transport that reconnects by itself."""

    def __init__(self, uri: TransportURI, transport: ReconnectingTransport) -> None:
        self.uri = uri
        self.transport = transport
        self.is_connected: bool = False
        self.has_failed: bool = False
        """Whether the transport has given up."""
        self.owner: BranchOwner | None = None
        transport.listener = self
        transport.interruptions = self

    async def start(self) -> None:
        """Connect; the owner is told the outcome."""
        try:
            await self.transport.start()
        except Exception as error:
            self.on_exception(error)
        else:
            self.transport_resumed()

    def on_command(self, command: Command) -> None:
        """Pass a command of the broker to the owner."""
        if self.owner is not None:
            self.owner.branch_command(self, command)

    def on_exception(self, error: Exception) -> None:
        """Record that the transport has given up."""
        self.has_failed = True
        self.transport_interrupted(error)

    def transport_interrupted(self, error: Exception) -> None:
        """Record that the broker is lost."""
        self.is_connected = False
        if self.owner is not None:
            self.owner.branch_changed(self, error)

    def transport_resumed(self) -> None:
        """Record that the transport is connected."""
        self.is_connected = True
        if self.owner is not None:
            self.owner.branch_changed(self, None)
