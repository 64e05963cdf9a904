"""The receive cycle: create the resources that are not cached, receive, handle, close.

(spring-jms 1.2.3 for the resources created and closed, 1.8 for external transactions)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import anyio

from pyjms.core.closing import close_quietly
from pyjms.core.resources import BoundResource, bind, bound
from pyjms.core.workers import Worker, current_worker
from pyjms.errors import JMSException
from pyjms.jms.api import Connection, MessageConsumer, Session
from pyjms.listener.batches.execution import BatchDelivery, BatchExecution, collect
from pyjms.listener.container.default_properties import (
    DefaultContainerProperties,
    TransactionManager,
    TransactionStatus,
)
from pyjms.listener.container.delivery import Delivery
from pyjms.listener.container.execution import ListenerExecution, marked_as_rollback_only
from pyjms.listener.container.failures import is_infrastructure_failure
from pyjms.listener.container.resources import (
    ContainerConnection,
    ResourceFactory,
)

__all__ = ["ReceiveCycle", "ReceivingInvoker"]


class ReceivingInvoker(Protocol):
    """The receive cycle's view of an invoker."""

    session: Session | None
    """The cached session, or None."""
    consumer: MessageConsumer | None
    """The cached consumer, or None."""
    waiting: bool
    """Whether it is in a wait that a stop may interrupt."""
    idle: bool
    worker: Worker
    delivery: Delivery | None
    """The message that is being handled."""

    def message_received(self) -> None:
        """Count a message that has just been received; the wait is over."""

    @property
    def interrupted(self) -> bool:
        """Whether a stop has cancelled the wait while that message arrived."""

    def shield(self) -> AbstractContextManager[object]:
        """Return a context in which that stop does not cancel the handling of the message."""


@dataclass(eq=False, repr=False)
class ReceiveCycle:
    """Makes the receive attempts of one container."""

    _properties: DefaultContainerProperties
    _connection: ContainerConnection
    _resources: ResourceFactory
    _execution: ListenerExecution
    _batches: BatchExecution

    async def create_session(self) -> Session:
        """Create a session of the container's connection, to be cached by an invoker."""
        return await self._resources.create_session(self._connection.get())

    async def create_consumer(self, session: Session) -> MessageConsumer:
        """Create a consumer of the container's destination, to be cached by an invoker."""
        return await self._resources.create_consumer(session)

    async def receive_and_execute(self, invoker: ReceivingInvoker) -> bool:
        """Receive once, and handle the message if there is one; return whether there was.

        Raises:
            Exception: the connection may be lost; recover before the next attempt.
        """
        manager = self._properties.transaction_manager
        if manager is not None:
            return await self._in_transaction(manager, invoker)
        return await self._receive_once(invoker, None)

    async def _receive_once(
        self, invoker: ReceivingInvoker, status: TransactionStatus | None
    ) -> bool:
        if invoker.consumer is None or invoker.session is None:
            return await self._uncached(invoker, status)
        connection = self._connection.get()
        return await self._receive(
            invoker, connection, invoker.session, invoker.consumer, status, expose=True
        )

    async def _in_transaction(self, manager: TransactionManager, invoker: ReceivingInvoker) -> bool:
        properties = self._properties
        received = in_block = False
        synchronized = properties.synchronizes_sessions and invoker.session is None
        token = current_worker.set(invoker.worker)  # calls the handler's synchronizations
        try:
            async with AsyncExitStack() as stack:
                session: _SynchronizedSession | None = None
                if synchronized:
                    session = await stack.enter_async_context(self._synchronized(invoker))
                async with manager.transaction(
                    properties.transaction_name or properties.bean_name,
                    properties.transaction_timeout,
                ) as status:
                    in_block = True
                    received = await self._receive_once(invoker, status)
                    in_block = False
                if session is not None:
                    session.committed = not status.rollback_only
        except JMSException:
            raise
        except Exception as error:
            if in_block:
                raise
            await self._execution.handle_exception(error)
        finally:
            current_worker.reset(token)
        return received

    @asynccontextmanager
    async def _synchronized(self, invoker: ReceivingInvoker) -> AsyncIterator[_SynchronizedSession]:
        """Bind a session that is committed or rolled back right after an external transaction."""
        owned: Connection | None = None
        session: Session | None = None
        try:
            invoker.waiting = True
            owned, connection = await self._obtain_connection()
            session = await self._resources.create_session(connection)
            invoker.waiting = False
            outcome = _SynchronizedSession()
            resource = BoundResource(connection, session, transactional=True)
            try:
                with bind(self._properties.require_connection_factory(), resource):
                    yield outcome
            finally:
                with anyio.CancelScope(shield=True):
                    await (session.commit() if outcome.committed else session.rollback())
        finally:
            invoker.waiting = False
            await close_quietly(session, owned)

    async def _uncached(self, invoker: ReceivingInvoker, status: TransactionStatus | None) -> bool:
        """Receive; create the connection, session and consumer as far as they are not cached."""
        owned: Connection | None = None
        own_session: Session | None = None
        consumer: MessageConsumer | None = None
        invoker.waiting = True
        try:
            resource = bound(self._properties.require_connection_factory())
            transactional = (
                invoker.session is None and resource is not None and resource.transactional
            )
            if transactional and resource is not None:
                connection, session = resource.connection, resource.session
                await connection.start()
            elif invoker.session is not None:
                connection, session = self._connection.get(), invoker.session
            else:
                owned, connection = await self._obtain_connection()
                session = own_session = await self._resources.create_session(connection)
            consumer = await self._resources.create_consumer(session)
            return await self._receive(
                invoker, connection, session, consumer, status, expose=not transactional
            )
        finally:
            invoker.waiting = False
            await close_quietly(consumer, own_session, owned)

    async def _obtain_connection(self) -> tuple[Connection | None, Connection]:
        """Return the connection to close afterwards, or None, and the connection to use."""
        if self._properties.shared_connection_enabled:
            return None, self._connection.get()
        connection = await self._properties.require_connection_factory().create_connection()
        try:
            self._properties.prepare_connection(connection)
            await connection.start()
        except BaseException:
            await close_quietly(connection)
            raise
        return connection, connection

    async def _receive(
        self,
        invoker: ReceivingInvoker,
        connection: Connection,
        session: Session,
        consumer: MessageConsumer,
        status: TransactionStatus | None,
        *,
        expose: bool,
    ) -> bool:
        invoker.waiting = True
        message = await consumer.receive(self._properties.receive_timeout)
        if message is None:
            invoker.waiting = False
            invoker.idle = True
            await self._execution.commit(session, None)
            return False
        invoker.message_received()
        execution = self._execution
        if (
            self._properties.batch_size is None
            or not execution.is_accepting
            or execution.reason_to_give_up(message, consumer) is not None
        ):
            delivery = Delivery(message, session, connection, consumer, invoker.worker)
        else:
            batch = await collect(
                invoker, consumer, message, self._properties, execution.reason_to_give_up
            )
            delivery = BatchDelivery(batch, session, connection, consumer, invoker.worker)
        invoker.delivery = delivery
        try:
            if invoker.interrupted:
                with invoker.shield():
                    await self._handle(delivery, status, expose=expose)
            else:
                await self._handle(delivery, status, expose=expose)
        finally:
            invoker.delivery = None
        return True

    async def _handle(
        self, delivery: Delivery, status: TransactionStatus | None, *, expose: bool
    ) -> None:
        execution = self._batches if type(delivery) is BatchDelivery else self._execution
        try:
            await execution.execute(delivery, expose=expose)
            if status is not None and status.rollback_only:
                raise marked_as_rollback_only(delivery)
        except Exception as error:
            if status is not None:
                status.set_rollback_only()
            await self._execution.handle_exception(error, delivery)
            if is_infrastructure_failure(error):
                raise


class _SynchronizedSession:
    """A session that follows an external transaction, with the outcome of that transaction."""

    committed = False
