"""The context of a JMS connection, before the client is authenticated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pyjms.wire.openwire.commands import ConnectionInfo
from pyjms_broker.api.context import ClientConnection, ConnectionContext
from pyjms_broker.connector.base import TransportConnector

__all__ = ["ContextOwner", "client_context"]


class ContextOwner(ClientConnection, Protocol):
    """The connection of a client."""

    @property
    def congested(self) -> bool:
        """Whether too much unread data is queued for the client."""

    @property
    def peer_certificate(self) -> Mapping[str, Any] | None:
        """The client's TLS certificate, if it was verified."""


def client_context(
    owner: ContextOwner, connector: TransportConnector, info: ConnectionInfo
) -> ConnectionContext:
    """Return a new context; the client's address is also set in `info`."""
    info.client_ip = owner.remote_address
    context = ConnectionContext(owner)
    context.introduce(info)
    context.certificate = owner.peer_certificate
    context.connector_name = connector.name
    context.connector_url = connector.connect_uri
    context.allow_link_stealing = connector.allow_link_stealing
    context.congested = owner.congested
    return context
