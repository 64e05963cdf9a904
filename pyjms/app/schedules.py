"""The jobs of `@jms_scheduled`, which are created on the brokers when the application starts.

If a broker cannot be reached at that time, its jobs are created as soon as it can be reached; after
an outage they are created again, because the broker may have lost them. Existing jobs are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from pyjms.errors import ConfigurationException, JMSException, UnsupportedOperationException
from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.listener.decorators import NEVER, Schedule
from pyjms.listener.outages import Outages, is_connection_failure
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms.settings.listeners import ListenerOverride
from pyjms.template.template import JmsTemplate

logger: Final = get_logger(__name__)

_INTERVAL: Final = 5.0
"""Seconds between attempts, and between checks for the end of an outage."""


def resolved_schedule(
    mark: Schedule | None, own: ListenerOverride | None, resolve: Callable[[str], str]
) -> Schedule | None:
    """Return a mark's schedule with the changes of the settings, and a valid cron entry."""
    cron, rate = (None, None) if own is None else (own.cron, own.fixed_rate)
    if mark is None:
        if cron is not None or rate is not None:
            raise ConfigurationException(
                "cron and fixed_rate apply to @jms_scheduled only", hint="mark its handler with it"
            )
        return None
    if cron is not None:
        mark = replace(mark, cron=cron, fixed_rate=None)
    elif rate is not None:
        mark = replace(mark, cron=None, fixed_rate=rate)
    if mark.cron is None:
        return mark
    from pyjms.jms.cron import normalize_cron  # noqa: PLC0415 - few applications have schedules

    text = resolve(mark.cron).strip()
    return replace(mark, cron=text if text == NEVER else normalize_cron(text))


class Schedules:
    """The jobs of one application. Use it on the application's loop.

    `template_of` returns the template for the connection factory of a container.
    """

    def __init__(
        self, outages: Outages, startup_timeout: float, template_of: Callable[[Any], JmsTemplate]
    ) -> None:
        self._outages = outages
        self._startup_timeout = startup_timeout
        self._template_of = template_of
        self._jobs: list[tuple[AbstractMessageListenerContainer, Schedule]] = []
        self._waiting: list[tuple[AbstractMessageListenerContainer, Schedule]] = []
        self._task: BackgroundTask | None = None

    async def start(
        self, jobs: Iterable[tuple[AbstractMessageListenerContainer, Schedule]]
    ) -> None:
        """Create the jobs, and keep them. Jobs that wait for their broker are created later."""
        self._jobs = list(jobs)
        if not self._jobs:
            return
        for job in self._jobs:
            with _clock.timeout(self._startup_timeout) as scope:
                if await self._make_job(*job):
                    continue
            if scope.cancelled_caught:
                logger.warning("The schedule of %s waits for its broker", job[0].bean_name)
            self._waiting.append(job)
        self._task = spawn(self._keep, name="pyjms schedules")

    async def stop(self) -> None:
        """Stop creating jobs. Existing jobs stay on the brokers. Idempotent."""
        task, self._task = self._task, None
        self._waiting.clear()
        await end_tasks(task)

    async def _keep(self) -> None:
        seen = {id(c): self._restorations(c) for c, _ in self._jobs}
        while True:
            await _clock.sleep(_INTERVAL)
            for container, schedule in self._jobs:
                restorations = self._restorations(container)
                job = (container, schedule)
                if seen[id(container)] == restorations and job not in self._waiting:
                    continue
                try:
                    done = await self._make_job(container, schedule)
                except JMSException as error:
                    logger.error(
                        "The schedule of %s cannot be created: %s", container.bean_name, error
                    )
                    done = True
                if done:
                    seen[id(container)] = restorations
                    self._waiting = [other for other in self._waiting if other != job]

    async def _make_job(
        self, container: AbstractMessageListenerContainer, schedule: Schedule
    ) -> bool:
        """Create a job, or remove it if it is never due; False: the broker cannot be reached."""
        name = str(container.bean_name)
        factory = container.require_connection_factory()
        from pyjms.template.scheduler import JmsScheduler  # noqa: PLC0415 - few schedule

        scheduler = JmsScheduler(self._template_of(factory))
        try:
            if schedule.cron == NEVER:
                await scheduler.cancel_named(name)
                return True
            await scheduler.schedule(
                container.destination or container.destination_name,
                schedule.payload,
                cron=schedule.cron,
                fixed_rate=schedule.fixed_rate,
                initial_delay=schedule.initial_delay,
                name=name,
                time_to_live=schedule.expires,
            )
        except UnsupportedOperationException as error:
            raise ConfigurationException(
                f"@jms_scheduled {name}: {error.reason}: {self._outages.of(factory).broker}",
                hint=error.hint,
            ) from error
        except JMSException as error:
            if is_connection_failure(error):
                return False
            raise
        logger.info("Scheduled: %s %s", name, schedule)
        return True

    def _restorations(self, container: AbstractMessageListenerContainer) -> int:
        return self._outages.of(container.require_connection_factory()).restorations
