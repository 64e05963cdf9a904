"""Removal of unused destinations, if their policies require it.

A sweep marks destinations without consumers, producers and messages, and removes those that an
earlier sweep marked at least `inactive_timeout_before_gc` ago and that nobody has used since.
(ActiveMQ RegionBroker.purgeInactiveDestinations; activemq-broker D11)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio.lowlevel

from pyjms import _clock, _wakeup
from pyjms._logger import get_logger
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms_broker.api.internal_destinations import is_internal
from pyjms_broker.region.base_destination import BaseDestination
from pyjms_broker.region.destination_table import DestinationTable, IdleMark

__all__ = ["InactiveDestinations"]

logger = get_logger(__name__)

_REMOVALS_PER_TURN: Final = 100
"""The number of destinations that are removed before other tasks run."""


class InactiveDestinations:
    """Sweeps the table every `purge_period` seconds. Use it on the broker's event loop.

    `remove(destination, timeout)` removes a destination through the whole filter chain. Temporary
    destinations are swept only if `with_temporary` is set.
    """

    def __init__(
        self,
        table: DestinationTable,
        remove: Callable[[Destination, float], None],
        *,
        with_temporary: bool,
    ) -> None:
        self._table = table
        self._limits = table.limits
        self._remove = remove
        self._with_temporary = with_temporary
        self._task: _wakeup.BackgroundTask | None = None

    def start(self) -> None:
        """Start sweeping if there is a period."""
        if self._limits.purge_period > 0:
            self._task = _wakeup.spawn(
                self._sweep_periodically, name="purge of inactive destinations"
            )

    async def stop(self) -> None:
        """Stop sweeping. Idempotent."""
        task, self._task = self._task, None
        await _wakeup.end_tasks(task)

    async def _sweep_periodically(self) -> None:
        while True:
            await _clock.sleep(self._limits.purge_period)
            await self.sweep()

    async def sweep(self) -> None:
        """Mark idle destinations, and remove those that have been idle for long enough."""
        removed = 0
        for number, found in enumerate(self._table.all().values()):
            if number % _REMOVALS_PER_TURN == 0:
                await anyio.lowlevel.checkpoint()
            if self._is_due(found) and not found.disposed:
                self._purge(found)
                removed += 1
                if removed == self._limits.purge_maximum:
                    break

    def _is_due(self, found: BaseDestination) -> bool:
        policy, destination = found.policy, found.destination
        timeout = policy.inactive_timeout_before_gc
        if not policy.gc_inactive_destinations or timeout <= 0:
            return False
        if is_internal(destination) or (destination.is_temporary and not self._with_temporary):
            return False
        marks = self._table.idle_marks
        if _is_active(found):
            marks.pop(destination, None)
            return False
        mark = marks.get(destination)
        if mark is None or mark.enqueues != found.statistics.enqueues:
            marks[destination] = IdleMark(_clock.now(), found.statistics.enqueues)
            return False
        return _clock.now() - mark.since >= timeout

    def _purge(self, found: BaseDestination) -> None:
        timeout = found.policy.inactive_timeout_before_gc
        logger.info("%s Inactive for longer than %d ms - removing ...", found, timeout * 1000)
        try:
            self._remove(found.destination, 1 if found.consumers else 0)
        except JMSException as error:
            logger.warning("%s is inactive, but cannot be removed: %s", found, error)


def _is_active(found: BaseDestination) -> bool:
    statistics = found.statistics
    if statistics.producers or statistics.messages or found.prepared_sends or found.running_commits:
        return True
    if not statistics.consumers:
        return False
    return not found.policy.gc_with_network_consumers or not all(
        subscription.info.network_subscription for subscription in found.consumers
    )
