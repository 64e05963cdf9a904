"""The driver's right to a queue: taken once, taken again when the broker was lost.

Executors read with its token, which stays the same, so a keeper takes the lease again as soon as
the broker is back: it asks for news all the time and so notices. (spark-pipeline 3.6, 5 A)
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
from typing import Any, Final

from pyjms import _clock, _wakeup
from pyjms.errors import IllegalStateException, JMSException
from pyjms.spark.jms.client import LOST
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.ranges.asking import RangesRefused, asker, patiently

__all__ = ["QueueLease"]

logger = logging.getLogger(__name__)

_PATIENCE: Final = 30.0
"""Seconds to wait for the broker, and for the lease of who read the queue before."""
_IN_FLIGHT_WAIT: Final = 5.0
_NEWS_WAIT: Final = 10.0


class QueueLease:
    """A queue's lease, and what the broker last said of the queue. Lives on the shared loop."""

    def __init__(self, options: JmsOptions) -> None:
        self.token = secrets.token_hex(16)
        self.epoch = 0
        self.first = 0
        self.next = 0
        self.average = 1
        """Bytes of a message, about."""
        self._options = options
        self._queue = options.target.physical_name
        self._owner = options.owner or f"{socket.gethostname()}:{os.getpid()}:{self.token[:8]}"
        self._is_taken = False
        self._keeper: _wakeup.BackgroundTask | None = None

    async def open(self) -> None:
        """Take the lease.

        Raises:
            RangesRefused: another one has it, or consumers have messages, still after 30 s.
            JMSException: the broker is not reached.
        """
        await patiently(self._take, _PATIENCE)
        self._keeper = _wakeup.spawn(self._keep, name=f"lease of {self._queue}")

    async def close(self) -> None:
        """Give the lease back, if the broker is there to take it."""
        if self._keeper is not None:
            self._keeper.cancel()
            await self._keeper.wait()
        if not self._is_taken:
            return
        self._is_taken = False
        try:
            await (await asker(self._options)).values("release", token=self.token)
        except JMSException as error:
            logger.debug("The lease of %s ends with its connection: %s", self._queue, error)

    async def look(self, than: int, wait: float) -> None:
        """Ask for news: until there are messages behind a number, `wait` seconds at most.

        Raises:
            JMSException: the broker is not reached, or refuses.
        """
        found = await self._do("stat", gt=than, wait=wait)
        self._learn(found)
        self.average = max(1, found["bytes"] // max(1, found["messages"]))

    async def hold(self, end: int) -> None:
        """Have the broker promise that messages before `end` stay as they are.

        Raises:
            JMSException: the broker is not reached, or refuses.
        """
        await self._do("hold", to=end)

    async def trim(self, end: int) -> None:
        """Remove the messages before `end`.

        Raises:
            JMSException: the broker is not reached, or refuses.
        """
        if end > self.first:
            self.first = (await self._do("trim", to=end))["first"]

    async def _do(self, operation: str, **fields: object) -> dict[str, Any]:
        wanted: dict[str, Any] = {"token": self.token, **fields}

        async def once() -> dict[str, Any]:
            if not self._is_taken:
                await self._take()
            try:
                there = await asker(self._options)
                return await there.values(operation, **wanted)
            except RangesRefused as error:
                self._is_taken = error.code != "unknown_token"
                raise
            except LOST:
                self._is_taken = False
                raise

        return await patiently(once, _PATIENCE)

    async def _take(self) -> None:
        there = await asker(self._options)
        found = await there.values(
            "lease",
            queue=self._queue,
            owner=self._owner,
            token=self.token,
            selector=self._options.selector,
            wait=_IN_FLIGHT_WAIT,
        )
        if self.epoch and found["epoch"] != self.epoch:
            raise IllegalStateException(
                f"{self._queue} was purged or made anew while it was read",
                hint="failOnDataLoss=false lets a restarted query go on with what is there",
            )
        self._is_taken = True
        self._learn(found)

    def _learn(self, found: dict[str, Any]) -> None:
        self.epoch, self.first, self.next = found["epoch"], found["first"], found["next"]

    async def _keep(self) -> None:
        """Notice that the lease is lost, and take it again, for as long as this process lives."""
        pause = 0.1
        while True:
            try:
                if not self._is_taken:
                    await self._take()
                there = await asker(self._options)
                found = await there.values("stat", token=self.token, gt=self.next, wait=_NEWS_WAIT)
                self.next = max(self.next, found["next"])
                pause = 0.1
            except JMSException as error:
                logger.debug("The lease of %s: %s", self._queue, error)
                self._is_taken = False
                if isinstance(error, RangesRefused) and error.code == "replaced":
                    return
                pause = min(pause * 2, 5.0)
            await _clock.sleep(pause)
