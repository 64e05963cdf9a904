"""The stream source for the bundled broker: a batch is a range of a queue's sequence numbers.

Theory of operation
===================

The broker numbers the messages in each queue's store: `seq` counts within an `epoch`, which changes
when the queue is purged or created again. A batch is the range from one offset to the next, so it
can be read any number of times, by several tasks at once, and nothing has to be copied.

The driver (`RangeStreamReader`, one per query) accesses the broker through a `QueueLease`:

    lease     exclusive right to the queue; no consumer gets its messages, none of them expires
    stat      state of the queue: first and next number, messages, bytes; can wait for a change, and
              tells when the message of a number was sent
    hold      the messages before a number stay as they are, so that a range can be read again
    trim      the messages before a number are finished and are removed

Executors (`read_range`) read chunks of their share with the driver's token. All requests are
messages to the queue `PyJMS.Ranges`, over the one connection that the process has to a broker
(`RangesClient`, on the shared event loop); their correlation ids tell the responses apart.

Invariants:

- A message is removed only by `trim`, and `trim` is called only with the start of the batch that
  Spark asks for next (or with a committed end): Spark asks for the next batch only after it has
  logged the previous one as finished. So a driver that is killed at any point reads its unfinished
  batch again, and nothing else.
- A trim runs beside the next batch, as removing thousands of messages takes as long as reading
  them. Its failure is raised by the next call. Before the reader says "no new data", which may be
  its last word, it waits for the trim, so that an idle or finished query leaves nothing behind.
- A range is held before its end offset is returned to Spark. So all ranges in Spark's log can be
  read again, also after a restart, which acquires the lease again and holds the range of the
  unfinished batch before its tasks read it.
- The token of a lease stays the same for the life of the driver. When the connection is lost the
  broker drops the lease; a background task, which keeps a `stat` request pending to notice the
  loss, acquires it again with the same token as soon as the broker is available, and tasks that
  failed in between (`unknown_token`) retry for a minute.
- An `owner` that is the same as before (a pipeline's checkpoint id) takes the lease over at once;
  another one waits up to 30 s for it, since a driver that was just killed may still have it.
- Numbers are compared only within one epoch. Another epoch, a first number beyond the checkpoint's
  offset or a last number before it mean lost data: an error, or with `failOnDataLoss=false` a
  warning, after which reading continues at the next existing number.

AvailableNow notes the next number when it starts and ends there. The drain flag and the end of
AvailableNow work the same way: `latestOffset` returns the start offset, which is "no new data".

Why not consume and acknowledge, as a JMS client would? Messages would have to be copied before they
are acknowledged (that is what the spool does, for other brokers), and only one process could read
them. (spark-pipeline 3.2, 3.6, 5 A)

"""

from __future__ import annotations

import itertools
import json
import math
import os
import secrets
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from tenacity import AsyncRetrying, retry_if_exception, wait_exponential

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.consumer import ActiveMQMessageConsumer
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.client.session import ActiveMQSession
from pyjms.enums import DeliveryMode
from pyjms.errors import (
    ConfigurationException,
    IllegalStateException,
    JMSException,
    JMSSecurityException,
    RequestTimeoutException,
)
from pyjms.jms.destination import Queue, TemporaryQueue
from pyjms.jms.message import BytesMessage, Message, TextMessage
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop as _wakeup
from pyjms.runtime.logging import get_logger
from pyjms.spark.connections import (
    CONNECTION_LOST,
    discard_connection,
    get_connection,
    run_blocking,
)
from pyjms.spark.drain import is_draining
from pyjms.spark.offsets import Offset, batch_limit, split_evenly
from pyjms.spark.options import EARLIEST, LATEST, JmsOptions
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


_RETRY_PERIOD: Final = 60.0
"""Seconds to wait for the broker, and for the driver's lease, to come back."""
_RECORD_HEADER: Final = struct.Struct(">qiB")


class RangePartition(InputPartition):
    """A task's share of a range: the numbers from `start` to before `end`.

    It is read with the token of the driver's lease. Without one (None), a message of `queue` that
    was consumed in the meantime is missing.
    """

    def __init__(
        self, token: str | None, epoch: int, start: int, end: int, queue: str = ""
    ) -> None:
        super().__init__((queue, start, end))
        self.token: str | None = token
        self.queue: str = queue
        self.epoch: int = epoch
        self.start: int = start
        self.end: int = end


def read_range(options: JmsOptions, partition: RangePartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition. Blocks.

    Raises:
        IllegalStateException: the messages no longer exist.
        JMSException: the broker, or the driver's lease, did not come back within 60 s.
    """
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
        self._request: _wakeup.BackgroundTask | None = None

    async def next(self) -> bytes | None:
        """Return the next chunk; None: there are no more.

        Raises:
            IllegalStateException: the messages no longer exist.
            JMSException: the broker, or the driver's lease, did not come back within 60 s.
        """
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
        self._request = _wakeup.spawn(self._read, name="next chunk", on_error=self._on_error)

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
                    f"The messages {start} to {partition.end - 1} of {options.target} cannot be "
                    f"read again: {error}",
                    hint="they were removed; the next attempt of the batch reports what is missing",
                ) from error
            raise
        properties = message.properties
        if not isinstance(message, BytesMessage) or properties["epoch"] != partition.epoch:
            raise IllegalStateException(
                f"{options.target} was purged or created again while it was being read",
                hint="the next attempt of the batch reports what is missing",
            )
        return bytes(message.data or b""), int(str(properties["next"])), bool(properties["last"])

    return await retry_while_unavailable(attempt, _RETRY_PERIOD)


_LEASE_RETRY_PERIOD: Final = 30.0
"""Seconds to wait for the broker, and for a lease that the previous reader may still have."""
_IN_FLIGHT_WAIT: Final = 5.0
_STAT_WAIT: Final = 10.0


class QueueLease:
    """The lease of a queue, and the queue's range as of the last response.

    Lives on the shared loop.
    """

    def __init__(self, options: JmsOptions) -> None:
        self.token: str = secrets.token_hex(16)
        self.epoch: int = 0
        self.first: int = 0
        self.next: int = 0
        self.average: int = 1
        """The average size of a message in bytes."""
        self._options = options
        self._queue = options.target.physical_name
        self._owner = options.owner or f"{socket.gethostname()}:{os.getpid()}:{self.token[:8]}"
        self._is_held = False
        self._keeper: _wakeup.BackgroundTask | None = None
        self._trim_task: _wakeup.BackgroundTask | None = None
        self._trim_end = 0
        self._trim_failure: BaseException | None = None

    async def open(self) -> None:
        """Acquire the lease.

        Raises:
            RangesRefused: after 30 s another reader still has it, or consumers have messages.
            JMSException: the broker cannot be reached.
        """
        await retry_while_unavailable(self._acquire, _LEASE_RETRY_PERIOD)
        self._keeper = _wakeup.spawn(self._keep, name=f"lease of {self._queue}")

    async def close(self) -> None:
        """Release the lease, if the broker can be reached."""
        await _wakeup.end_tasks(self._keeper, self._trim_task)
        if not self._is_held:
            return
        self._is_held = False
        try:
            await (await ranges_client(self._options)).values("release", token=self.token)
        except JMSException as error:
            logger.debug("The lease of %s ends with the connection: %s", self._queue, error)

    async def poll(self, after: int, timeout: float) -> None:
        """Update the queue's range; wait up to `timeout` seconds for messages from `after` on.

        Raises:
            JMSException: the broker cannot be reached, or refuses.
        """
        found = await self._request("stat", gt=after, wait=timeout)
        self._update(found)
        self.average = max(1, found["bytes"] // max(1, found["messages"]))

    async def hold(self, end: int) -> None:
        """Request that the broker keeps the messages before `end` unchanged.

        Raises:
            JMSException: the broker cannot be reached, or refuses.
        """
        await self._request("hold", to=end)

    async def trim(self, end: int) -> None:
        """Remove the messages before `end`.

        Raises:
            JMSException: the broker cannot be reached, or refuses.
        """
        if end > self.first:
            self.first = (await self._request("trim", to=end))["first"]

    async def begin_trim(self, end: int) -> None:
        """Begin to remove the messages before `end`; waits for an earlier removal only.

        Raises:
            JMSException: the earlier removal failed.
        """
        if end <= max(self._trim_end, self.first):
            return
        await self.finish_trim()
        self._trim_end = end
        self._trim_task = _wakeup.spawn(
            self.trim, end, name=f"trim of {self._queue}", on_error=self._on_trim_failure
        )

    async def finish_trim(self) -> None:
        """Wait until the removal is done.

        Raises:
            JMSException: it failed.
        """
        task, self._trim_task = self._trim_task, None
        if task is not None:
            await task.wait()
        failure, self._trim_failure = self._trim_failure, None
        if failure is not None:
            self._trim_end = 0
            raise failure

    def _on_trim_failure(self, error: BaseException) -> None:
        self._trim_failure = error

    async def sent_at(self, number: int) -> int | None:
        """Return the timestamp (ms) of the message with that number; None: it is not there.

        Raises:
            JMSException: the broker cannot be reached, or refuses.
        """
        client = await ranges_client(self._options)
        found = await client.values("stat", token=self.token, at=number)
        sent: int | None = found.get("sent")
        return sent

    async def first_since(self, timestamp: int) -> int:
        """Return the number of the first message that was sent at that time (ms) or later.

        Reads the messages before it; without one the number of the next message is returned.

        Raises:
            JMSException: the broker cannot be reached, or refuses.
        """
        client = await ranges_client(self._options)
        at, last = self.first, self.first >= self.next
        while not last:
            arguments: dict[str, Any] = {"from": at, "to": self.next, "token": self.token}
            message = await client.request("range", **arguments)
            body = bytes(message.data or b"") if isinstance(message, BytesMessage) else b""
            for number, one in messages_in(body):
                if one.timestamp >= timestamp:
                    return number
            at = int(str(message.properties["next"]))
            last = bool(message.properties["last"])
        return self.next

    async def _request(self, operation: str, **fields: object) -> dict[str, Any]:
        arguments: dict[str, Any] = {"token": self.token, **fields}

        async def attempt() -> dict[str, Any]:
            if not self._is_held:
                await self._acquire()
            try:
                client = await ranges_client(self._options)
                return await client.values(operation, **arguments)
            except RangesRefused as error:
                self._is_held = error.code != "unknown_token"
                raise
            except CONNECTION_LOST:
                self._is_held = False
                raise

        return await retry_while_unavailable(attempt, _LEASE_RETRY_PERIOD)

    async def _acquire(self) -> None:
        client = await ranges_client(self._options)
        found = await client.values(
            "lease",
            queue=self._queue,
            owner=self._owner,
            token=self.token,
            selector=self._options.selector,
            wait=_IN_FLIGHT_WAIT,
        )
        if self.epoch and found["epoch"] != self.epoch:
            raise IllegalStateException(
                f"{self._queue} was purged or created again while it was being read",
                hint="set failOnDataLoss=false and restart the query to continue",
            )
        self._is_held = True
        self._update(found)

    def _update(self, found: dict[str, Any]) -> None:
        self.epoch, self.first, self.next = found["epoch"], found["first"], found["next"]

    async def _keep(self) -> None:
        """Acquire the lease again whenever it was lost, for as long as this process lives."""
        pause = 0.1
        while True:
            try:
                if not self._is_held:
                    await self._acquire()
                client = await ranges_client(self._options)
                found = await client.values("stat", token=self.token, gt=self.next, wait=_STAT_WAIT)
                self.next = max(self.next, found["next"])
                pause = 0.1
            except JMSException as error:
                logger.debug("The lease of %s is lost: %s", self._queue, error)
                self._is_held = False
                if isinstance(error, LeaseReplaced):
                    return
                pause = min(pause * 2, 5.0)
            await _clock.sleep(pause)


_OLDEST_INTERVAL: Final = 1.0
"""Seconds between two requests for the age of the oldest waiting message."""


class RangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a queue. Acquires its lease when Spark first asks for an offset."""

    def __init__(self, options: JmsOptions) -> None:
        target = options.target
        if target.is_topic or target.is_composite or target.is_pattern:
            raise ConfigurationException(
                f"jms: {target} cannot be read by ranges: only a single queue can",
                hint="read the queue Consumer.<name>.VirtualTopic.<topic>, or use mode=spool"
                if target.is_topic
                else "use mode=spool and the option spool",
            )
        self._options = options
        self._queue = options.target.qualified_name
        self._lease: QueueLease | None = None
        self._target: int | None = None  # AvailableNow: the number to end at
        self._end = 0  # the end that was returned last
        self._since = _clock.now()  # the time of the last batch
        self._asked = -math.inf
        self._oldest: tuple[int, int | None] = (0, None)

    def initialOffset(self) -> dict[str, Any]:
        lease, options = self._open(), self._options
        if options.starting_timestamp is not None:
            milliseconds = -(-options.starting_timestamp // 1000)
            return self._at(lease, run_blocking(lease.first_since, milliseconds))
        wanted = options.starting_offset
        named = {EARLIEST: lease.first, LATEST: lease.next}
        seq = named.get(wanted)
        return self._at(lease, int(wanted) if seq is None else seq)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.max_messages_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        lease = self._open()
        run_blocking(lease.poll, 0, 0)
        self._target = lease.next

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        lease, begun = self._open(), Offset.from_json(start, self._queue)
        first = self._first_of(lease, begun)
        if self._options.ack_on == "finished" and begun.epoch == lease.epoch:
            run_blocking(lease.begin_trim, min(begun.seq, lease.next))
        end = self._end_of(lease, first, limit)
        if end <= first:
            run_blocking(lease.finish_trim)
            return start
        run_blocking(lease.hold, end)
        self._since, self._end = _clock.now(), end
        return self._at(lease, end)

    def _end_of(self, lease: QueueLease, first: int, limit: ReadLimit) -> int:
        """Return the end of a batch from `first` on; `first` if there is to be none."""
        options = self._options
        self._end = first
        if is_draining() or (self._target is not None and first >= self._target):
            return first
        if self._target is not None:
            run_blocking(lease.poll, first, 0)
            return min(lease.next, first + self._max_rows(lease, limit), self._target)
        least = options.min_messages_per_trigger
        if _clock.now() - self._since >= options.max_trigger_delay:
            least = 1
        run_blocking(lease.poll, first + least - 1, options.poll_timeout)
        if lease.next - first < least:
            return first
        return min(lease.next, first + self._max_rows(lease, limit))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the end of the queue, with what waits beyond the batch: number and oldest time.

        Spark shows it as `latestOffset` of the source in each progress report.
        """
        lease = self._lease
        if lease is None:
            return None
        backlog = max(0, lease.next - max(self._end, lease.first))
        found = {**self._at(lease, lease.next), "backlog": backlog}
        oldest = self._oldest_waiting(lease) if backlog else None
        return found if oldest is None else {**found, "oldest": oldest}

    def _oldest_waiting(self, lease: QueueLease) -> str | None:
        """Return the time of the first message beyond the batch; asks once a second."""
        now = _clock.now()
        if now - self._asked >= _OLDEST_INTERVAL:
            self._asked = now
            try:
                sent = run_blocking(lease.sent_at, self._end)
            except JMSException as error:  # a metric must not end a query
                logger.debug("The age of the oldest message of %s: %s", self._queue, error)
                sent = None
            self._oldest = (self._end, sent)
        number, milliseconds = self._oldest
        if number != self._end or not milliseconds:
            return None
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        lease = self._open()
        begun, ended = Offset.from_json(start, self._queue), Offset.from_json(end, self._queue)
        if ended.epoch != lease.epoch:
            self._report_loss(
                f"{self._queue} was purged or created again since this batch was planned"
            )
            return []
        high = min(ended.seq, lease.next)
        # the broker lost numbers in a crash, and the batch ends before it starts
        is_reversed = begun.epoch == lease.epoch and begun.seq > ended.seq
        low = lease.first if is_reversed else self._first_of(lease, begun)
        if high < ended.seq:
            self._report_loss(
                f"The batch ends before message {ended.seq}, but {self._queue} ends before {high}"
            )
        if low >= high:
            return []
        run_blocking(lease.hold, high)
        shares = split_evenly(low, high, self._options.partitions)
        return [RangePartition(lease.token, lease.epoch, start, end) for start, end in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, RangePartition):  # Spark's own, for an empty batch
            return iter(())
        return read_range(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        lease, ended = self._open(), Offset.from_json(end, self._queue)
        if ended.epoch != lease.epoch:
            return
        number = min(ended.seq, lease.next)
        run_blocking(lease.trim if self._options.ack_on == "commit" else lease.begin_trim, number)

    def stop(self) -> None:
        """Release the lease, if Spark calls this; usually Spark only ends the process."""
        lease, self._lease = self._lease, None
        if lease is not None:
            run_blocking(lease.close)

    def _open(self) -> QueueLease:
        if self._lease is None:
            lease = QueueLease(self._options)
            run_blocking(lease.open)
            self._lease = lease
        return self._lease

    def _at(self, lease: QueueLease, seq: int) -> dict[str, Any]:
        return Offset(self._queue, lease.epoch, seq).to_json()

    def _first_of(self, lease: QueueLease, begun: Offset) -> int:
        """Return the first number to read, given the offset up to which batches are finished."""
        if begun.epoch != lease.epoch:
            self._report_loss(
                f"{self._queue} was purged or created again: its sequence numbers are not those of "
                "the checkpoint"
            )
            return lease.first
        if begun.seq < lease.first:
            self._report_loss(
                f"The batch starts with message {begun.seq}, but {self._queue} starts with "
                f"{lease.first}"
            )
            return lease.first
        if begun.seq > lease.next:
            self._report_loss(
                f"Messages before {begun.seq} were read, but {self._queue} ends before "
                f"{lease.next}: the broker lost some in a crash"
            )
            return lease.next
        return begun.seq

    def _max_rows(self, lease: QueueLease, limit: ReadLimit) -> int:
        rows, size = batch_limit(limit, self._options)
        return max(1, min(rows, size // lease.average))

    def _report_loss(self, text: str) -> None:
        if self._options.fail_on_data_loss:
            raise IllegalStateException(
                text,
                hint="they expired, were consumed or were purged; failOnDataLoss=false "
                "continues without them",
            )
        logger.warning("%s; continuing without them (failOnDataLoss=false)", text)
