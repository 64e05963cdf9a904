"""A receive of a DefaultMessageListenerContainer in a transaction of its transaction manager.

The handling of the message is part of the transaction. If the container synchronizes sessions with
it, its session is committed or rolled back right after it. (spring-jms 1.8)

It is apart from the invoker, which is compiled: it awaits within `except` and `finally` and in
context managers, where a compiled coroutine loses the error, and few containers have a manager.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from pyjms.errors import JMSException
from pyjms.jms.api import Connection, Session
from pyjms.listener.error_handling import handle_exception
from pyjms.template.resources import BoundResource, bind, close_quietly
from pyjms.template.workers import current_worker

if TYPE_CHECKING:
    from pyjms.connection.transaction import PlatformTransactionManager
    from pyjms.listener.invoker import AsyncMessageListenerInvoker
    from pyjms.listener.invoker_pool import InvokerPool


async def receive_in_transaction(
    invoker: AsyncMessageListenerInvoker, pool: InvokerPool, manager: PlatformTransactionManager
) -> bool:
    """Receive once in a transaction of `manager`; return whether there was a message."""
    properties = pool.properties
    received = in_block = False
    token = current_worker.set(invoker.worker)  # calls the handler's synchronizations
    try:
        async with AsyncExitStack() as stack:
            own: _SynchronizedSession | None = None
            if properties.synchronizes_sessions and invoker.session is None:
                own = await stack.enter_async_context(_synchronized_session(invoker, pool))
            async with manager.transaction(
                properties.transaction_name or properties.bean_name,
                properties.transaction_timeout,
            ) as status:
                in_block = True
                received = await invoker.receive_once(status)
                in_block = False
            if own is not None:
                own.is_committed = not status.rollback_only
    except JMSException:
        raise
    except Exception as error:
        if in_block:
            raise
        await handle_exception(properties, error, is_active=pool.life_cycle.active)
    finally:
        current_worker.reset(token)
    return received


class _SynchronizedSession:
    """The outcome of the external transaction that a session follows."""

    is_committed = False


@asynccontextmanager
async def _synchronized_session(
    invoker: AsyncMessageListenerInvoker, pool: InvokerPool
) -> AsyncIterator[_SynchronizedSession]:
    """Bind a session that is committed or rolled back right after an external transaction."""
    separate: Connection | None = None
    session: Session | None = None
    try:
        invoker.waiting = True
        separate, connection = await invoker.open_connection()
        session = await pool.resources.create_session(connection)
        invoker.waiting = False
        own = _SynchronizedSession()
        resource = BoundResource(connection, session, transactional=True)
        try:
            with bind(pool.properties.require_connection_factory(), resource):
                yield own
        finally:
            with anyio.CancelScope(shield=True):
                await (session.commit() if own.is_committed else session.rollback())
    finally:
        invoker.waiting = False
        await close_quietly(session, separate)
