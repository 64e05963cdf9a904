"""One receive attempt: make what the cache level does not keep, receive, handle, close.

(spring-jms 1.2.3 for what is made and closed, 1.8 for external transactions)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from pyjms.core.resources import BoundResource, bind, bound
from pyjms.errors import JMSException
from pyjms.jms.api import Connection, MessageConsumer, Session
from pyjms.listener.container.execution import Delivery, is_infrastructure_failure
from pyjms.listener.container.resources import close_quietly
from pyjms.listener.container.transaction import TransactionManager, TransactionStatus

if TYPE_CHECKING:
    from pyjms.listener.container.default import DefaultMessageListenerContainer
    from pyjms.listener.container.invoker import AsyncMessageListenerInvoker

__all__ = ["ReceiveCycle"]


class ReceiveCycle:
    """Receive attempts of one container."""

    def __init__(self, container: DefaultMessageListenerContainer) -> None:
        self._container = container
        self._execution = container._execution

    async def receive_and_execute(self, invoker: AsyncMessageListenerInvoker) -> bool:
        """Receive once and handle what came; say whether a message came.

        Raises:
            Exception: the connection is in doubt; recover before the next attempt.
        """
        manager = self._container.transaction_manager
        if manager is not None:
            return await self._in_transaction(manager, invoker)
        if invoker.consumer is not None and invoker.session is not None:
            connection = self._container._shared_connection.get()
            return await self._receive(
                invoker, connection, invoker.session, invoker.consumer, None, expose=True
            )
        return await self._uncached(invoker, None)

    async def _in_transaction(
        self, manager: TransactionManager, invoker: AsyncMessageListenerInvoker
    ) -> bool:
        container = self._container
        received = in_block = False
        synchronized = container._synchronizes and invoker.session is None
        try:
            async with AsyncExitStack() as stack:
                session: _SynchronizedSession | None = None
                if synchronized:
                    session = await stack.enter_async_context(self._synchronized(invoker))
                async with manager.transaction(
                    container.transaction_name or container.bean_name,
                    container.transaction_timeout,
                ) as status:
                    in_block = True
                    received = await self._transactional(invoker, status)
                    in_block = False
                if session is not None:
                    session.committed = not status.rollback_only
        except JMSException:
            raise
        except Exception as error:
            if in_block:
                raise
            await self._execution.handle_exception(error)
        return received

    async def _transactional(
        self, invoker: AsyncMessageListenerInvoker, status: TransactionStatus
    ) -> bool:
        if invoker.consumer is None or invoker.session is None:
            return await self._uncached(invoker, status)
        connection = self._container._shared_connection.get()
        return await self._receive(
            invoker, connection, invoker.session, invoker.consumer, status, expose=True
        )

    @asynccontextmanager
    async def _synchronized(
        self, invoker: AsyncMessageListenerInvoker
    ) -> AsyncIterator[_SynchronizedSession]:
        """A session that is committed right after somebody else's transaction, or rolled back."""
        container = self._container
        owned: Connection | None = None
        session: Session | None = None
        try:
            invoker.waiting = True
            owned, connection = await self._connection()
            session = await container._create_session(connection)
            invoker.waiting = False
            outcome = _SynchronizedSession()
            resource = BoundResource(connection, session, transactional=True)
            try:
                with bind(container._require_connection_factory(), resource):
                    yield outcome
            finally:
                with anyio.CancelScope(shield=True):
                    await (session.commit() if outcome.committed else session.rollback())
        finally:
            invoker.waiting = False
            await close_quietly(session, owned)

    async def _uncached(
        self, invoker: AsyncMessageListenerInvoker, status: TransactionStatus | None
    ) -> bool:
        """Make connection, session and consumer as far as nobody keeps them."""
        container = self._container
        owned: Connection | None = None
        own_session: Session | None = None
        consumer: MessageConsumer | None = None
        invoker.waiting = True
        try:
            resource = bound(container._require_connection_factory())
            transactional = (
                invoker.session is None and resource is not None and resource.transactional
            )
            if transactional and resource is not None:
                connection, session = resource.connection, resource.session
                await connection.start()
            elif invoker.session is not None:
                connection, session = container._shared_connection.get(), invoker.session
            else:
                owned, connection = await self._connection()
                session = own_session = await container._create_session(connection)
            consumer = await container._create_consumer(session)
            return await self._receive(
                invoker, connection, session, consumer, status, expose=not transactional
            )
        finally:
            invoker.waiting = False
            await close_quietly(consumer, own_session, owned)

    async def _connection(self) -> tuple[Connection | None, Connection]:
        """Return the connection to close afterwards, if any, and the one to use."""
        container = self._container
        if container.shared_connection_enabled:
            return None, container._shared_connection.get()
        connection = await container._require_connection_factory().create_connection()
        try:
            await connection.start()
        except BaseException:
            await close_quietly(connection)
            raise
        return connection, connection

    async def _receive(
        self,
        invoker: AsyncMessageListenerInvoker,
        connection: Connection,
        session: Session,
        consumer: MessageConsumer,
        status: TransactionStatus | None,
        *,
        expose: bool,
    ) -> bool:
        container = self._container
        invoker.waiting = True
        message = await consumer.receive(container.receive_timeout)
        if message is None:
            invoker.waiting = False
            invoker.idle = True
            await self._execution.commit(session, None)
            return False
        delivery = Delivery(message, session, connection, consumer, invoker.worker)
        container._pool.message_received(invoker)
        await invoker.handle(lambda: self._handle(delivery, status, expose=expose))
        return True

    async def _handle(
        self, delivery: Delivery, status: TransactionStatus | None, *, expose: bool
    ) -> None:
        try:
            await self._execution.execute(delivery, expose=expose)
        except Exception as error:
            if status is not None:
                status.set_rollback_only()
            await self._execution.handle_exception(error, delivery)
            if is_infrastructure_failure(error):
                raise


class _SynchronizedSession:
    """How the transaction ended that a session follows."""

    committed = False
