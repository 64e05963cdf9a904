"""The jobs of a broker's scheduler, and a lock for those that have names.

Theory of operation
-------------------

ActiveMQ's scheduler has no request for one job by a name of the client's, its list has no end, and
a broker without a scheduler says nothing at all. So:

- A list is asked for after a last job, a hundred years ahead, has been sent to its reply queue: the
  list is in the order of times, so it ends with that one, which is then removed. A broker without a
  scheduler delivers it at once, as the property of its job shows.
- A job with a name is a message with the property `pyjms_schedule`. Whoever adds or removes one
  holds a lock meanwhile, so that of several processes one adds it: a connection with a client id
  that all use, which a broker accepts once. A process that dies gives up the lock with its
  connection. The lock is held until the new job is in the list, as jobs may be made later.

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
"""The property with a text that is the same for the same schedule."""
_END: Final = "pyjms_schedule_end"
_LOCK: Final = "pyjms-schedules"
_CENTURY_MS: Final = 100 * 365 * 24 * 3_600_000
_OLD_MS: Final = 3_600_000
"""The age of a last job whose process cannot be waiting for its list any more."""
_ANSWER: Final = 10.0
"""Seconds that a broker has for a list."""
_ASK_AGAIN: Final = 0.5
"""Seconds without an entry of a list after which it is asked for again."""
_LOCK_TIMEOUT: Final = 30.0
_LOCK_INTERVAL: Final = 0.2


@dataclass(frozen=True)
class ScheduledJob:
    """A message that the broker's scheduler keeps."""

    id: str
    destination: Destination | None
    name: str | None
    """What `schedule` was given; None: nothing."""
    cron: str | None
    delay: float | None
    """Seconds before the first delivery."""
    period: float | None
    """Seconds between two deliveries."""
    repeat: int
    """Deliveries after the first one when it was scheduled; negative: for ever."""
    next_time: datetime | None
    """When it is due (UTC); None: the broker does not say, as ActiveMQ's."""
    message: Message = field(repr=False, compare=False)
    version: str | None = field(default=None, repr=False, compare=False)


@asynccontextmanager
async def locked_connection(factory: ConnectionFactory) -> AsyncIterator[Connection]:
    """Open a connection with the client id that one connection may have at a time."""
    while (inner := getattr(factory, "target_connection_factory", None)) is not None:
        factory = inner  # shared and cached connections have client ids of their own
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
                # the last job may not have been made when the list was
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
        hint=f"is the client allowed to use the topic {AMQ_SCHEDULER_MANAGEMENT_DESTINATION}?",
    )
