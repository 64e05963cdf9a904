"""Connection consumers, whose messages a pool of sessions handles. (activemq-edges N18)"""

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
        """Call `session.run()` in a separate task; then become available again.

        A coroutine function is awaited, and the next messages wait for it.
        """


class ServerSessionPool(Protocol):
    """Sessions for a connection consumer. JMS: javax.jms.ServerSessionPool (section 8.2.3)."""

    async def get_server_session(self) -> ServerSession:
        """Return a server session; wait until one is available.

        The call is cancelled when the connection consumer is closed.
        """


class ConnectionConsumer(Closeable):
    """Passes a destination's messages to the sessions of a pool. JMS: ConnectionConsumer.

    JMS 1.1 section 8.2.1. `close` stops passing on messages and waits for running listeners.
    Messages that were passed on but not delivered go back to the broker; messages that were
    delivered but not settled can still be committed or acknowledged.
    """

    @property
    @abstractmethod
    def server_session_pool(self) -> ServerSessionPool:
        """The pool whose sessions get the messages."""
