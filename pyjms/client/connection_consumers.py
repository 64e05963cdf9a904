"""Connection consumers: their messages are passed to the sessions of a pool.

All connection consumers of a connection belong to one internal session, which starts, stops and
closes with the connection. (JMS 1.1 section 8.2; activemq-edges N18)
"""

from __future__ import annotations

from functools import partial
from typing import Unpack

from pyjms.client.chunks import ChunkConsumer, DistributingConsumer
from pyjms.client.session import ActiveMQSession
from pyjms.client.variants import consumer_kind
from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException, UnsupportedOperationException
from pyjms.jms.api import Session
from pyjms.jms.api.connection import (
    ConnectionConsumer,
    ConsumerDetails,
    ServerSession,
    ServerSessionPool,
)
from pyjms.jms.domain import DomainSession, QueueConnection, TopicConnection

__all__ = ["ConsumingConnection"]


class ActiveMQConnectionConsumer(ConnectionConsumer):
    """A connection consumer of an `ActiveMQConnection`, which creates it."""

    def __init__(self, distributor: DistributingConsumer) -> None:
        self._distributor = distributor

    @property
    def server_session_pool(self) -> ServerSessionPool:
        return self._distributor.pool

    async def close(self) -> None:
        await self._distributor.close()


class ConsumingConnection(QueueConnection, TopicConnection):
    """The connection consumers of a connection."""

    _distribution: ActiveMQSession | None = None

    async def _distribute(
        self, pool: ServerSessionPool, max_messages: int, **consumer: Unpack[ConsumerDetails]
    ) -> ConnectionConsumer:
        if max_messages < 1:
            raise JMSException(
                f"max_messages must be 1 or higher, not {max_messages}",
                hint="it is the number of messages that a session gets at a time",
            )
        session = self._distribution
        if session is None:
            session = await self._open_distribution()
        open_consumer = partial(session.open_consumer, consumer["destination"])
        if "name" in consumer:
            open_consumer = partial(
                session.open_durable_subscriber, consumer["destination"], consumer["name"]
            )
        distributor = await open_consumer(
            consumer["selector"],
            DistributingConsumer,
            no_local=consumer["no_local"],
            prefetch=max_messages,
        )
        distributor.pool = pool
        distributor.max_messages = max_messages
        distributor.resources = session.resources
        distributor.chunk_of = lambda server_session: self._chunk(distributor, server_session)
        session.tasks.spawn(distributor.distribute)
        return ActiveMQConnectionConsumer(distributor)

    async def _open_distribution(self) -> ActiveMQSession:
        session = await self.create_session(False, AcknowledgeMode.INDIVIDUAL)
        assert isinstance(session, ActiveMQSession)
        if not session.takes_chunks:
            await session.close()
            raise UnsupportedOperationException(
                "Connection consumers of XA connections are not supported",
                hint="receive in branches with session.create_consumer()",
            )
        self._distribution = session
        return session

    def _chunk(
        self, distributor: DistributingConsumer, server_session: ServerSession
    ) -> ChunkConsumer:
        """Return the chunk consumer of a session; create one if it has none.

        Raises:
            IllegalStateException: the session is closed.
            JMSException: the session cannot handle messages of this connection.
        """
        session = _usable(server_session.session, self)
        session.check_open()
        for chunk in distributor.chunks:
            if chunk.session is session:
                return chunk
        added = consumer_kind(session, ChunkConsumer)(session, distributor.info)
        assert isinstance(added, ChunkConsumer)
        added.distributor = distributor
        distributor.chunks.append(added)
        session.resources.add_chunks(added)
        return added


def _usable(session: Session, connection: object) -> ActiveMQSession:
    inner = session
    while isinstance(inner, DomainSession):
        inner = inner.target
    if not isinstance(inner, ActiveMQSession) or not inner.takes_chunks:
        raise JMSException(
            f"Session pool provided an invalid session type: {session!r}",
            hint="create it with create_session() of the connection itself, not of a cache or pool",
        )
    if inner.connection is not connection:
        raise JMSException(
            f"Session pool provided a session of another connection: {session!r}",
            hint="create the pool's sessions with the connection of the connection consumer",
        )
    return inner
