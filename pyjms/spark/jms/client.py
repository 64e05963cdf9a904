"""One connection a process and broker, for Spark's many short-lived readers and writers.

Spark makes readers and writers again and again, in processes that it keeps; so the connection
lives in the process, not in them. Work is given to the shared loop a piece at a time, not a
message at a time. (spark-pipeline 3.1)
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

from pyjms import _clock
from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.client.options import NO_MAXIMUM_REDELIVERIES
from pyjms.client.session import ActiveMQSession
from pyjms.errors import ConnectionClosedException, ConnectionFailedException, JMSException
from pyjms.spark.jms.options import JmsOptions
from pyjms.sync.portal import call_on_loop, shared_loop

__all__ = [
    "LOST",
    "close_connections",
    "connected",
    "forget",
    "in_session",
    "new_session",
    "retrying",
    "run",
]

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

ATTEMPTS: Final = 8
"""Attempts to reach the broker, over some 20 seconds; then Spark retries, or the runner does."""
_LONGEST_WAIT: Final = 5.0
LOST: Final = (ConnectionFailedException, ConnectionClosedException)
"""What work fails with when the broker is gone."""

_connections: dict[tuple[str, str | None, str | None], ActiveMQConnection] = {}


def run(function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Any:
    """Run a coroutine function on this process's loop and return its result. Blocks."""

    async def call() -> Any:
        return await function(*args, **kwargs)

    return call_on_loop(shared_loop(), call)


async def connected(options: JmsOptions) -> ActiveMQConnection:
    """Return this process's started connection to the options' broker.

    A client id makes it one of its own. Belongs to the shared loop.

    Raises:
        JMSException: the broker cannot be reached, or refuses.
    """
    key = (options.url, options.user, options.client_id)
    connection = _connections.get(key)
    if connection is None:
        factory = ConnectionFactory(options.url, user_name=options.user, password=options.secret())
        # what comes again comes for our own failures: it is never a message's fault
        factory.redelivery_policy.maximum_redeliveries = NO_MAXIMUM_REDELIVERIES
        connection = await factory.create_connection()
        if options.client_id is not None:
            await connection.set_client_id(options.client_id)
        await connection.start()
        _connections[key] = connection
    return connection


async def forget(options: JmsOptions) -> None:
    """Close this process's connection to the options' broker; the next call makes a new one."""
    connection = _connections.pop((options.url, options.user, options.client_id), None)
    if connection is not None:
        await _quietly(connection.close)


async def _quietly(close: Callable[[], Awaitable[None]]) -> None:
    """Close what may be lost already: the reason that it is was raised to somebody."""
    try:
        await close()
    except JMSException as error:
        logger.debug("Closing after a failure: %s", error)


async def close_connections() -> None:
    """Close all connections of this process."""
    connections = list(_connections.values())
    _connections.clear()
    for connection in connections:
        await connection.close()


async def in_session(
    options: JmsOptions,
    work: Callable[Concatenate[ActiveMQSession, P], Awaitable[R]],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    """Do `work` in a new transacted session, from its beginning again where the broker was lost.

    `work` commits itself. What is repeated may have happened already: a commit whose answer
    got lost. Whoever must not repeat it has to be able to tell.

    Raises:
        JMSException: the broker was not reached in eight attempts, or refused.
    """

    async def once() -> R:
        session = await _session(options)
        try:
            return await work(session, *args, **kwargs)
        except LOST:
            await forget(options)
            raise
        finally:
            await _quietly(session.close)

    return await retrying(once)


async def new_session(options: JmsOptions, *, transacted: bool = True) -> ActiveMQSession:
    """Return a new session; a broker that is away is waited for, some 20 seconds.

    Raises:
        JMSException: the broker was not reached in eight attempts, or refused.
    """
    return await retrying(_session, options, transacted=transacted)


async def _session(options: JmsOptions, *, transacted: bool = True) -> ActiveMQSession:
    try:
        connection = await connected(options)
        return await connection.create_session(transacted=transacted)
    except LOST:
        await forget(options)
        raise


async def retrying(work: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Do `work`, again and again while the broker is lost, eight times at most.

    Raises:
        JMSException: the broker was not reached, or refused.
    """
    return await AsyncRetrying(
        retry=retry_if_exception_type(LOST),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_exponential(0.25, max=_LONGEST_WAIT),
        sleep=_clock.sleep,
        before_sleep=before_sleep_log(logger, logging.WARNING),
        reraise=True,
    )(work, *args, **kwargs)
