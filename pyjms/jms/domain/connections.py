"""Connections of one domain, and the factories that create them.

A connection that serves both domains is a `QueueConnection` and a `TopicConnection`, as in
ActiveMQ; its `create_session` still creates sessions for both.
"""

from __future__ import annotations

from abc import abstractmethod

from pyjms.enums import AcknowledgeMode, SessionMode
from pyjms.errors import IllegalStateException, JMSException
from pyjms.jms.api.connection import Connection
from pyjms.jms.api.factory import ConnectionFactory
from pyjms.jms.domain.sessions import QueueSession, TopicSession

__all__ = [
    "Domain",
    "DomainConnectionFactory",
    "QueueConnection",
    "QueueConnectionFactory",
    "TopicConnection",
    "TopicConnectionFactory",
    "open_connection",
]


class QueueConnection(Connection):
    """A connection for queues. JMS: javax.jms.QueueConnection (JMS 1.1 section 5.4)."""

    async def create_queue_session(
        self, transacted: bool = False, acknowledge_mode: SessionMode = AcknowledgeMode.AUTO
    ) -> QueueSession:
        """Create a session that rejects topics; otherwise as `create_session`.

        Raises:
            IllegalStateException: the connection is closed.
            JMSException: the acknowledge mode is unknown.
        """
        return QueueSession(await self.create_session(transacted, acknowledge_mode))


class TopicConnection(Connection):
    """A connection for topics. JMS: javax.jms.TopicConnection (JMS 1.1 section 6.4)."""

    async def create_topic_session(
        self, transacted: bool = False, acknowledge_mode: SessionMode = AcknowledgeMode.AUTO
    ) -> TopicSession:
        """Create a session that rejects queues; otherwise as `create_session`.

        Raises:
            IllegalStateException: the connection is closed.
            JMSException: the acknowledge mode is unknown.
        """
        return TopicSession(await self.create_session(transacted, acknowledge_mode))


Domain = type[QueueConnection] | type[TopicConnection]
"""The connection class of a domain."""


class _OpeningInDomains(ConnectionFactory):
    async def open_in(
        self, domain: Domain | None, user_name: str | None, password: str | None
    ) -> Connection:
        """Open a connection for this domain; None: for both. By default all are for both."""
        del domain
        return await self.create_connection(user_name, password)


class QueueConnectionFactory(_OpeningInDomains):
    """Creates connections for queues. JMS: javax.jms.QueueConnectionFactory (section 5.3)."""

    async def create_queue_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> QueueConnection:
        """Open a connection for queues, not started; otherwise as `create_connection`.

        Raises:
            IllegalStateException: the factory's connections are not for queues.
            JMSException: as for `create_connection`.
        """
        connection = await self.open_in(QueueConnection, user_name, password)
        if isinstance(connection, QueueConnection):
            return connection
        raise await _refused(self, connection, "QueueConnection")


class TopicConnectionFactory(_OpeningInDomains):
    """Creates connections for topics. JMS: javax.jms.TopicConnectionFactory (section 6.3)."""

    async def create_topic_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> TopicConnection:
        """Open a connection for topics, not started; otherwise as `create_connection`.

        Raises:
            IllegalStateException: the factory's connections are not for topics.
            JMSException: as for `create_connection`.
        """
        connection = await self.open_in(TopicConnection, user_name, password)
        if isinstance(connection, TopicConnection):
            return connection
        raise await _refused(self, connection, "TopicConnection")


class DomainConnectionFactory(QueueConnectionFactory, TopicConnectionFactory):
    """A factory that wraps another one and requests connections of the same domain from it."""

    @abstractmethod
    async def open_in(
        self, domain: Domain | None, user_name: str | None, password: str | None
    ) -> Connection:
        """Open a connection for this domain, as `open_connection` does; None: for both."""

    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> Connection:
        """Open a connection of the target, which may raise; credentials are passed if given."""
        return await self.open_in(None, user_name, password)


async def open_connection(
    factory: ConnectionFactory,
    domain: Domain | None,
    user_name: str | None = None,
    password: str | None = None,
) -> Connection:
    """Open a connection with the factory's method for this domain, if it has one.

    Without credentials none are passed, so that the factory uses its own.

    Raises:
        JMSException: as for the factory.
    """
    create = factory.create_connection
    if domain is QueueConnection and isinstance(factory, QueueConnectionFactory):
        create = factory.create_queue_connection
    elif domain is TopicConnection and isinstance(factory, TopicConnectionFactory):
        create = factory.create_topic_connection
    if user_name is None and password is None:
        return await create()
    return await create(user_name, password)


async def _refused(factory: ConnectionFactory, connection: Connection, kind: str) -> JMSException:
    """Close `connection`, which belongs to another domain, and return the error."""
    await connection.close()
    return IllegalStateException(
        f"{factory!r} does not hold a {kind} but rather: {connection!r}",
        hint="use create_connection(), whose sessions serve queues and topics",
    )
