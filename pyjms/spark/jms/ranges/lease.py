"""The driver's lease of a queue: the exclusive right to read it by ranges.

Executors read with the lease's token, which never changes. The broker drops the lease with the
connection, so a background task keeps a `stat` request pending: it notices the loss and takes the
lease again as soon as the broker is back. (spark-pipeline 3.6, 5 A)
"""

from __future__ import annotations

import os
import secrets
import socket
from typing import Any, Final

from pyjms import _clock, _wakeup
from pyjms._logger import get_logger
from pyjms.errors import IllegalStateException, JMSException
from pyjms.spark.jms.connections import CONNECTION_LOST
from pyjms.spark.jms.options import JmsOptions
from pyjms.spark.jms.ranges.requests import (
    LeaseReplaced,
    RangesRefused,
    ranges_client,
    retry_while_unavailable,
)

__all__ = ["QueueLease"]

logger: Final = get_logger(__name__)

_RETRY_PERIOD: Final = 30.0
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

    async def open(self) -> None:
        """Acquire the lease.

        Raises:
            RangesRefused: after 30 s another reader still has it, or consumers have messages.
            JMSException: the broker cannot be reached.
        """
        await retry_while_unavailable(self._acquire, _RETRY_PERIOD)
        self._keeper = _wakeup.spawn(self._keep, name=f"lease of {self._queue}")

    async def close(self) -> None:
        """Release the lease, if the broker can be reached."""
        await _wakeup.end_tasks(self._keeper)
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

        return await retry_while_unavailable(attempt, _RETRY_PERIOD)

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
