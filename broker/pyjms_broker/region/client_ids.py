"""The client ids in use, each by one connection. (activemq-broker C1)"""

from __future__ import annotations

from pyjms._logger import get_logger
from pyjms.errors import InvalidClientIDException, JMSException
from pyjms_broker.api.context import ConnectionContext

__all__ = ["ClientIds"]

logger = get_logger(__name__)


class ClientIds:
    """The connections by client id."""

    def __init__(self, broker_name: str) -> None:
        self._broker_name = broker_name
        self._contexts: dict[str, ConnectionContext] = {}

    def claim(self, client_id: str | None, context: ConnectionContext) -> None:
        """Assign the client id to `context`.

        If the connector allows link stealing, another connection with that id is closed.

        Raises:
            InvalidClientIDException: there is no id, or another connection uses it and keeps it.
        """
        if client_id is None:
            raise InvalidClientIDException("No clientID specified for connection request")
        other = self._contexts.get(client_id)
        if other is not None and other is not context:
            self._steal_link(client_id, other, context)
        self._contexts[client_id] = context

    def release(self, client_id: str | None, context: ConnectionContext) -> None:
        """Release the id, unless another connection has taken it over."""
        if client_id is not None and self._contexts.get(client_id) is context:
            del self._contexts[client_id]

    def _steal_link(
        self, client_id: str, other: ConnectionContext, context: ConnectionContext
    ) -> None:
        connection = other.connection
        address = "the broker" if connection is None else connection.remote_address
        if connection is None or not context.allow_link_stealing:
            raise InvalidClientIDException(
                f"Broker: {self._broker_name} - Client: {client_id} "
                f"already connected from {address}"
            )
        text = f"Stealing link for clientId {client_id} From Connection {address}"
        logger.warning("%s", text)
        connection.give_way(JMSException(text))
