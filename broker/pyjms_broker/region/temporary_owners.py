"""Whose the temporary destinations are: other connections send to them, but do not consume.

JMS: a temporary destination is consumed by the connection that created it. Its name begins with the
id of that connection, so the name says whose it is, even before it exists. Bridges create those of
connections of other brokers, which belong to the bridge here. (activemq-edges SE35)
"""

from __future__ import annotations

from pyjms.jms.destination import Destination
from pyjms_broker.api.context import ConnectionContext


class TemporaryOwners:
    """The owners of a broker's temporary destinations."""

    def __init__(self) -> None:
        self._connections: dict[str, ConnectionContext] = {}
        self._creators: dict[Destination, ConnectionContext] = {}

    def add_connection(self, context: ConnectionContext) -> None:
        """Let the names that begin with the connection's id belong to it."""
        if context.connection_id is not None:
            self._connections[str(context.connection_id.value)] = context

    def remove_connection(self, context: ConnectionContext) -> None:
        """Forget a connection, unless a newer one has its id."""
        if context.connection_id is not None:
            value = str(context.connection_id.value)
            if self._connections.get(value) is context:
                del self._connections[value]

    def on_created(self, context: ConnectionContext, destination: Destination) -> None:
        """Record which connection has created a temporary destination."""
        if destination.is_temporary and not context.is_broker:
            self._creators[destination] = context

    def on_removed(self, destination: Destination) -> None:
        """Forget a destination."""
        self._creators.pop(destination, None)

    def may_use(self, context: ConnectionContext, destination: Destination) -> bool:
        """Return whether a connection may consume, create or remove a temporary destination."""
        access = context.access
        if access is None or not destination.is_temporary:
            return True
        connection_id = destination.physical_name.rpartition(":")[0]
        owner = self._connections.get(connection_id) or self._creators.get(destination)
        if owner is None or owner is context:
            return True
        if owner.network_connection and context.network_connection and owner.user == context.user:
            return True  # two bridges that know the same remote connection
        return access.may_administer(destination)

    def check_creation(self, context: ConnectionContext, destination: Destination) -> None:
        """Check that a connection may create a destination.

        Who creates the next one of a connection to another broker would get its replies.

        Raises:
            JMSSecurityException: it is temporary and not named for the connection.
        """
        access, own = context.access, context.connection_id
        self.check(context, "create", destination)
        if access is None or own is None or context.network_connection:
            return
        for member in destination.composite_destinations:
            is_own = member.physical_name.rpartition(":")[0] == str(own.value)
            if member.is_temporary and not is_own and not access.may_administer(member):
                access.refuse("create", member.qualified_name)

    def check(self, context: ConnectionContext, action: str, destination: Destination) -> None:
        """Check that a connection may do that to a destination, or to all members of a composite.

        What a pattern matches is checked with `may_use` when it attaches.

        Raises:
            JMSSecurityException: one of them is temporary and of another connection.
        """
        access = context.access
        for member in () if access is None else destination.composite_destinations:
            if access is not None and not member.is_pattern and not self.may_use(context, member):
                access.refuse(action, member.qualified_name)
