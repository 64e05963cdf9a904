"""Chunks: the messages of a connection consumer that a session handles at a time.

    broker -> DistributingConsumer -> ChunkConsumer, one for each session -> the session's listener

Only the distributing consumer is registered with the broker. It passes chunks of its messages to
the sessions of a pool; each session has a chunk consumer, which delivers and acknowledges them
according to the session's mode, and returns messages to redeliver and undelivered ones.

All chunks of one connection consumer have one consumer id, and the sessions settle them in any
order. A range of messages would include those of other sessions, so each message is acknowledged
individually. There is no duplicate audit: after a failover, a message may be dispatched again to
another session.
(activemq-edges N18)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final, Protocol, Unpack

import anyio

from pyjms.client.acknowledgement import (
    AckDetails,
    AckLedger,
    AutoAckLedger,
    DeferredAckLedger,
    IndividualAckLedger,
    LedgerChoice,
)
from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.interfaces import ClientSession
from pyjms.enums import AcknowledgeMode
from pyjms.errors import JMSException
from pyjms.jms.api.connection import ServerSession, ServerSessionPool
from pyjms.runtime.event_loop import Waiter
from pyjms.runtime.logging import get_logger
from pyjms.wire.message_audit import MessageAudit
from pyjms.wire.openwire.commands import ConsumerInfo, MessageDispatch

__all__ = ["ChunkConsumer", "DistributingConsumer"]

logger: Final = get_logger(__name__)


class _OneByOne(AckLedger):
    """Acknowledges each message individually."""

    def send_ack(
        self, kind: int, dispatches: list[MessageDispatch], **details: Unpack[AckDetails]
    ) -> None:
        for dispatch in dispatches:
            super().send_ack(kind, [dispatch], **details)


class _AutoLedger(_OneByOne, AutoAckLedger):
    """AUTO and DUPS_OK."""

    has_ranges = False


class _DeferredLedger(_OneByOne, DeferredAckLedger):
    """CLIENT and TRANSACTED."""


class _IndividualLedger(_OneByOne, IndividualAckLedger):
    """INDIVIDUAL."""


_LEDGERS: Final[dict[AcknowledgeMode, type[AckLedger]]] = {
    AcknowledgeMode.TRANSACTED: _DeferredLedger,
    AcknowledgeMode.AUTO: _AutoLedger,
    AcknowledgeMode.CLIENT: _DeferredLedger,
    AcknowledgeMode.DUPS_OK: _AutoLedger,
    AcknowledgeMode.INDIVIDUAL: _IndividualLedger,
}


def choose_chunk_ledger(session: ClientSession, info: ConsumerInfo) -> AckLedger:
    """Return the ledger of a chunk consumer."""
    return _LEDGERS[session.acknowledge_mode](session, info)


class ChunkConsumer(ActiveMQMessageConsumer):
    """The messages that a connection consumer has passed to one session."""

    choose_ledger: ClassVar[LedgerChoice] = staticmethod(choose_chunk_ledger)
    distributor: DistributingConsumer

    def take(self, dispatches: list[MessageDispatch]) -> None:
        """Accept a chunk, for the next `run` of the session."""
        for dispatch in dispatches:
            self._buffer.append(dispatch)

    async def close(self) -> None:
        """Stop delivery, and wait until the session's listener is not running."""
        if self.is_closed:
            return
        self.is_closed: bool = True
        self.update_flow()
        await self.session.dispatcher.wait_idle()
        self.session.consumer_closed(self.consumer_id)

    def dispose(self, failure: JMSException | None = None) -> None:
        """Close it without telling the broker; unsettled messages go to another session."""
        buffered = list(self._buffer)
        super().dispose(failure)
        if failure is None:
            delivered = [*self.ledger.pop_delivered(), *self.redeliverer.pop_waiting()]
            for dispatch in delivered:
                dispatch.redelivery_counter += 1
            self.distributor.requeue([*delivered, *buffered])

    def released(self) -> None:
        """Record that everything is settled after the end of this consumer or its session."""
        self.distributor.chunk_released(self)

    def _wake(self) -> None:
        if self._flowing and self._buffer:  # redelivery, or a start of the connection
            waiting = list(self._buffer)
            self._buffer.clear()
            self.distributor.requeue(waiting)

    def _audit_for(self, dispatch: MessageDispatch) -> MessageAudit | None:
        return None


class _Sessions(Protocol):
    """The session of a connection consumer as used by its distributing consumer."""

    def release_closed_consumers(self, *, only_settled: bool = False) -> None:
        """Tell the broker of the end of closed consumers."""


class DistributingConsumer(ActiveMQMessageConsumer):
    """Passes its messages to the sessions of a pool, in chunks."""

    pool: ServerSessionPool
    max_messages: int
    resources: _Sessions
    chunk_of: Callable[[ServerSession], ChunkConsumer]
    """Returns the chunk consumer of a server session; raises a JMSException if it is unusable."""

    def __init__(self, session: ClientSession, info: ConsumerInfo) -> None:
        super().__init__(session, info)
        self.chunks: list[ChunkConsumer] = []
        self._sleeper: Waiter | None = None
        self._has_failed = False
        self._scope = anyio.CancelScope()

    @property
    def has_unsettled(self) -> bool:
        """Whether sessions have messages of this consumer that are not settled."""
        return any(chunk.has_unsettled for chunk in self.chunks)

    def chunk_released(self, chunk: ChunkConsumer) -> None:
        """Record that `chunk` has ended."""
        if chunk in self.chunks:
            self.chunks.remove(chunk)
            self.last_delivered_sequence_id: int = max(
                self.last_delivered_sequence_id, chunk.last_delivered_sequence_id
            )
            if self.is_closed:
                self.resources.release_closed_consumers(only_settled=True)

    async def close(self) -> None:
        """Stop passing on chunks, and wait for running listeners."""
        if self.is_closed:
            return
        self.is_closed: bool = True
        self.update_flow()
        self._scope.cancel()
        self._rouse()
        for chunk in list(self.chunks):
            await chunk.close()
        self.session.consumer_closed(self.consumer_id)

    def interrupted(self) -> None:
        """Drop the lost broker's messages, including those that sessions have."""
        super().interrupted()
        for chunk in self.chunks:
            chunk.interrupted()

    async def distribute(self) -> None:
        """Pass chunks to sessions of the pool until the consumer is closed."""
        while not self.is_closed:
            if self._has_failed or not self.available:
                self._sleeper = Waiter()
                await self._sleeper.wait()
                continue
            try:
                await self._pass_on()
            except Exception as error:
                self._has_failed = True  # until a message arrives, or delivery starts again
                self.session.connection.report(_pool_failure(self, error))

    async def _pass_on(self) -> None:
        server_session: ServerSession | None = None
        with anyio.CancelScope() as self._scope:
            server_session = await self.pool.get_server_session()
        if server_session is None:
            return  # closed
        try:
            chunk = self.chunk_of(server_session)
            messages: list[MessageDispatch] = []
            while self.available and len(messages) < self.max_messages:
                messages.append(self._buffer.popleft())
            chunk.take(messages)
        finally:  # a started session returns to the pool, even one that got no messages
            started = server_session.start()
            if started is not None:
                await started

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

    def _audit_for(self, dispatch: MessageDispatch) -> MessageAudit | None:
        return None


def _pool_failure(consumer: DistributingConsumer, error: Exception) -> JMSException:
    if isinstance(error, JMSException):
        return error
    failure = JMSException(
        f"The server session pool of {consumer.consumer_id} for {consumer.destination} failed: "
        f"{error!r}",
        hint="its messages wait until the next message arrives or the connection is restarted",
    )
    failure.linked_exception = failure.__cause__ = error
    return failure
