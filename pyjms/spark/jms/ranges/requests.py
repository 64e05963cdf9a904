"""Requests to the broker's queue `PyJMS.Ranges`, and their responses.

There is one client per process and broker, on the connection that the whole process shares. Many
requests may be pending at once; their correlation ids tell the responses apart. Everything here
runs on the shared event loop.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import anyio
from tenacity import AsyncRetrying, retry_if_exception, wait_exponential

from pyjms import _clock
from pyjms.client.connection import ActiveMQConnection
from pyjms.client.delivery import ActiveMQMessageConsumer
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session import ActiveMQSession
from pyjms.enums import DeliveryMode
from pyjms.errors import JMSException, JMSSecurityException, RequestTimeoutException
from pyjms.jms.bodies import TextMessage
from pyjms.jms.destination import Queue, TemporaryQueue
from pyjms.jms.message import Message
from pyjms.spark.jms.connections import CONNECTION_LOST, discard_connection, get_connection
from pyjms.spark.jms.options import JmsOptions

__all__ = [
    "LeaseReplaced",
    "RangesClient",
    "RangesRefused",
    "ranges_client",
    "retry_while_unavailable",
    "supports_ranges",
]

R = TypeVar("R")

RANGES: Final = Queue("PyJMS.Ranges")
_RESPONSE_TIMEOUT: Final = 60.0
"""Seconds to wait for a response, beyond the wait that the request itself asks for."""
_PROBE_TIMEOUTS: Final = (1.0, 3.0)
"""Seconds within which a broker that serves ranges responds to the probe.

It is probed twice, with a request in between to which every broker responds. So a busy broker is
not mistaken for one without ranges, for which the query would use a spool from then on.
"""
_FAILURE_CHECK_INTERVAL: Final = 0.5
"""Seconds after which a pending request notices that its connection is lost."""
_PROBE_TOKEN: Final = "is-anybody-there"  # noqa: S105 - the token of no lease
_TEMPORARY_CODES: Final = frozenset(("leased", "in_flight", "unknown_token"))
"""Temporary refusals: another lease, or a lease that has to be acquired again."""


class RangesRefused(JMSException):
    """The broker refused a request; `code` is an error code of the ranges protocol."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class LeaseReplaced(RangesRefused):
    """Another reader has acquired the lease, so this reader cannot get it back."""


class _PendingRequest:
    def __init__(self) -> None:
        self.response: Message | None = None
        self.completed = anyio.Event()


class RangesClient:
    """Sends requests over one connection, for as long as that connection lives."""

    def __init__(self, connection: ActiveMQConnection) -> None:
        self.connection = connection
        self._session: ActiveMQSession | None = None
        self._correlation_ids = itertools.count(1)
        self._pending: dict[str, _PendingRequest] = {}

    async def open(self) -> None:
        """Create the session, the reply queue with its consumer, and the producer."""
        session = self._session = await self.connection.create_session()
        self._reply_to: TemporaryQueue = await session.create_temporary_queue()
        self._consumer: ActiveMQMessageConsumer = await session.create_consumer(self._reply_to)
        await self._consumer.set_message_listener(self._on_response)
        self._producer: ActiveMQMessageProducer = await session.create_producer(RANGES)

    @property
    def is_failed(self) -> bool:
        """Whether the connection has failed."""
        return self.connection.failure is not None

    async def request(
        self, operation: str, *, timeout: float = _RESPONSE_TIMEOUT, **fields: object
    ) -> Message:
        """Send a request and return the response.

        Raises:
            RangesRefused: the broker refuses; its text says why.
            RequestTimeoutException: there was no response within `timeout` seconds.
            JMSException: the connection is lost.
        """
        message = TextMessage(json.dumps({"op": operation, **fields}))
        correlation_id = message.correlation_id = str(next(self._correlation_ids))
        message.reply_to = self._reply_to
        pending = self._pending[correlation_id] = _PendingRequest()
        deadline = _clock.now() + timeout
        try:
            await self._producer.send(
                message, delivery_mode=DeliveryMode.NON_PERSISTENT, time_to_live=timeout
            )
            while pending.response is None:
                if self.is_failed:
                    raise self.connection.failed_error()
                if _clock.now() >= deadline:
                    raise RequestTimeoutException(
                        f"No response from {RANGES} to the request {operation} within {timeout} s"
                    )
                with _clock.timeout(min(deadline - _clock.now(), _FAILURE_CHECK_INTERVAL)):
                    await pending.completed.wait()
        finally:
            del self._pending[correlation_id]
        if isinstance(pending.response, TextMessage):
            _values(pending.response)
        return pending.response

    async def values(
        self, operation: str, *, timeout: float = _RESPONSE_TIMEOUT, **fields: object
    ) -> dict[str, Any]:
        """Send a request and return the JSON object of the response.

        Raises:
            JMSException: as for `request`.
        """
        return _values(await self.request(operation, timeout=timeout, **fields))

    async def round_trip(self) -> None:
        """Wait for a response that every broker sends.

        Raises:
            JMSException: the connection is lost.
        """
        assert self._session is not None
        producer = await self._session.create_producer(RANGES)
        await producer.close()

    def _on_response(self, message: Message) -> None:
        pending = self._pending.get(message.correlation_id or "")
        if pending is not None:
            pending.response = message
            pending.completed.set()


_clients: dict[ActiveMQConnection, RangesClient] = {}
_opening = anyio.Lock()


async def ranges_client(options: JmsOptions) -> RangesClient:
    """Return this process's client for the broker of the options.

    Raises:
        JMSException: the broker cannot be reached, or refuses the connection.
    """
    async with _opening:
        connection = await get_connection(options)
        if connection.failure is not None:
            await discard_connection(options)
            connection = await get_connection(options)
        for failed in [each for each in _clients if each.failure is not None]:
            del _clients[failed]
        client = _clients.get(connection)
        if client is None:
            client = RangesClient(connection)
            await client.open()
            _clients[connection] = client
        return client


async def supports_ranges(options: JmsOptions) -> bool:
    """Return whether the broker responds at `PyJMS.Ranges`.

    A broker that does not allow the request counts as one without ranges.

    Raises:
        JMSException: the broker cannot be reached, or refuses the connection.
    """
    await get_connection(options)
    try:
        client = await ranges_client(options)
        for seconds in _PROBE_TIMEOUTS:
            with suppress(RequestTimeoutException):
                await client.request("stat", timeout=seconds, token=_PROBE_TOKEN)
                return True
            await client.round_trip()
    except RangesRefused:
        return True
    except JMSSecurityException:
        return False
    return False


async def retry_while_unavailable(work: Callable[[], Awaitable[R]], seconds: float) -> R:
    """Run `work`, and repeat it for up to `seconds` while the broker or the lease is unavailable.

    Raises:
        JMSException: they stayed unavailable, or the broker refuses for good.
    """
    deadline = _clock.now() + seconds
    return await AsyncRetrying(
        retry=retry_if_exception(_is_temporary),
        stop=lambda _: _clock.now() >= deadline,
        wait=wait_exponential(0.1, max=3.0),
        sleep=_clock.sleep,
        reraise=True,
    )(work)


def _is_temporary(error: BaseException) -> bool:
    return isinstance(error, CONNECTION_LOST) or (
        isinstance(error, RangesRefused) and error.code in _TEMPORARY_CODES
    )


def _values(message: Message) -> dict[str, Any]:
    text = message.text if isinstance(message, TextMessage) else None
    found: dict[str, Any] = json.loads(text or "{}")
    if "error" in found:
        code = str(found.get("code"))
        refusal = LeaseReplaced if code == "replaced" else RangesRefused
        raise refusal(code, str(found["error"]))
    return found
