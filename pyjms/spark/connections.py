"""One connection per process and broker, for Spark's many short-lived readers and writers.

Spark creates readers and writers repeatedly, in Python processes that it reuses. So the connection
belongs to the process, not to them. All of it runs on the process's shared event loop; work is
passed to that loop in chunks, not message by message. (spark-pipeline 3.1)
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from tenacity import (
    AsyncRetrying,
    before_sleep_log,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
)

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.client.policies import NO_MAXIMUM_REDELIVERIES
from pyjms.client.session import ActiveMQSession
from pyjms.errors import (
    ConnectionClosedException,
    ConnectionFailedException,
    JMSException,
    TransactionRolledBackException,
)
from pyjms.jms.destination import Queue
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.spark.options import JmsOptions
from pyjms.sync.portal import call_on_loop, shared_loop

logger: Final = get_logger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

ATTEMPTS: Final = 8
"""Attempts to reach the broker, over about 20 seconds; after that Spark or the runner retries."""
_MAX_RETRY_DELAY: Final = 5.0
CONNECTION_LOST: Final = (ConnectionFailedException, ConnectionClosedException)
"""The exceptions that work fails with when the connection to the broker is lost."""
_REPEATED: Final = (*CONNECTION_LOST, TransactionRolledBackException)
"""With `failover:` the connection survives, but the transaction of the lost broker does not."""
_PREFETCH_OPTION: Final = "consumer.prefetchSize"
_PAGE_SIZE: Final = 200

_connections: dict[tuple[str, str | None, str | None], ActiveMQConnection] = {}


def run_blocking(function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Any:
    """Run a coroutine function on this process's shared loop and return its result. Blocks."""

    async def call() -> Any:
        return await function(*args, **kwargs)

    return call_on_loop(shared_loop(), call)


async def get_connection(options: JmsOptions) -> ActiveMQConnection:
    """Return this process's started connection to the broker of the options.

    Options with a client id get a separate connection. Call it on the shared loop.
    """
    key = _key(options)
    connection = _connections.get(key)
    if connection is None:
        factory = ConnectionFactory(options.url, user_name=options.user, password=options.secret())
        # a redelivery is due to a failed task or driver, never to the message itself
        factory.redelivery_policy.maximum_redeliveries = NO_MAXIMUM_REDELIVERIES
        connection = await factory.create_connection()
        if options.client_id is not None:
            await connection.set_client_id(options.client_id)
        await connection.start()
        _connections[key] = connection
    return connection


async def discard_connection(options: JmsOptions) -> None:
    """Close this process's connection to the broker; the next call opens a new one."""
    connection = _connections.pop(_key(options), None)
    if connection is not None:
        await _close_quietly(connection.close)


async def close_connections() -> None:
    """Close all connections of this process."""
    connections = list(_connections.values())
    _connections.clear()
    for connection in connections:
        await connection.close()


async def run_in_session(
    options: JmsOptions,
    work: Callable[Concatenate[ActiveMQSession, P], Awaitable[R]],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    """Run `work` in a new transacted session, and repeat it if the broker was lost.

    `work` commits the session itself. It may run again although it had succeeded, if the response
    to its commit was lost, so it must be able to detect that if it matters.
    """

    async def attempt() -> R:
        session = await _create_session(options)
        try:
            return await work(session, *args, **kwargs)
        except CONNECTION_LOST:
            await discard_connection(options)
            raise
        finally:
            await _close_quietly(session.close)

    return await retry_while_lost(attempt)


async def new_session(options: JmsOptions, *, transacted: bool = True) -> ActiveMQSession:
    """Return a new session; waits about 20 seconds for a broker that is down."""
    return await retry_while_lost(_create_session, options, transacted=transacted)


async def retry_while_lost(
    work: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
) -> R:
    """Run `work`, and repeat it if it fails with a lost connection, eight times at most.

    Also if its transaction was rolled back, or may have been, because `failover:` has reconnected
    in the meantime.
    """
    return await AsyncRetrying(
        retry=retry_if_exception_type(_REPEATED),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_exponential(0.25, max=_MAX_RETRY_DELAY),
        sleep=_clock.sleep,
        before_sleep=before_sleep_log(logger, logging.WARNING),
        reraise=True,
    )(work, *args, **kwargs)


def with_paged_prefetch(queue: Queue) -> Queue:
    """Return the queue with a prefetch that suits many messages in one transaction.

    ActiveMQ pages 200 messages in (`maxPageSize`) and the next ones when it receives a delivered
    ack, which the client sends at half the prefetch: with the default of 1000, a transaction would
    never get more than 200. A prefetch that the user set in the queue's options is kept.
    """
    return _with_prefetch(queue, _PAGE_SIZE)


def without_prefetch(queue: Queue) -> Queue:
    """Return the queue with prefetch 0: each receive asks the broker, so None is reliable."""
    return _with_prefetch(queue, 0)


def _with_prefetch(queue: Queue, size: int) -> Queue:
    if _PREFETCH_OPTION in queue.options:
        return queue
    found = Queue(queue.physical_name)
    found.options = {**queue.options, _PREFETCH_OPTION: str(size)}
    return found


def _key(options: JmsOptions) -> tuple[str, str | None, str | None]:
    return options.url, options.user, options.client_id


async def _create_session(options: JmsOptions, *, transacted: bool = True) -> ActiveMQSession:
    try:
        connection = await get_connection(options)
        return await connection.create_session(transacted=transacted)
    except CONNECTION_LOST:
        await discard_connection(options)
        raise


async def _close_quietly(close: Callable[[], Awaitable[None]]) -> None:
    """Close an object whose connection may be lost; the caller raises the reason."""
    try:
        await close()
    except JMSException as error:
        logger.debug("Closing after a failure: %s", error)
