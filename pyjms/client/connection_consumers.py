"""Connection consumers: their messages are passed, in chunks, to the sessions of a pool.

    broker -> DistributingConsumer -> ChunkConsumer, one for each session -> the session's listener

Only the distributing consumer is registered with the broker. It passes chunks of its messages to
the sessions of a pool; each session has a chunk consumer, which delivers and acknowledges them
according to the session's mode, and returns messages to redeliver and undelivered ones. All
distributing consumers of a connection belong to one internal session, which starts, stops and
closes with the connection.

All chunks of one connection consumer have one consumer id, and the sessions settle them in any
order. A range of messages would include those of other sessions, so each message is acknowledged
individually. There is no duplicate audit: after a failover, a message may be dispatched again to
another session. (JMS 1.1 section 8.2; activemq-edges N18)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final, Unpack

import anyio

from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.ledgers import (
    AckDetails,
    AckLedger,
    AutoAckLedger,
    DeferredAckLedger,
    IndividualAckLedger,
)
from pyjms.client.session import ActiveMQSession
from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException, UnsupportedOperationException
from pyjms.jms.api import (
    ConnectionConsumer,
    ConsumerDetails,
    ServerSession,
    ServerSessionPool,
    Session,
)
from pyjms.jms.domain import DomainSession
from pyjms.runtime.event_loop import Waiter
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import ConsumerInfo, MessageDispatch

if TYPE_CHECKING:
    from pyjms.client.connection import ActiveMQConnection


async def open_connection_consumer(
    connection: ActiveMQConnection,
    pool: ServerSessionPool,
    max_messages: int,
    consumer: ConsumerDetails,
) -> ConnectionConsumer:
    """Open a consumer whose messages the sessions of `pool` handle.

    Raises:
        JMSException: `max_messages` is below 1, or as for `create_consumer`.
        UnsupportedOperationException: it is an XA connection.
    """
    if max_messages < 1:
        raise JMSException(
            f"max_messages must be 1 or higher, not {max_messages}",
            hint="it is the number of messages that a session gets at a time",
        )
    session = connection.distribution
    if session is None:
        session = await connection.create_session(False, AcknowledgeMode.INDIVIDUAL)
        if not session.takes_chunks:
            await session.close()
            raise UnsupportedOperationException(
                "Connection consumers of XA connections are not supported",
                hint="receive in branches with session.create_consumer()",
            )
        connection.distribution = session
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
    session.tasks.spawn(distributor.distribute)
    return ActiveMQConnectionConsumer(distributor)


class ActiveMQConnectionConsumer(ConnectionConsumer):
    """A connection consumer of an `ActiveMQConnection`, which creates it."""

    def __init__(self, distributor: DistributingConsumer) -> None:
        self._distributor = distributor

    @property
    def server_session_pool(self) -> ServerSessionPool:
        return self._distributor.pool

    async def close(self) -> None:
        await self._distributor.close()


class _OneByOne(AckLedger):
    """Acknowledges each message individually."""

    def send_ack(
        self, kind: int, dispatches: list[MessageDispatch], **details: Unpack[AckDetails]
    ) -> None:
        for dispatch in dispatches:
            super().send_ack(kind, [dispatch], **details)


class _AutoLedger(_OneByOne, AutoAckLedger):
    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self.has_ranges = False


class _DeferredLedger(_OneByOne, DeferredAckLedger):
    pass


class _IndividualLedger(_OneByOne, IndividualAckLedger):
    pass


_LEDGERS: Final[dict[AcknowledgeMode, type[AckLedger]]] = {
    AcknowledgeMode.TRANSACTED: _DeferredLedger,
    AcknowledgeMode.AUTO: _AutoLedger,
    AcknowledgeMode.CLIENT: _DeferredLedger,
    AcknowledgeMode.DUPS_OK: _AutoLedger,
    AcknowledgeMode.INDIVIDUAL: _IndividualLedger,
}


class ChunkConsumer(ActiveMQMessageConsumer):
    """The messages that a connection consumer has passed to one session."""

    def __init__(self, session: ActiveMQSession, distributor: DistributingConsumer) -> None:
        super().__init__(session, distributor.info)
        self._distributor = distributor
        self.is_removed_by_broker = True  # it does not know this consumer

    def _new_ledger(self) -> AckLedger:
        return _LEDGERS[self.session.acknowledge_mode](self.session, self.info)

    def take(self, dispatches: list[MessageDispatch]) -> None:
        """Accept a chunk, for the next `run` of the session."""
        for dispatch in dispatches:
            self._buffer.append(dispatch)

    async def close(self) -> None:
        """Stop delivery, and wait until the session's listener is not running."""
        if self._is_closed:
            return
        self._is_closed = True
        self.update_flow()
        await self.session.dispatcher.wait_idle()
        self.session.remove_consumer(self)

    def dispose(self, failure: JMSException | None = None) -> None:
        """Close it without telling the broker; unsettled messages go to another session."""
        buffered = list(self._buffer)
        super().dispose(failure)
        if failure is None:
            delivered = [*self.ledger.pop_delivered(), *self.redeliverer.pop_waiting()]
            for dispatch in delivered:
                dispatch.redelivery_counter += 1
            self._distributor.requeue([*delivered, *buffered])

    def deregister(self) -> None:
        """Record that everything is settled after the end of this consumer or its session."""
        self._distributor.remove_chunk(self)

    def _wake(self) -> None:
        if self._flowing and self._buffer:  # redelivery, or a start of the connection
            waiting = list(self._buffer)
            self._buffer.clear()
            self._distributor.requeue(waiting)

    def _find_audit(self, dispatch: MessageDispatch) -> MessageAudit | None:
        return None


class DistributingConsumer(ActiveMQMessageConsumer):
    """Passes its messages to the sessions of a pool, in chunks."""

    is_measured: ClassVar[bool] = False
    pool: ServerSessionPool
    max_messages: int

    def __init__(self, session: ActiveMQSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self._chunks: list[ChunkConsumer] = []
        self._sleeper: Waiter | None = None
        self._has_failed = False
        self._scope = anyio.CancelScope()

    @property
    def has_unsettled(self) -> bool:
        """Whether sessions have messages of this consumer that are not settled."""
        return any(chunk.has_unsettled for chunk in self._chunks)

    def remove_chunk(self, chunk: ChunkConsumer) -> None:
        """Record that `chunk` has ended."""
        if chunk in self._chunks:
            self._chunks.remove(chunk)
            self.last_delivered_sequence_id = max(
                self.last_delivered_sequence_id, chunk.last_delivered_sequence_id
            )
            if self._is_closed:
                self.session.release_closed_consumers(only_settled=True)

    async def close(self) -> None:
        """Stop passing on chunks, and wait for running listeners."""
        if self._is_closed:
            return
        self._is_closed = True
        self.update_flow()
        self._scope.cancel()
        self._rouse()
        for chunk in list(self._chunks):
            await chunk.close()
        self.session.remove_consumer(self)

    def on_interruption(self) -> None:
        """Drop the lost broker's messages, including those that sessions have."""
        super().on_interruption()
        for chunk in self._chunks:
            chunk.on_interruption()

    async def distribute(self) -> None:
        """Pass chunks to sessions of the pool until the consumer is closed."""
        while not self._is_closed:
            if self._has_failed or not self.available:
                self._sleeper = Waiter()
                await self._sleeper.wait()
                continue
            try:
                await self._pass_on()
            except Exception as error:
                self._has_failed = True  # until a message arrives, or delivery starts again
                self.session.connection.report(self._pool_failure(error))

    async def _pass_on(self) -> None:
        server_session: ServerSession | None = None
        with anyio.CancelScope() as self._scope:
            server_session = await self.pool.get_server_session()
        if server_session is None:
            return  # closed
        try:
            chunk = self._chunk_of(server_session)
            messages: list[MessageDispatch] = []
            while self.available and len(messages) < self.max_messages:
                messages.append(self._buffer.popleft())
            chunk.take(messages)
        finally:  # a started session returns to the pool, even one that got no messages
            started = server_session.start()
            if started is not None:
                await started

    def _chunk_of(self, server_session: ServerSession) -> ChunkConsumer:
        """Return the chunk consumer of a session; create one if it has none.

        Raises:
            IllegalStateException: the session is closed.
            JMSException: the session cannot handle messages of this connection.
        """
        session = _usable(server_session.session, self.session.connection)
        session.check_open()
        for chunk in self._chunks:
            if chunk.session is session:
                return chunk
        added = ChunkConsumer(session, self)
        self._chunks.append(added)
        session.consumers.append(added)
        return added

    def _pool_failure(self, error: Exception) -> JMSException:
        if isinstance(error, JMSException):
            return error
        failure = JMSException(
            f"The server session pool of {self.consumer_id} for {self.destination} failed: "
            f"{error!r}",
            hint="its messages wait until the next message arrives or the connection is restarted",
        )
        failure.linked_exception = failure.__cause__ = error
        return failure

    def _enqueue(self, dispatch: MessageDispatch) -> None:
        self._buffer.append(dispatch)
        self._wake()

    def _wake(self) -> None:
        if self._flowing and self._buffer:
            self._has_failed = False
            self._rouse()

    def _rouse(self) -> None:
        if self._sleeper is not None:
            self._sleeper.wake()

    def _find_audit(self, dispatch: MessageDispatch) -> MessageAudit | None:
        return None


def _usable(session: Session, connection: ActiveMQConnection) -> ActiveMQSession:
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
