"""Connection consumers: messages that a pool of sessions works on. (activemq-edges N18)"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable
from typing import Protocol

from pyjms.jms.api.endpoints import Closeable
from pyjms.jms.api.session import Session

__all__ = ["ConnectionConsumer", "ServerSession", "ServerSessionPool"]


class ServerSession(Protocol):
    """A session of a pool, and the task that runs it. JMS: javax.jms.ServerSession.

    JMS 1.1 section 8.2.2.
    """

    @property
    def session(self) -> Session:
        """The session, which has a message listener and belongs to the consumer's connection."""

    def start(self) -> Awaitable[None] | None:
        """Have `session.run()` called, in a task of its own; then be available again.

        A coroutine function is awaited, and the next messages wait for it.
        """


class ServerSessionPool(Protocol):
    """Sessions for a connection consumer. JMS: javax.jms.ServerSessionPool (section 8.2.3)."""

    async def get_server_session(self) -> ServerSession:
        """Return a server session; wait until one is available.

        It is cancelled when the connection consumer is closed.
        """


class ConnectionConsumer(Closeable):
    """Passes a destination's messages to the sessions of a pool. JMS: ConnectionConsumer.

    JMS 1.1 section 8.2.1. `close` passes on no more messages and waits for the listeners that run.
    What was passed on and not delivered goes back to the broker; what is delivered and not settled
    can still be committed or acknowledged.
    """

    @property
    @abstractmethod
    def server_session_pool(self) -> ServerSessionPool:
        """The pool whose sessions get the messages."""
