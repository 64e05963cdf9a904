"""JmsScheduler: messages that the broker's scheduler sends later, or repeatedly.

Theory of operation
-------------------

ActiveMQ's scheduler has no request for a job by a name that the client has chosen, the end of its
list is not marked, and a broker without a scheduler does not respond at all. So:

- Before a list is requested, an end marker is sent: a job for the reply queue, due in a hundred
  years. The list is in the order of times, so it ends with that job, which is then removed. A
  broker without a scheduler delivers the end marker at once, which its properties show.
- A named job is a message with the property `pyjms_schedule`. A process that adds or removes a
  named job holds a lock, so that only one of several processes adds it. The lock is a connection
  with a common client id, which a broker accepts only once at a time; if a process dies, the lock
  is released with its connection. The lock is held until the new job is in the list, because the
  broker may create jobs later.

(activemq-broker S1 to S8)
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Self, Unpack

from pyjms.errors import (
    IllegalStateException,
    InvalidClientIDException,
    RequestTimeoutException,
    UnsupportedOperationException,
)
from pyjms.jms.api import Connection, ConnectionFactory, MessageConsumer, Session
from pyjms.jms.cron import normalize_cron
from pyjms.jms.destination import AnyDestination, Destination, Topic
from pyjms.jms.message import Message, TextMessage
from pyjms.jms.scheduled import (
    AMQ_SCHEDULED_CRON,
    AMQ_SCHEDULED_DELAY,
    AMQ_SCHEDULED_ID,
    AMQ_SCHEDULED_PERIOD,
    AMQ_SCHEDULED_REPEAT,
    AMQ_SCHEDULER_ACTION,
    AMQ_SCHEDULER_ACTION_BROWSE,
    AMQ_SCHEDULER_ACTION_REMOVE,
    AMQ_SCHEDULER_MANAGEMENT_DESTINATION,
    PYJMS_NEXT_TIME,
)
from pyjms.jms.types import Long
from pyjms.runtime import clock as _clock
from pyjms.runtime.clock import check_seconds
from pyjms.template.messaging import template_of
from pyjms.template.resources import BoundResource, bind, innermost_factory, using
from pyjms.template.send_options import SendOptions
from pyjms.template.template import JmsTemplate

NAME: Final = "pyjms_schedule"
"""The property with the name of a job."""
VERSION: Final = "pyjms_schedule_version"
"""The property with a digest of the schedule."""
_END: Final = "pyjms_schedule_end"
_LOCK: Final = "pyjms-schedules"
_CENTURY_MS: Final = 100 * 365 * 24 * 3_600_000
_OLD_MS: Final = 3_600_000
"""The age of an end marker whose process cannot be waiting for its list any more."""
_ANSWER: Final = 10.0
"""Seconds to wait for a list."""
_ASK_AGAIN: Final = 0.5
"""Seconds without an entry of a list after which the list is requested again."""
_LOCK_TIMEOUT: Final = 30.0
_LOCK_INTERVAL: Final = 0.2


@dataclass(frozen=True)
class ScheduledJob:
    """A job of the broker's scheduler: a message and its schedule."""

    id: str
    destination: Destination | None
    name: str | None
    """The name passed to `schedule`, or None."""
    cron: str | None
    delay: float | None
    """Seconds before the first delivery."""
    period: float | None
    """Seconds between two deliveries."""
    repeat: int
    """Deliveries after the first one, as originally scheduled; negative: for ever."""
    next_time: datetime | None
    """When it is due (UTC); None: the broker does not report it, like ActiveMQ."""
    message: Message = field(repr=False, compare=False)
    version: str | None = field(default=None, repr=False, compare=False)


@asynccontextmanager
async def locked_connection(factory: ConnectionFactory) -> AsyncIterator[Connection]:
    """Open a connection with the client id that serves as the lock."""
    factory = innermost_factory(factory)  # shared and cached connections have client ids already
    deadline = _clock.now() + _LOCK_TIMEOUT
    while True:
        connection = await factory.create_connection()
        async with using(connection):
            try:
                await connection.set_client_id(_LOCK)
                await connection.start()
                await (await connection.create_session()).close()
            except InvalidClientIDException:
                if _clock.now() > deadline:
                    raise
            else:
                yield connection
                return
        await _clock.sleep(_LOCK_INTERVAL)


class Jobs(AbstractAsyncContextManager["Jobs"]):
    """Requests to the scheduler over one connection."""

    session: Session

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def __aenter__(self) -> Self:
        await self._connection.start()
        self.session = await self._connection.create_session()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.session.close()

    async def all(self) -> list[ScheduledJob]:
        """Return all jobs."""
        replies = await self.session.create_temporary_queue()
        token = uuid.uuid4().hex
        async with await self.session.create_consumer(replies) as consumer:
            try:
                await self._send(replies, {AMQ_SCHEDULED_DELAY: Long(_CENTURY_MS), _END: token})
            except IllegalStateException as error:
                raise _no_scheduler("it refuses a scheduled message") from error
            found = await self._until_end(consumer, replies, token)
        await self.session.delete_temporary(replies)
        return found

    async def remove(self, job_id: str) -> None:
        """Remove a job."""
        await self._manage(AMQ_SCHEDULER_ACTION_REMOVE, {AMQ_SCHEDULED_ID: job_id})

    async def until_listed(self, name: str, version: str) -> None:
        """Wait until a job that was just sent is in the list."""
        deadline = _clock.now() + _ANSWER
        while not any((job.name, job.version) == (name, version) for job in await self.all()):
            if _clock.now() > deadline:
                raise _no_answer(f"it has not created the job {name!r}")
            await _clock.sleep(_LOCK_INTERVAL)

    async def _until_end(
        self, consumer: MessageConsumer, replies: Destination, token: str
    ) -> list[ScheduledJob]:
        found: dict[str, ScheduledJob] = {}
        deadline = _clock.now() + _ANSWER
        await self._manage(AMQ_SCHEDULER_ACTION_BROWSE, {}, replies)
        while True:
            entry = await consumer.receive(_ASK_AGAIN)
            if entry is None:
                if _clock.now() > deadline:
                    raise _no_answer("it has not sent the list of its jobs")
                # the list may have been made before the end marker became a job
                await self._manage(AMQ_SCHEDULER_ACTION_BROWSE, {}, replies)
                continue
            job_id = entry.properties.get(AMQ_SCHEDULED_ID)
            if not isinstance(job_id, str):
                raise _no_scheduler("it has delivered a scheduled message at once")
            end = entry.properties.get(_END)
            if end is None:
                found[job_id] = _job(job_id, entry)
            elif end == token or entry.timestamp < _clock.time_ms() - _OLD_MS:
                await self.remove(job_id)
                if end == token:
                    return list(found.values())

    async def _manage(
        self, action: str, properties: Mapping[str, object], reply_to: Destination | None = None
    ) -> None:
        topic = Topic(AMQ_SCHEDULER_MANAGEMENT_DESTINATION)
        await self._send(topic, {AMQ_SCHEDULER_ACTION: action, **properties}, reply_to)

    async def _send(
        self,
        destination: Destination,
        properties: Mapping[str, object],
        reply_to: Destination | None = None,
    ) -> None:
        message = TextMessage("")
        message.reply_to = reply_to
        for name, value in properties.items():
            message.properties[name] = value
        async with await self.session.create_producer(destination) as producer:
            await producer.send(message)


def _no_scheduler(how: str) -> UnsupportedOperationException:
    return UnsupportedOperationException(
        f"The broker has no scheduler: {how}",
        hint='set schedulerSupport="true" in ActiveMQ\'s <broker>, scheduler_support: true in '
        "broker.yaml, broker.schedulerSupport=true in a vm:// URL",
    )


def _job(job_id: str, entry: Message) -> ScheduledJob:
    values = entry.properties
    due = _number(values.get(PYJMS_NEXT_TIME))
    cron = values.get(AMQ_SCHEDULED_CRON)
    name = values.get(NAME)
    version = values.get(VERSION)
    return ScheduledJob(
        id=job_id,
        destination=entry.original_destination,
        name=name if isinstance(name, str) else None,
        cron=cron if isinstance(cron, str) and cron else None,
        delay=_seconds(values.get(AMQ_SCHEDULED_DELAY)),
        period=_seconds(values.get(AMQ_SCHEDULED_PERIOD)),
        repeat=int(_number(values.get(AMQ_SCHEDULED_REPEAT)) or 0),
        next_time=None if due is None else datetime.fromtimestamp(due / 1000, UTC),
        message=entry,
        version=version if isinstance(version, str) else None,
    )


def _number(value: object) -> float | None:
    try:
        return None if value is None else float(str(value))
    except ValueError:  # set by a client that sent text
        return None


def _seconds(value: object) -> float | None:
    number = _number(value)
    return None if number is None else number / 1000


def _no_answer(what: str) -> RequestTimeoutException:
    return RequestTimeoutException(
        f"The broker's scheduler did not answer within {_ANSWER:g} s: {what}",
        hint=f"check that the client may use the topic {AMQ_SCHEDULER_MANAGEMENT_DESTINATION}",
    )


_FOR_EVER: Final = -1


class JmsScheduler:
    """Sends messages through the broker's scheduler, lists its jobs and removes them.

    The scheduler is ActiveMQ's (`schedulerSupport`) or the bundled broker's (`scheduler_support`).
    Jobs are stored if the broker is persistent. Any number of tasks of one loop may share it; for
    other threads use `pyjms.JmsScheduler`.

    Args:
        template: sends and converts. For a connection factory, a JmsTemplate with default settings
            is created.
    """

    def __init__(self, template: JmsTemplate | ConnectionFactory) -> None:
        self._template = template_of(template)

    async def schedule(
        self,
        destination: AnyDestination,
        payload: object,
        *,
        cron: str | None = None,
        fixed_rate: float | None = None,
        initial_delay: float | None = None,
        repeat: int | None = None,
        name: str | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Schedule `payload` to be sent at the times of a cron entry, or at a fixed rate.

        Without a name, the request is an ordinary message, and part of a transaction if there is
        one. With a name, the broker has only one job of that name, even if several processes add
        it: an identical job is kept, a different one is replaced. This takes effect at once.

        Args:
            destination: a destination or its name; None: the default.
            payload: converted by the template, once.
            cron: minute, hour, day of month, month, day of week (see `pyjms.jms.cron`), in the
                broker's time zone.
            fixed_rate: seconds between two deliveries.
            initial_delay: seconds before the first delivery with a fixed rate; None: the rate.
            repeat: deliveries after the first one, at most 1000; None: for ever.
            name: the name of the job.
            options: the options of `JmsTemplate.convert_and_send`, except `delay`. A `time_to_live`
                counts from each delivery.

        Raises:
            TypeError: neither or both of `cron` and `fixed_rate` are given, or a `delay`.
            ValueError: the cron entry or a number is not valid.
            UnsupportedOperationException: with a name: the broker has no scheduler.
            RequestTimeoutException: with a name: the broker does not answer.
            JMSException: it could not be sent.
        """
        if options.get("delay") is not None:
            raise TypeError("A schedule has no delay: give an initial_delay with fixed_rate")
        properties = _schedule_properties(cron, fixed_rate, initial_delay, repeat)
        properties |= options.get("properties") or {}
        options["properties"] = properties
        if name is None:
            await self._template.convert_and_send(destination, payload, **options)
            return
        version = _version(destination, payload, options)
        options["properties"] = {**properties, NAME: name, VERSION: version}
        async with self._exclusively() as jobs:
            found = [job for job in await jobs.all() if job.name == name]
            if [job.version for job in found] == [version]:
                return
            for job in found:
                await jobs.remove(job.id)
            await self._template.convert_and_send(destination, payload, **options)
            await jobs.until_listed(name, version)

    async def jobs(self, name: str | None = None) -> list[ScheduledJob]:
        """Return all jobs, or the jobs of this name, in the order of their times.

        Raises:
            UnsupportedOperationException: the broker has no scheduler.
            RequestTimeoutException: the broker does not answer.
            JMSException: the connection has failed, or the broker refused.
        """
        async with self._connect() as jobs:
            return [job for job in await jobs.all() if name in (None, job.name)]

    async def cancel(self, job: ScheduledJob | str) -> None:
        """Remove a job, given as an object or by its id. It is not an error if it no longer exists.

        Raises:
            JMSException: the connection has failed, or the broker refused.
        """
        job_id = job if isinstance(job, str) else job.id
        async with self._connect() as jobs:
            await jobs.remove(job_id)

    async def cancel_named(self, name: str) -> int:
        """Remove the job of this name; return the number of jobs removed.

        Raises:
            UnsupportedOperationException: the broker has no scheduler.
            RequestTimeoutException: the broker does not answer.
            JMSException: the connection has failed, or the broker refused.
        """
        async with self._exclusively() as jobs:
            found = [job for job in await jobs.all() if job.name == name]
            for job in found:
                await jobs.remove(job.id)
            return len(found)

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Jobs]:
        factory = self._template.connection_factory
        async with using(await factory.create_connection()) as connection, Jobs(connection) as jobs:
            yield jobs

    @asynccontextmanager
    async def _exclusively(self) -> AsyncIterator[Jobs]:
        """Yield the jobs, while no other process can add or remove named jobs."""
        factory = self._template.connection_factory
        async with locked_connection(factory) as connection, Jobs(connection) as jobs:
            with bind(factory, BoundResource(connection, jobs.session)):
                yield jobs


def _schedule_properties(
    cron: str | None, fixed_rate: float | None, initial_delay: float | None, repeat: int | None
) -> dict[str, object]:
    if (cron is None) == (fixed_rate is None):
        raise TypeError('Give either cron="0 6 * * *" or fixed_rate=seconds')
    if cron is not None:
        return {AMQ_SCHEDULED_CRON: normalize_cron(cron)}
    assert fixed_rate is not None
    check_seconds("fixed_rate", fixed_rate, least=0.001)
    delay = fixed_rate if initial_delay is None else initial_delay
    check_seconds("initial_delay", delay)
    return {
        AMQ_SCHEDULED_DELAY: Long(max(round(delay * 1000), 1)),
        AMQ_SCHEDULED_PERIOD: Long(round(fixed_rate * 1000)),
        AMQ_SCHEDULED_REPEAT: _FOR_EVER if repeat is None else repeat,
    }


def _version(destination: AnyDestination, payload: object, options: Mapping[str, Any]) -> str:
    """Return a digest of the schedule, which is the same in every process."""
    given = sorted((name, repr(value)) for name, value in options.items())
    text = f"{destination}|{payload!r}|{given}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]
