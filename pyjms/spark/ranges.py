"""Requests to `PyJMS.Ranges` of the bundled broker, and the ranges of messages that tasks read.

All requests are messages to that queue, over the one connection that the process has to a broker
(`RangesClient`, on the shared event loop); their correlation ids tell the responses apart. Tasks
(`read_range`) read chunks of their share, with the token of the driver's lease: `range_stream`.
(spark-pipeline 3.2, 5 A)
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
from pyspark.sql.datasource import InputPartition
from tenacity import AsyncRetrying, retry_if_exception, wait_exponential

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session import ActiveMQSession
from pyjms.enums import DeliveryMode
from pyjms.errors import (
    IllegalStateException,
    JMSException,
    JMSSecurityException,
    RequestTimeoutException,
)
from pyjms.jms.destination import Queue, TemporaryQueue
from pyjms.jms.message import BytesMessage, Message, TextMessage
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.spark.connections import (
    CONNECTION_LOST,
    discard_connection,
    get_connection,
    run_blocking,
)
from pyjms.spark.options import JmsOptions
from pyjms.spark.rows import MESSAGE_COLUMNS, arrow_schema, message_batch, new_columns
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms.wire.openwire.fast_reader import unmarshal_body
from pyjms.wire.openwire.message_columns import DECLINED, MessageColumns

if TYPE_CHECKING:
    import pyarrow as pa


logger: Final = get_logger(__name__)

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
        """Send a request and return the response."""
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
        """Send a request and return the JSON object of the response."""
        return _values(await self.request(operation, timeout=timeout, **fields))

    async def round_trip(self) -> None:
        """Wait for a response that every broker sends."""
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
    """Return this process's client for the broker of the options."""
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


_RETRY_PERIOD: Final = 60.0
"""Seconds to wait for the broker, and for the driver's lease, to come back."""
_RECORD_HEADER: Final = struct.Struct(">qiB")


class RangePartition(InputPartition):
    """A task's share of a range: the numbers from `start` to before `end`.

    It is read with the token of the driver's lease. Without one (None), a message of `queue` that
    was consumed in the meantime is missing.
    """

    def __init__(self, token: str | None, epoch: int, start: int, end: int, queue: str) -> None:
        super().__init__((queue, start, end))
        self.token: str | None = token
        self.queue: str = queue
        self.epoch: int = epoch
        self.start: int = start
        self.end: int = end


def read_range(options: JmsOptions, partition: RangePartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition. Blocks."""
    options = replace(options, client_id=None)  # the driver's connection has it
    schema = arrow_schema(MESSAGE_COLUMNS)
    columns = new_columns()
    chunks = _Chunks(options, partition)
    while (body := run_blocking(chunks.next)) is not None:
        if body:
            _add_messages(columns, body)
            yield message_batch(columns, schema)


class _Chunks:
    """The chunks of a partition; the next one is requested while the task decodes one.

    Lives on the shared loop.
    """

    def __init__(self, options: JmsOptions, partition: RangePartition) -> None:
        self._options = options
        self._partition = partition
        self._at = partition.start
        self._is_last = partition.start >= partition.end
        self._body = b""
        self._error: BaseException | None = None
        self._request: event_loop.BackgroundTask | None = None

    async def next(self) -> bytes | None:
        """Return the next chunk; None: there are no more."""
        if self._request is None:
            if self._is_last:
                return None
            self._begin()
        assert self._request is not None
        await self._request.wait()
        self._request = None
        if self._error is not None:
            raise self._error
        body = self._body
        if not self._is_last:
            self._begin()
        return body

    def _begin(self) -> None:
        self._request = event_loop.spawn(self._read, name="next chunk", on_error=self._on_error)

    async def _read(self) -> None:
        found = await _read_chunk(self._options, self._partition, self._at)
        self._body, self._at, self._is_last = found

    def _on_error(self, error: BaseException) -> None:
        self._error = error


def _add_messages(columns: MessageColumns, body: bytes) -> None:
    at = 0
    while at < len(body):
        number, size, kind = _RECORD_HEADER.unpack_from(body, at)
        at += _RECORD_HEADER.size
        end = at + size - 1
        if columns.add(body, at, end, kind, number) == DECLINED:
            message = unmarshal_body(kind, body[at:end])
            columns.add_message(message, number, message.redelivery_counter)
        at = end


def messages_in(body: bytes) -> Iterator[tuple[int, ActiveMQMessage]]:
    """Yield the messages of a chunk with their numbers."""
    at = 0
    while at < len(body):
        number, size, kind = _RECORD_HEADER.unpack_from(body, at)
        at += _RECORD_HEADER.size
        yield number, unmarshal_body(kind, body[at : at + size - 1])
        at += size - 1


async def _read_chunk(
    options: JmsOptions, partition: RangePartition, start: int
) -> tuple[bytes, int, bool]:
    async def attempt() -> tuple[bytes, int, bool]:
        client = await ranges_client(options)
        arguments: dict[str, Any] = {"from": start, "to": partition.end, "token": partition.token}
        if partition.token is None:
            arguments |= {"queue": partition.queue, "selector": options.selector}
        try:
            message = await client.request("range", **arguments)
        except RangesRefused as error:
            if error.code in {"trimmed", "ahead"}:
                raise IllegalStateException(
                    f"The messages {start} to {partition.end - 1} of {partition.queue} cannot be "
                    f"read again: {error}",
                    hint="they were removed; the next attempt of the batch reports what is missing",
                ) from error
            raise
        properties = message.properties
        if not isinstance(message, BytesMessage) or properties["epoch"] != partition.epoch:
            raise IllegalStateException(
                f"{partition.queue} was purged or created again while it was being read",
                hint="the next attempt of the batch reports what is missing",
            )
        return bytes(message.data or b""), int(str(properties["next"])), bool(properties["last"])

    return await retry_while_unavailable(attempt, _RETRY_PERIOD)
