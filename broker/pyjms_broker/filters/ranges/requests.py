"""Executes range requests and replies to them.

Each request runs in its own task, which is cancelled when its connection closes. It first waits for
space for its reply. For each connection, one range is read at a time.

A reply waits while the reply destination has no space, by its own limit or one of the broker's, as
a client's send would. Its contents are read from the store only afterwards, so waiting replies need
no memory. A reply to an empty queue does not wait, so that a reader whose trim would free the
exhausted memory can continue; at most 32 queues have one such reply.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import anyio

from pyjms.errors import (
    IllegalStateException,
    JMSException,
    JMSSecurityException,
    ResourceAllocationException,
)
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.selector import Selector, SelectorLimitException
from pyjms.selector.budget import BUSY_DELAY, SelectorsBusyException
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.access import RANGES
from pyjms_broker.api.broker import Broker
from pyjms_broker.api.context import ConnectionContext, ProducerExchange
from pyjms_broker.api.message import StoredMessage
from pyjms_broker.api.names import check_access
from pyjms_broker.api.usage import MemoryUsage
from pyjms_broker.filters.ranges.leases import Leases, ProgressRecords, QueueReading, wait_for_any
from pyjms_broker.filters.ranges.protocol import (
    RangesError,
    ReplyFactory,
    frame_message,
    read_request,
)
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.queue import Queue
from pyjms_broker.region.region_broker import RegionBroker
from pyjms_broker.region.system_usage import DiskUsage

logger = get_logger(__name__)

_CHUNK: Final = 1024 * 1024
_BATCH: Final = 200
_MAX_WAIT: Final = 60.0

Fields = dict[str, Any]


class Reply(NamedTuple):
    """A JSON reply or, with a body, a chunk with its properties."""

    values: Fields
    body: bytes | None = None


Operation = Callable[[Leases, ConnectionContext, Fields], Awaitable[Reply]]


def _extent(reading: QueueReading) -> Fields:
    return {"epoch": reading.epoch, "first": reading.first, "next": reading.next}


async def _lease(leases: Leases, context: ConnectionContext, fields: Fields) -> Reply:
    wait = min(float(fields.get("wait") or 0), _MAX_WAIT)
    lease = await leases.acquire(context, {**fields, "wait": wait})
    reading = lease.reading
    logger.info("%s is read by %s", lease.destination, lease.owner)
    return Reply({"token": lease.token, **_extent(reading)})


async def _stat(leases: Leases, _context: ConnectionContext, fields: Fields) -> Reply:
    wanted = [(fields["token"], fields.get("gt") or 0), *(fields.get("more") or ())]
    readings = [leases.find(token).reading for token, _ in wanted]
    wait = min(float(fields.get("wait") or 0), _MAX_WAIT)
    if wait > 0:
        await wait_for_any(list(zip(readings, (than for _, than in wanted), strict=True)), wait)
        for token, _ in wanted:
            leases.find(token)
    values, *more = [
        {**_extent(each), "messages": each.message_count, "bytes": each.message_size}
        for each in readings
    ]
    if more:
        values["more"] = more
    at = fields.get("at")
    if at is not None:
        first = next(readings[0].messages_left(at, at + 1), None)
        values["sent"] = None if first is None else first.message.timestamp
    return Reply(values)


async def _find(leases: Leases, context: ConnectionContext, fields: Fields) -> Reply:
    return Reply({"queues": leases.matching(context.access, fields["pattern"])})


async def _hold(leases: Leases, _context: ConnectionContext, fields: Fields) -> Reply:
    reading = leases.find(fields["token"]).reading
    await reading.hold(fields["to"])
    leases.find(fields["token"])
    return Reply({"held": reading.progress.held})


async def _look(leases: Leases, _context: ConnectionContext, fields: Fields) -> Reply:
    reading, _ = leases.inspect(fields)
    reading.refresh()
    return Reply({"epoch": reading.epoch, "first": reading.first, "next": reading.next})


async def _range(leases: Leases, context: ConnectionContext, fields: Fields) -> Reply:
    start, end, token = fields["from"], fields["to"], fields.get("token")
    if token is not None:
        lease = leases.find(token)
        reading, selector = lease.reading, lease.selector
        found = reading.messages(start, end)
    elif fields.get("queue") is not None:
        reading, selector = leases.inspect(fields)
        found = reading.messages_left(start, end)
    else:
        raise RangesError("bad_request", "A range request needs a token or a queue")
    frames: list[bytes] = []
    size, following, policy = 0, start, context.message_policy
    for seen, stored in enumerate(found, 1):
        if seen % _BATCH == 0:
            await _clock.sleep(0)
            if token is not None:
                leases.find(token)
        is_allowed = policy is None or policy(stored.message)
        if is_allowed and (selector is None or await _matches(selector, reading, stored)):
            frame = frame_message(stored)
            if frames and size + len(frame) > _CHUNK:
                return _chunk(reading, frames, following, last=False)
            frames.append(frame)
            size += len(frame)
        following = stored.position.arrival + 1
    return _chunk(reading, frames, end, last=True)


def _chunk(reading: QueueReading, frames: list[bytes], following: int, *, last: bool) -> Reply:
    values = {"next": following, "last": last, "epoch": reading.epoch}
    return Reply(values, b"".join(frames))


async def _matches(selector: Selector, reading: QueueReading, stored: StoredMessage) -> bool:
    reference = reading.reference_to(stored)
    try:
        while True:
            with suppress(SelectorsBusyException):
                return selector.matches(reference.lookup)
            await _clock.sleep(BUSY_DELAY)
    except SelectorLimitException as error:
        raise RangesError("failed", f"Message {stored.message.message_id}: {error}") from error
    except JMSException as error:
        logger.debug("A selector failed on %s: %s", stored.message.message_id, error)
        return False


async def _trim(leases: Leases, context: ConnectionContext, fields: Fields) -> Reply:
    reading = leases.find(fields["token"]).reading
    await reading.trim(fields["to"], context.message_policy)
    return Reply({"first": reading.first})


async def _release(leases: Leases, _context: ConnectionContext, fields: Fields) -> Reply:
    lease = leases.find(fields["token"])
    leases.end(lease)
    logger.info("%s is no longer read by %s", lease.destination, lease.owner)
    return Reply({"released": True})


OPERATIONS: Final[dict[str, Operation]] = {
    "lease": _lease,
    "stat": _stat,
    "hold": _hold,
    "look": _look,
    "find": _find,
    "range": _range,
    "trim": _trim,
    "release": _release,
}


_MAX_BEYOND: Final = 32
_CHECK_INTERVAL: Final = 1.0
"""Seconds until a waiting reply checks whether its queue has become empty."""
_LOG_PERIOD: Final = 60.0


def check_reply_destination(context: ConnectionContext, request: ActiveMQMessage) -> None:
    """Check that a request has a reply destination that its client may use."""
    to = request.reply_to
    if to is None:
        raise IllegalStateException(f"A request to {request.destination} needs a reply destination")
    if to.is_composite or to.is_pattern:
        raise IllegalStateException(
            f"A request to {request.destination} needs a single reply destination, not {to}"
        )
    check_access(context, to)


_MAX_CONCURRENT: Final = 32
"""Concurrent requests per connection: each reply may be a megabyte."""


@dataclass(eq=False)
class _Client:
    """The requests of a connection."""

    tasks: set[event_loop.BackgroundTask] = field(default_factory=set)
    reading: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while a range is read for the connection."""


class RangeRequests:
    """The range requests of a broker's connections, and the leases that they have."""

    def __init__(self, chain: Broker, region: RegionBroker) -> None:
        self._chain = chain
        self._replies = ReplyFactory()
        self._region = region
        self.progress = ProgressRecords(region, chain, self._replies)
        self.leases = Leases(region, self.progress)
        self._beyond: set[Queue] = set()
        """Queues that got a reply although there was no space."""
        self._next_log = 0.0
        self._clients: dict[ConnectionContext, _Client] = {}

    async def stop(self) -> None:
        """Cancel all requests."""
        tasks = [task for client in self._clients.values() for task in client.tasks]
        await event_loop.end_tasks(*tasks)

    def remove_connection(self, context: ConnectionContext) -> None:
        """Cancel the requests of a connection and end its leases."""
        client = self._clients.pop(context, None)
        for task in () if client is None else client.tasks:
            task.cancel()
        self.leases.end_all(context)

    def requests_of(self, context: ConnectionContext) -> set[event_loop.BackgroundTask]:
        """Return the tasks of a connection's current requests."""
        client = self._clients.get(context)
        return set() if client is None else set(client.tasks)

    def begin(self, context: ConnectionContext, message: ActiveMQMessage) -> None:
        """Execute a request in the background."""
        check_reply_destination(context, message)
        client = self._clients.get(context)
        if client is None:
            client = self._clients[context] = _Client()
        client.tasks.difference_update([task for task in client.tasks if task.done])
        if len(client.tasks) < _MAX_CONCURRENT:
            task = event_loop.spawn(
                self._serve, context, client, message, name=f"request to {RANGES}"
            )
            client.tasks.add(task)
            return
        refusal = f"More than {_MAX_CONCURRENT} requests at a time"
        if self._full_usage(context, self._probe(message)) is not None:
            raise ResourceAllocationException(
                f"{refusal}, and {message.reply_to} has no space",
                hint="receive the answers before sending further requests",
            )
        self._reply(message, _refusal("bad_request", refusal))

    async def _serve(
        self, context: ConnectionContext, client: _Client, message: ActiveMQMessage
    ) -> None:
        try:
            await self._wait_for_space(context, self._probe(message))
            reply = await self._answer(context, client, message, read_request(message))
        except RangesError as error:
            reply = _refusal(error.code, str(error))
        except (JMSSecurityException, ResourceAllocationException) as error:
            reply = _refusal("failed", error.reason)
        except JMSException as error:
            logger.warning("A request to %s failed", RANGES, exc_info=True)
            reply = _refusal("failed", str(error))
        except Exception:  # a client without a reply would wait forever
            logger.exception("A request to %s failed", RANGES)
            reply = _refusal("failed", "The broker failed; its log has the reason")
        self._reply(message, reply)

    async def _answer(
        self, context: ConnectionContext, client: _Client, message: ActiveMQMessage, fields: Fields
    ) -> Reply:
        execute = OPERATIONS[fields["op"]]
        if context.access is not None:
            self.leases.check_access(context.access, fields)
        if fields["op"] != "range":
            return await execute(self.leases, context, fields)
        async with client.reading:
            probe = self._probe(message)
            while True:
                await self._wait_for_space(context, probe)
                reply = await execute(self.leases, context, fields)
                if self._full_usage(context, probe) is None:
                    return reply
                del reply  # a waiting reply uses no memory: it is read again

    async def _wait_for_space(self, context: ConnectionContext, probe: ActiveMQMessage) -> None:
        """Wait until a reply like `probe` has space in its destination, which is created."""
        while (full := self._full_usage(context, probe)) is not None:
            destination, usage = full
            self._log(destination)
            more = anyio.Event()
            if isinstance(usage, DiskUsage):
                withdraw = usage.wait(more.set, destination.policy.store_usage_high_water_mark)
            else:
                withdraw = usage.wait(more.set)
            try:
                with _clock.timeout(_CHECK_INTERVAL):
                    await more.wait()
            finally:
                withdraw()

    def _full_usage(
        self, context: ConnectionContext, answer: ActiveMQMessage
    ) -> tuple[BaseDestination, MemoryUsage | DiskUsage] | None:
        to = answer.destination
        assert to is not None
        destination = self._chain.add_destination(context, to).base
        assert isinstance(destination, BaseDestination)
        usage = destination.full_usage(destination.reference_to(answer))
        if usage is None or self._may_exceed(destination):
            return None
        return destination, usage

    def _may_exceed(self, destination: BaseDestination) -> bool:
        if not isinstance(destination, Queue) or destination.statistics.messages:
            return False
        self._beyond = {each for each in self._beyond if each.statistics.messages}
        if len(self._beyond) >= _MAX_BEYOND:
            return False
        self._beyond.add(destination)
        return True

    def _log(self, destination: BaseDestination) -> None:
        now = _clock.now()
        if now >= self._next_log:
            self._next_log = now + _LOG_PERIOD
            logger.warning("%s has no space: answers to range requests wait", destination)

    def _probe(self, request: ActiveMQMessage) -> ActiveMQMessage:
        """Return an empty reply, to check for space."""
        assert request.reply_to is not None
        return self._replies.message({}, request.reply_to)

    def _reply(self, request: ActiveMQMessage, reply: Reply) -> None:
        to, correlation_id = request.reply_to, request.correlation_id
        assert to is not None
        message = self._replies.message(reply.values, to, correlation_id, reply.body)
        try:
            self._chain.send(ProducerExchange(self._region.context), message)
        except JMSException as error:
            logger.debug("The reply to %s was not sent: %s", request.message_id, error)


def _refusal(code: str, text: str) -> Reply:
    return Reply({"error": text, "code": code})
