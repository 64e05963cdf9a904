"""What a client has opened: its connection, sessions, producers and consumers. (C3, C4)

Pure bookkeeping: it says what is there, and its errors are ActiveMQ's words for what is not.
"""

from __future__ import annotations

from broker.context import ConnectionContext
from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import (
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    ProducerId,
    ProducerInfo,
    SessionId,
    SessionInfo,
    TransactionId,
)

__all__ = ["ConnectionState", "SessionState", "connection_of", "session_of"]

IMPLICIT_SESSION = -1
"""The session that every connection has without a SessionInfo; advisory consumers live there."""


class SessionState:
    """One session's producers and consumers."""

    __slots__ = ("consumers", "info", "producers")

    def __init__(self, info: SessionInfo) -> None:
        self.info = info
        self.producers: dict[ProducerId, ProducerInfo] = {}
        self.consumers: dict[ConsumerId, ConsumerInfo] = {}


class ConnectionState:
    """One JMS connection."""

    __slots__ = ("context", "info", "sessions", "temporary", "transactions")

    def __init__(self, info: ConnectionInfo, context: ConnectionContext) -> None:
        self.info = info
        self.context = context
        self.sessions: dict[SessionId, SessionState] = {}
        self.temporary: dict[Destination, DestinationInfo] = {}
        self.transactions: dict[TransactionId, int | None] = {}
        """Begun and not ended; the value is the answer to PREPARE, once it was given."""
        identifier = info.connection_id.value if info.connection_id is not None else None
        implicit = SessionId(identifier, IMPLICIT_SESSION)
        self.sessions[implicit] = SessionState(SessionInfo(implicit))

    def session(self, session_id: SessionId, doing: str) -> SessionState:
        """The session of that id.

        Raises:
            IllegalStateException: it was never announced; `doing` says what was tried.
        """
        session = self.sessions.get(session_id)
        if session is None:
            raise IllegalStateException(
                f"Cannot {doing} a session that had not been registered: {session_id}"
            )
        return session

    @property
    def consumer_count(self) -> int:
        """How many consumers it has, without those of advisories."""
        return sum(
            1
            for session in self.sessions.values()
            for info in session.consumers.values()
            if not _is_advisory(info.destination)
        )

    @property
    def producer_count(self) -> int:
        """How many producers it has, without those to advisories."""
        return sum(
            1
            for session in self.sessions.values()
            for info in session.producers.values()
            if not _is_advisory(info.destination)
        )


def session_of(owned: ConsumerId | ProducerId) -> SessionId:
    """The session that a consumer or producer belongs to."""
    return SessionId(owned.connection_id, owned.session_id)


def connection_of(owned: ConsumerId | ProducerId | SessionId) -> ConnectionId:
    """The connection that a session, consumer or producer belongs to."""
    return ConnectionId(owned.connection_id)


def _is_advisory(destination: Destination | None) -> bool:
    return destination is not None and destination.physical_name.startswith("ActiveMQ.Advisory.")
