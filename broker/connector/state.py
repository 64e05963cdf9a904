"""What a client has opened: its connection, sessions, producers and consumers. (C3, C4)

Pure bookkeeping: it says what is there, and its errors are ActiveMQ's words for what is not.
"""

from __future__ import annotations

from broker.completion import Completion
from broker.context import ConnectionContext
from pyjms.errors import IllegalStateException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    ProducerId,
    ProducerInfo,
    Response,
    SessionId,
    SessionInfo,
    TransactionId,
)

__all__ = [
    "ConnectionState",
    "LateResponse",
    "MemberCount",
    "SessionState",
    "connection_of",
    "message_size",
    "session_of",
]

_FIXED_MESSAGE_SIZE = 1024  # what a message counts beside its body and properties
IMPLICIT_SESSION = -1
"""The session that every connection has without a SessionInfo; advisory consumers live there."""


class LateResponse(Completion):
    """An answer that comes later and has a value."""

    __slots__ = ("response",)

    def __init__(self, response: Response) -> None:
        """Answer with `response` once it is done without an error."""
        super().__init__()
        self.response = response


class SessionState:
    """One session's producers and consumers."""

    __slots__ = ("consumers", "info", "producers")

    def __init__(self, info: SessionInfo) -> None:
        self.info = info
        self.producers: dict[ProducerId, ProducerInfo] = {}
        self.consumers: dict[ConsumerId, ConsumerInfo] = {}


class MemberCount:
    """How many consumers or producers there are; those of advisories count by themselves."""

    __slots__ = ("_advisory", "_plain")

    def __init__(self) -> None:
        self._plain = 0
        self._advisory = 0

    def of_kind(self, destination: Destination | None) -> int:
        """How many there are of the kind that one on `destination` would be."""
        return self._advisory if _is_advisory(destination) else self._plain

    def add(self, destination: Destination | None) -> None:
        """Count one on `destination` in."""
        if _is_advisory(destination):
            self._advisory += 1
        else:
            self._plain += 1

    def remove(self, destination: Destination | None) -> None:
        """Count one on `destination` out."""
        if _is_advisory(destination):
            self._advisory -= 1
        else:
            self._plain -= 1


class ConnectionState:
    """One JMS connection."""

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
        self, info: ConnectionInfo, context: ConnectionContext, maximum_transactions: int = 10_000
    ) -> None:
        self.info = info
        self.maximum_transactions = maximum_transactions
        self.context = context
        self.sessions: dict[SessionId, SessionState] = {}
        self.consumers = MemberCount()
        self.producers = MemberCount()
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


def session_of(owned: ConsumerId | ProducerId) -> SessionId:
    """The session that a consumer or producer belongs to."""
    return SessionId(owned.connection_id, owned.session_id)


def connection_of(owned: ConsumerId | ProducerId | SessionId) -> ConnectionId:
    """The connection that a session, consumer or producer belongs to."""
    return ConnectionId(owned.connection_id)


def _is_advisory(destination: Destination | None) -> bool:
    return destination is not None and destination.physical_name.startswith("ActiveMQ.Advisory.")


def message_size(message: ActiveMQMessage) -> int:
    """What a message counts in its producer's window. (M6)"""
    properties, content = message.marshalled_properties, message.content
    return _FIXED_MESSAGE_SIZE + len(properties or b"") + len(content or b"")
