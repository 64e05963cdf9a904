"""The resources of a client: JMS connections, sessions, producers and consumers.

Bookkeeping only; the error messages about unregistered resources are ActiveMQ's.
(activemq-broker C3, C4)
"""

from __future__ import annotations

from typing import TypeVar

from pyjms.errors import IllegalStateException
from pyjms.jms.destination import ADVISORY_PREFIX, Destination
from pyjms.wire.openwire import commands
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ConnectionContext

__all__ = [
    "ConnectionState",
    "DeferredResponse",
    "ResourceCount",
    "SessionState",
    "check_limit",
    "connection_of",
    "registered",
    "session_of",
    "taken",
]

T = TypeVar("T")
Id = TypeVar("Id")
Info = TypeVar("Info")
Exchange = TypeVar("Exchange")

IMPLICIT_SESSION = -1
"""The session that every connection has without a SessionInfo, used by advisory consumers."""


class DeferredResponse(Completion):
    """A completion whose response has a value."""

    __slots__ = ("response",)

    def __init__(self, response: commands.Response) -> None:
        """Send `response` when the operation finishes without an error."""
        super().__init__()
        self.response = response


class SessionState:
    """The producers and consumers of one session."""

    __slots__ = ("consumers", "info", "producers")

    def __init__(self, info: commands.SessionInfo) -> None:
        self.info = info
        self.producers: dict[commands.ProducerId, commands.ProducerInfo] = {}
        self.consumers: dict[commands.ConsumerId, commands.ConsumerInfo] = {}


class ResourceCount:
    """The number of consumers or producers, with those on advisory topics counted separately."""

    __slots__ = ("_advisory", "_plain")

    def __init__(self) -> None:
        self._plain = 0
        self._advisory = 0

    def check(
        self, destination: Destination | None, limit: int | None, kind: str, where: object
    ) -> None:
        """Refuse another one on `destination`, like `check_limit`."""
        check_limit(
            self._advisory if _is_advisory(destination) else self._plain, limit, kind, where
        )

    def add(self, destination: Destination | None) -> None:
        """Count another one on `destination`."""
        if _is_advisory(destination):
            self._advisory += 1
        else:
            self._plain += 1

    def remove(self, destination: Destination | None) -> None:
        """Count one fewer on `destination`."""
        if _is_advisory(destination):
            self._advisory -= 1
        else:
            self._plain -= 1


class ConnectionState:
    """One JMS connection; a client usually has one over its transport."""

    __slots__ = (
        "consumers",
        "context",
        "info",
        "maximum_transactions",
        "producers",
        "sessions",
        "temporary",
        "transactions",
    )

    def __init__(
        self,
        info: commands.ConnectionInfo,
        context: ConnectionContext,
        maximum_transactions: int = 10_000,
    ) -> None:
        self.info = info
        self.maximum_transactions = maximum_transactions
        self.context = context
        self.sessions: dict[commands.SessionId, SessionState] = {}
        self.consumers = ResourceCount()
        self.producers = ResourceCount()
        self.temporary: dict[Destination, commands.DestinationInfo] = {}
        self.transactions: dict[commands.TransactionId, int | None] = {}
        """Open transactions; the value is the response to PREPARE."""
        identifier = info.connection_id.value if info.connection_id is not None else None
        implicit = commands.SessionId(identifier, IMPLICIT_SESSION)
        self.sessions[implicit] = SessionState(commands.SessionInfo(implicit))

    def session(self, session_id: commands.SessionId, action: str) -> SessionState:
        """Return a session; `action` describes the attempt in the error.

        Raises:
            IllegalStateException: the session is not registered.
        """
        session = self.sessions.get(session_id)
        if session is None:
            raise IllegalStateException(
                f"Cannot {action} a session that had not been registered: {session_id}"
            )
        return session


def session_of(resource: commands.ConsumerId | commands.ProducerId) -> commands.SessionId:
    """Return the session of a consumer or producer."""
    return commands.SessionId(resource.connection_id, resource.session_id)


def connection_of(
    resource: commands.ConsumerId | commands.ProducerId | commands.SessionId,
) -> commands.ConnectionId:
    """Return the connection of a session, consumer or producer."""
    return commands.ConnectionId(resource.connection_id)


def _is_advisory(destination: Destination | None) -> bool:
    return destination is not None and destination.physical_name.startswith(ADVISORY_PREFIX)


def registered(found: T | None, kind: str, object_id: object) -> T:
    """Return `found` if it is not None.

    Raises:
        IllegalStateException: it is None.
    """
    if found is None:
        raise IllegalStateException(
            f"Cannot remove {kind} that had not been registered: {object_id}"
        )
    return found


def taken(
    resources: dict[Id, Info], exchanges: dict[Id | None, Exchange], object_id: Id, kind: str
) -> Info:
    """Remove a resource from the tables of its session and of its client, and return it.

    Raises:
        IllegalStateException: the session does not have it.
    """
    info = registered(resources.pop(object_id, None), kind, object_id)
    exchanges.pop(object_id, None)
    return info


def check_limit(count: int, limit: int | None, kind: str, where: object) -> None:
    """Check that one more is allowed.

    Raises:
        IllegalStateException: `count` has reached `limit`.
    """
    if limit is not None and count >= limit:
        raise IllegalStateException(
            f"Can't add {kind} on connection {where}: at maximum limit: {limit}"
        )
