"""Requests: the wait for a reply, and the check that somebody would reply.

A reply is received on a shared, a separate temporary, or a given queue.

A shared reply queue belongs to a connection factory that shares its connection, and ends with that
connection; the next request creates another one. No task listens on it: one of the waiting requests
receives for all of them, until it has its own reply and another request takes over. So nothing runs
while no request waits. Replies are matched by correlation id. A reply that arrives before `send`
has returned, when the message id is not known yet, is kept until then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import anyio

from pyjms.errors import ConnectionClosedException, IllegalStateException, NoConsumerException
from pyjms.jms.api import Connection, ConnectionFactory, MessageConsumer, Session
from pyjms.jms.destination import (
    Destination,
    Queue,
    TemporaryQueue,
    Topic,
    advisory_topic,
    name_matches,
)
from pyjms.jms.message import Message
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import Waiter
from pyjms.runtime.logging import get_logger
from pyjms.template.resources import close_quietly, quietly, using

if TYPE_CHECKING:
    from pyjms.client.advisories import ConsumerAdvisory

logger: Final = get_logger(__name__)

SendRequest = Callable[[Destination], Awaitable[Message]]
"""Sends the request with this reply destination, and returns it with its message id."""

_MAX_UNCLAIMED: Final = 1000


async def reply_from_temporary_queue(
    session: Session, send: SendRequest, timeout: float | None
) -> Message | None:
    """Send a request, receive the reply on a temporary queue, and delete the queue."""
    queue = await session.create_temporary_queue()
    try:
        async with using(await session.create_consumer(queue)) as consumer:
            await send(queue)
            reply = await consumer.receive(timeout)
    except BaseException:
        await quietly(lambda: session.delete_temporary(queue), f"delete {queue}")
        raise
    await session.delete_temporary(queue)
    return reply


async def reply_from_response_queue(
    session: Session, send: SendRequest, timeout: float | None, queue: Destination
) -> Message | None:
    """Send a request, and receive its reply on a permanent queue, by correlation id."""
    request = await send(queue)
    key = (request.correlation_id or request.message_id or "").replace("'", "''")
    selector = f"JMSCorrelationID='{key}'"
    async with using(await session.create_consumer(queue, selector)) as consumer:
        return await consumer.receive(timeout)


async def reply_from_shared_queue(
    factory: ConnectionFactory, request: Message, send: SendRequest, timeout: float | None
) -> Message | None:
    """Send a request, and receive its reply on the shared temporary queue of the factory.

    Raises:
        ConnectionClosedException: the shared connection was closed in the meantime.
        JMSException: the request could not be sent, or the connection has failed.
    """
    shared = _shared.get(factory)
    if shared is None:
        shared = _shared[factory] = _SharedReplies()
    queue = await shared.current(factory)
    if request.correlation_id is not None and queue.awaits(request.correlation_id):
        # Two requests with the same correlation id need separate queues.
        return await reply_from_temporary_queue(queue.session, send, timeout)
    return await queue.request(request, send, timeout)


class _SharedReplies:
    """The reply queue of one connection factory, re-created after its connection was lost."""

    def __init__(self) -> None:
        self._opening = anyio.Lock()
        self._queue: _ReplyQueue | None = None

    async def current(self, factory: ConnectionFactory) -> _ReplyQueue:
        """Return the open reply queue; create one if there is none."""
        queue = self._queue
        if queue is not None and queue.is_open:
            return queue
        async with self._opening:
            if self._queue is None or not self._queue.is_open:
                if self._queue is not None:
                    await self._queue.close()
                self._queue = None
                self._queue = await _open(factory)
            return self._queue


_shared: WeakKeyDictionary[ConnectionFactory, _SharedReplies] = WeakKeyDictionary()


async def _open(factory: ConnectionFactory) -> _ReplyQueue:
    connection = await factory.create_connection()
    session: Session | None = None
    try:
        session = await connection.create_session()
        queue = await session.create_temporary_queue()
        consumer = await session.create_consumer(queue)
        await connection.start()
    except BaseException:
        await close_quietly(session, connection)
        raise
    return _ReplyQueue(connection, session, queue, consumer)


class _Request:
    """A request that waits for its reply."""

    __slots__ = ("keys", "reply", "waiter")

    def __init__(self, correlation_id: str | None) -> None:
        self.keys: tuple[str | None, ...] | None = None
        """The possible correlation ids of its reply; None: it is being sent."""
        if correlation_id is not None:
            self.keys = (correlation_id,)
        self.reply: Message | None = None
        self.waiter: Waiter | None = None

    def wake(self) -> None:
        if self.waiter is not None:
            self.waiter.wake()


class _ReplyQueue:
    """A temporary queue for the replies to any number of requests."""

    def __init__(
        self,
        connection: Connection,
        session: Session,
        queue: TemporaryQueue,
        consumer: MessageConsumer,
    ) -> None:
        self._resources = (consumer, session, connection)
        self.session = session
        self._queue = queue
        self._consumer = consumer
        self._requests: list[_Request] = []
        self._receiving = False
        self._unclaimed: deque[Message] = deque(maxlen=_MAX_UNCLAIMED)
        self._was_abandoned = False

    @property
    def is_open(self) -> bool:
        """Whether replies can still arrive."""
        return not self._consumer.is_closed

    def awaits(self, correlation_id: str) -> bool:
        """Return whether a request with this correlation id waits."""
        return any(correlation_id in (request.keys or ()) for request in self._requests)

    async def close(self) -> None:
        """Close the queue's session and connection, because the connection is lost."""
        await close_quietly(*self._resources)

    async def request(
        self, message: Message, send: SendRequest, timeout: float | None
    ) -> Message | None:
        """Send `message`, and wait for its reply at most `timeout` seconds."""
        request = _Request(message.correlation_id)
        self._requests.append(request)
        try:
            sent = await send(self._queue)
            request.keys = (sent.correlation_id, sent.message_id)
            self._claim()
            return await self._wait(request, timeout)
        finally:
            self._requests.remove(request)
            self._was_abandoned = self._was_abandoned or request.reply is None
            self._pass_on()

    async def _wait(self, request: _Request, timeout: float | None) -> Message | None:
        deadline = None if timeout is None else _clock.now() + timeout
        left = timeout
        while request.reply is None:
            if not self._receiving:
                if not await self._receive(left):
                    break
            elif left is None or left > 0:
                request.waiter = Waiter()
                await _clock.wait(request.waiter, left)
                request.waiter = None
            else:
                break
            left = None if deadline is None else max(0.0, deadline - _clock.now())
        return request.reply

    async def _receive(self, timeout: float | None) -> bool:
        """Receive one reply for any request; return False if none arrived in time."""
        self._receiving = True
        try:
            reply = await self._consumer.receive(timeout)
        finally:
            self._receiving = False
        if reply is None:
            if self._consumer.is_closed:
                raise ConnectionClosedException
            return False
        if not self._deliver(reply):
            self._unclaimed.append(reply)
            self._claim()
        return True

    def _claim(self) -> None:
        """Deliver early replies to their requests; drop the rest once all requests are sent."""
        early, self._unclaimed = self._unclaimed, deque(maxlen=_MAX_UNCLAIMED)
        rest = [reply for reply in early if not self._deliver(reply)]
        if any(request.keys is None for request in self._requests):
            self._unclaimed.extend(rest)
        else:
            for reply in rest:
                _report_unexpected(reply)

    def _deliver(self, reply: Message) -> bool:
        request = self._addressee(reply)
        if request is None:
            return False
        request.reply = reply
        request.wake()
        return True

    def _addressee(self, reply: Message) -> _Request | None:
        key = reply.correlation_id
        waiting = [request for request in self._requests if request.reply is None]
        if key:
            return next((r for r in waiting if r.keys is not None and key in r.keys), None)
        # A reply without a correlation id can only be matched if there was a single request.
        return waiting[0] if len(waiting) == 1 and not self._was_abandoned else None

    def _pass_on(self) -> None:
        """Wake another request to receive, if none is receiving."""
        if not self._receiving:
            for request in self._requests:
                if request.waiter is not None:
                    request.wake()
                    return


def _report_unexpected(reply: Message) -> None:
    if reply.correlation_id:
        logger.info("Reply %s came too late: no request waits for it", reply.message_id)
    else:
        logger.warning(
            "Reply %s has no correlation id, so the request that it belongs to is unknown; its "
            "sender must copy the request's correlation id, or else its message id (or set the "
            "template's shared_reply_queue to false)",
            reply.message_id,
        )


# --- Whether a destination has a consumer, by the broker's consumer advisories.
#
# A new consumer of the topic of consumer advisories is told the consumers that are there already,
# in the order in which they came (activemq-broker V-A2). Nothing marks the end of that list. So a
# consumer of a temporary queue is added first, and the advisories about that queue are requested as
# well: once it is told, all older consumers have been told, too.
#
# The topic of a destination tells no consumers of patterns (`orders.>`) and of several destinations
# (`orders,invoices`). Only if it has told none, all consumers are asked for.

_LONGEST_WAIT: Final = 5.0
"""Seconds until the broker must have answered."""


async def check_consumer(session: Session, destination: Destination) -> None:
    """Check that a destination, or one of several, has a consumer. Cancellable.

    Browsers count. The connection must be started.

    Raises:
        NoConsumerException: it has none.
        IllegalStateException: the broker sends no advisories.
        JMSException: they must not be read, or the connection has failed.
    """
    marker = await session.create_temporary_queue()
    try:
        async with using(await session.create_consumer(marker)):
            members = destination.composite_destinations
            own = [advisory_topic("Consumer", member) for member in members]
            everything = advisory_topic("Consumer", (Queue if destination.is_queue else Topic)(">"))
            for topics in (own, [everything]):
                if await _has_advisory(session, topics, marker, destination):
                    return
    finally:
        await quietly(lambda: session.delete_temporary(marker), f"delete {marker}")
    raise NoConsumerException(
        f"{destination} has no consumer, so that nobody would reply: the request was not sent",
        destination=str(destination),
        hint="is the program with the listener running, with this broker and this name?",
    )


async def _has_advisory(
    session: Session, topics: list[Topic], marker: Destination, destination: Destination
) -> bool:
    """Return whether the advisories of these topics tell a consumer of a destination."""
    topics = [*topics, advisory_topic("Consumer", marker)]
    names = Topic(",".join(dict.fromkeys(topic.physical_name for topic in topics)))
    async with using(await session.create_consumer(names)) as advisories:
        deadline = _clock.now() + _LONGEST_WAIT
        while True:
            advisory = await _next(advisories, deadline)
            if advisory.destination == marker:
                return False
            if advisory.exists and _consumes(advisory.destination, destination):
                return True


async def _next(advisories: MessageConsumer, deadline: float) -> ConsumerAdvisory:
    from pyjms.client.advisories import ConsumerAdvisory, read_advisory  # noqa: PLC0415 - rare

    while message := await advisories.receive(max(deadline - _clock.now(), 0.0)):
        advisory = read_advisory(message)
        if isinstance(advisory, ConsumerAdvisory):
            return advisory
    raise IllegalStateException(
        f"The broker does not tell its consumers within {_LONGEST_WAIT:g} s",
        hint="require_consumer needs the broker's advisories (advisory_support, ActiveMQ: "
        "advisorySupport)",
    )


def _consumes(consumed: Destination | None, destination: Destination) -> bool:
    """Return whether a consumer of `consumed`, which may be a pattern, consumes a destination."""
    return consumed is not None and any(
        pattern.is_queue == member.is_queue
        and name_matches(pattern.physical_name, member.physical_name)
        for pattern in consumed.composite_destinations
        for member in destination.composite_destinations
    )
