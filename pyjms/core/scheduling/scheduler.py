"""JmsScheduler: messages that the broker's scheduler sends later, or repeatedly."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Unpack

from pyjms._clock import check_seconds
from pyjms.core.closing import using
from pyjms.core.messaging_template import template_of
from pyjms.core.resources import BoundResource, bind
from pyjms.core.scheduling.jobs import NAME, VERSION, Jobs, ScheduledJob, locked_connection
from pyjms.core.sending import SendOptions
from pyjms.core.template import JmsTemplate
from pyjms.jms.api import ConnectionFactory
from pyjms.jms.cron import normalized_cron
from pyjms.jms.destination import AnyDestination
from pyjms.jms.scheduled import (
    AMQ_SCHEDULED_CRON,
    AMQ_SCHEDULED_DELAY,
    AMQ_SCHEDULED_PERIOD,
    AMQ_SCHEDULED_REPEAT,
)
from pyjms.jms.types import Long

__all__ = ["JmsScheduler", "ScheduledJob"]

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
        factory = self._template.connection_factory
        async with using(await factory.create_connection()) as connection, Jobs(connection) as all_:
            return [job for job in await all_.all() if name in (None, job.name)]

    async def cancel(self, job: ScheduledJob | str) -> None:
        """Remove a job, given as an object or by its id. It is not an error if it no longer exists.

        Raises:
            JMSException: the connection has failed, or the broker refused.
        """
        job_id = job if isinstance(job, str) else job.id
        factory = self._template.connection_factory
        async with using(await factory.create_connection()) as connection, Jobs(connection) as all_:
            await all_.remove(job_id)

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
    async def _connected(self) -> AsyncIterator[Jobs]:
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
        return {AMQ_SCHEDULED_CRON: normalized_cron(cron)}
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
