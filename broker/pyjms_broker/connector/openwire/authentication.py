"""Authentication by ConnectionInfo, then registration. (activemq-broker C1, C2)

While the broker checks a password, which may take time, nothing is read from the client.
"""

from __future__ import annotations

from pyjms.wire.openwire.commands import ConnectionInfo
from pyjms_broker.api.completion import COMPLETED, Completion, checked
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.connector.openwire.connection import BrokerConnection, CommandResult

__all__ = ["on_connection_info"]


def on_connection_info(connection: BrokerConnection, info: ConnectionInfo) -> CommandResult:
    """Authenticate a client and register its JMS connection."""
    context = connection.resources.context_for(info)
    if context is None:
        return COMPLETED
    try:
        authenticated = connection.broker.authenticate(context, info)
    except Exception as error:
        connection.refused(error)
        raise
    if authenticated is COMPLETED:
        _add(connection, info, context)
        return COMPLETED
    return _add_when_authenticated(connection, info, context, authenticated)


def _add(connection: BrokerConnection, info: ConnectionInfo, context: ConnectionContext) -> None:
    context.network_connection = connection.serves_broker
    connection.resources.add_connection(info, context)
    if info.manageable:
        connection.send_command(connection.cluster.list_for(is_back=info.failover_reconnect))
    if info.fault_tolerant:
        connection.cluster.client_joined(connection)


def _add_when_authenticated(
    connection: BrokerConnection,
    info: ConnectionInfo,
    context: ConnectionContext,
    authenticated: Completion,
) -> Completion:
    checked(authenticated, connection.broker, "authenticating a client")
    added = Completion()
    connection.pause_until(added)

    def done(completion: Completion) -> None:
        error = completion.error
        try:
            if error is None:
                _add(connection, info, context)
            else:
                connection.refused(error)
        except Exception as failure:
            error = failure
        added.complete(error)

    authenticated.then(done)
    return added
