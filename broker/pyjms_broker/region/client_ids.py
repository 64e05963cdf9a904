"""The client ids that are connected: one connection each. (activemq-broker C1)"""

from __future__ import annotations

import logging

from pyjms.errors import InvalidClientIDException, JMSException
from pyjms_broker.api.context import ConnectionContext

__all__ = ["ClientIds"]

logger = logging.getLogger(__name__)


class ClientIds:
    """Who has which client id."""

    def __init__(self, broker_name: str) -> None:
        self._broker_name = broker_name
        self._contexts: dict[str, ConnectionContext] = {}

    def claim(self, client_id: str | None, context: ConnectionContext) -> None:
        """Give the id to `context`; where its connector allows it, taken from who has it.

        Raises:
            InvalidClientIDException: there is none, or another connection keeps it.
        """
        if client_id is None:
            raise InvalidClientIDException("No clientID specified for connection request")
        other = self._contexts.get(client_id)
        if other is not None and other is not context:
            self._take_away(client_id, other, context)
        self._contexts[client_id] = context

    def release(self, client_id: str | None, context: ConnectionContext) -> None:
        """Let the id go, unless somebody else has it by now."""
        if client_id is not None and self._contexts.get(client_id) is context:
            del self._contexts[client_id]

    def _take_away(
        self, client_id: str, other: ConnectionContext, context: ConnectionContext
    ) -> None:
        connection = other.connection
        where = "the broker" if connection is None else connection.remote_address
        if connection is None or not context.allow_link_stealing:
            raise InvalidClientIDException(
                f"Broker: {self._broker_name} - Client: {client_id} already connected from {where}"
            )
        text = f"Stealing link for clientId {client_id} From Connection {where}"
        logger.warning("%s", text)
        connection.give_way(JMSException(text))
