"""Retries of dead letters with a rate, which go on after the request that started them."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from pyjms.errors import IllegalStateException, JMSException
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms_broker.management.dead_letters import Retry

logger = get_logger(__name__)

_MOST: Final = 20


class Running(NamedTuple):
    """A retry, what it retries, and its task."""

    what: str
    retry: Retry
    task: BackgroundTask

    @property
    def per_second(self) -> str:
        """Its rate in words."""
        rate = self.retry.rate
        return f"{rate:g} a second" if rate >= 1 else f"one in {math.ceil(1 / rate):,} s"


class Retries:
    """The retries that go on, at most one of each queue. They end with the web server."""

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}

    def of(self, queue: str) -> Running | None:
        """Return the retry of a queue that goes on; None if there is none."""
        return self._running.get(queue)

    def start(self, queue: str, what: str, retry: Retry) -> None:
        """Run a retry in the background.

        Raises:
            IllegalStateException: the queue has one already, or there are too many.
        """
        if queue in self._running:
            raise IllegalStateException(
                f"Messages of {queue} are retried already",
                hint="wait until it has ended, or stop it on the page Dead letters",
            )
        if len(self._running) >= _MOST:
            raise IllegalStateException(
                f"There are {_MOST} retries already", hint="wait until one of them has ended"
            )

        async def run() -> None:
            try:
                await retry.run()
                logger.info("The retry of %s has sent %d messages", queue, retry.count)
            except JMSException as error:
                logger.warning(
                    "The retry of %s has ended after %d messages: %s", queue, retry.count, error
                )
            finally:
                self._running.pop(queue, None)

        self._running[queue] = Running(what, retry, spawn(run, name=f"retry of {queue}"))

    async def stop(self, queue: str) -> int:
        """Stop the retry of a queue and return how many messages it has sent. Cancellable.

        Raises:
            IllegalStateException: none goes on.
        """
        found = self._running.get(queue)
        if found is None:
            raise IllegalStateException(
                f"No retry of {queue} goes on", hint="it has ended; reload the page"
            )
        await end_tasks(found.task)
        return found.retry.count

    async def close(self) -> None:
        """Stop all. Called when the web server stops."""
        await end_tasks(*(each.task for each in self._running.values()))
