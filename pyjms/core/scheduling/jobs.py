"""The jobs of a broker's scheduler, and a lock for named jobs.

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

import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from pyjms import _clock
from pyjms.core.closing import using
from pyjms.errors import (
    InvalidClientIDException,
    RequestTimeoutException,
    UnsupportedOperationException,
)
from pyjms.jms.api import Connection, ConnectionFactory, MessageConsumer, Session
from pyjms.jms.bodies import TextMessage
from pyjms.jms.destination import Destination, Topic
from pyjms.jms.message import Message
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

__all__ = ["NAME", "VERSION", "Jobs", "ScheduledJob", "locked_connection"]

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
    while (inner := getattr(factory, "target_connection_factory", None)) is not None:
        factory = inner  # shared and cached connections already have client ids
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

    async def __aenter__(self) -> Jobs:
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
            await self._send(replies, {AMQ_SCHEDULED_DELAY: Long(_CENTURY_MS), _END: token})
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
                raise UnsupportedOperationException(
                    "The broker has no scheduler: it has delivered a scheduled message at once",
                    hint='set schedulerSupport="true" in ActiveMQ\'s <broker>, scheduler_support: '
                    "true in broker.yaml, broker.schedulerSupport=true in a vm:// URL",
                )
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
