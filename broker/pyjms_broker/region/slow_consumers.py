"""Checks of consumers by slow consumer strategies, and aborts of the reported ones.

Each strategy has a background task that calls it every `check_period`. The client of an aborted
consumer gets a command to close it; if it has not done so after a second, the broker removes the
consumer.
(activemq-broker T13, T14)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from pyjms.errors import JMSException
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ConsumerControl, ConsumerId
from pyjms_broker.api.context import ClientConnection
from pyjms_broker.api.subscription import Subscription

if TYPE_CHECKING:
    from pyjms_broker.policy.entry import PolicyMap
    from pyjms_broker.policy.slow_consumers import SlowConsumerStrategy
    from pyjms_broker.region.base_destination import BaseDestination

logger = get_logger(__name__)

_REMOVAL_DELAY: Final = 1.0
"""Seconds until an aborted consumer is removed if its client has not closed it, as in ActiveMQ."""


class WatchedStrategy:
    """A strategy in use by destinations, and its number within the broker."""

    __slots__ = ("destinations", "number", "strategy", "task", "watch")

    def __init__(self, strategy: SlowConsumerStrategy, number: int) -> None:
        self.strategy = strategy
        self.number = number
        self.watch = strategy.watch()
        self.destinations: dict[BaseDestination, None] = {}
        self.task: event_loop.BackgroundTask | None = None


class SlowConsumers:
    """The destinations whose policies have a slow consumer strategy."""

    def __init__(
        self, policy_map: PolicyMap, live: Callable[[ConsumerId | None], Subscription | None]
    ) -> None:
        """Set the function that returns the subscription of a live consumer."""
        self._policy_map = policy_map
        self._live = live
        self._watched: dict[int, WatchedStrategy] = {}
        self._numbers = itertools.count(1)
        self._removals: dict[event_loop.BackgroundTask, list[ConsumerId]] = {}
        """Tasks that remove aborted consumers, and these consumers."""
        self._is_running = False

    @property
    def times_acks(self) -> bool:
        """Whether subscriptions record the time of their last acknowledgement."""
        return self._policy_map.aborts_slow_consumers

    def add(self, destination: BaseDestination) -> None:
        """Check a destination's consumers from now on, if its policy has a strategy."""
        strategy = destination.policy.slow_consumer_strategy
        if strategy is None:
            return
        watched = self._watched.get(id(strategy))
        if watched is None:
            watched = self._watched[id(strategy)] = WatchedStrategy(strategy, next(self._numbers))
        watched.destinations[destination] = None
        if self._is_running:
            self._start_task(watched)

    def remove(self, destination: BaseDestination) -> None:
        """Stop checking a destination; with a strategy's last destination, its task ends."""
        strategy = destination.policy.slow_consumer_strategy
        watched = self._watched.get(id(strategy))
        if watched is None:
            return
        watched.destinations.pop(destination, None)
        if not watched.destinations:
            del self._watched[id(strategy)]
            if watched.task is not None:
                watched.task.cancel()

    def became_slow(self, strategy: SlowConsumerStrategy, subscription: Subscription) -> None:
        """Notify the strategy that a consumer became slow."""
        watched = self._watched.get(id(strategy))
        if watched is not None:
            watched.watch.became_slow(subscription)

    def strategies(self) -> list[WatchedStrategy]:
        """Return the strategies in use by destinations."""
        return list(self._watched.values())

    def abort(self, subscription: Subscription, *, with_connection: bool) -> None:
        """Close a consumer, or its connection, at the request of an operator."""
        self._abort({subscription: "requested by an operator"}, with_connection=with_connection)

    def start(self) -> None:
        """Start the tasks, on the broker's event loop."""
        self._is_running = True
        for watched in self._watched.values():
            self._start_task(watched)

    async def stop(self) -> None:
        """Cancel all tasks and wait for them."""
        self._is_running = False
        tasks = [each.task for each in self._watched.values() if each.task is not None]
        tasks += self._removals
        await event_loop.end_tasks(*tasks)

    def _start_task(self, watched: WatchedStrategy) -> None:
        if watched.task is None:
            name = f"check of slow consumers every {watched.strategy.check_period:g} s"
            watched.task = event_loop.spawn(self._check_periodically, watched, name=name)

    async def _check_periodically(self, watched: WatchedStrategy) -> None:
        while True:
            await _clock.sleep(watched.strategy.check_period)
            try:
                aborted = watched.watch.check(self._consumers(watched), _report_slow)
                self._abort(aborted, with_connection=watched.strategy.abort_connection)
            except Exception:  # raised by a user's strategy
                logger.exception("%s: the check of slow consumers failed", watched.strategy)

    def _consumers(self, watched: WatchedStrategy) -> list[Subscription]:
        """Return the distinct consumers of the destinations that are not aborted."""
        aborted = {each for removed in self._removals.values() for each in removed}
        found = {
            each: None
            for destination in watched.destinations
            for each in destination.consumers
            if each.consumer_id not in aborted and self._live(each.consumer_id) is each
        }
        return list(found)

    def _abort(self, aborted: Mapping[Subscription, str], *, with_connection: bool) -> None:
        by_connection: dict[ClientConnection, list[Subscription]] = {}
        for subscription, reason in aborted.items():
            connection = subscription.context.connection
            if connection is None:
                continue
            by_connection.setdefault(connection, []).append(subscription)
            logger.warning(
                "%s of %s is aborted%s: %s",
                subscription,
                connection.remote_address,
                " with its connection" if with_connection else "",
                reason,
            )
        for connection, subscriptions in by_connection.items():
            if with_connection:
                connection.stop_soon(
                    JMSException(f"{len(subscriptions)} consumers were aborted: they are slow")
                )
                continue
            consumers = [s.consumer_id for s in subscriptions if s.consumer_id is not None]
            for consumer_id in consumers:
                connection.send_command(ConsumerControl(close=True, consumer_id=consumer_id))
            self._remove_later(connection, consumers)

    def _remove_later(self, connection: ClientConnection, consumers: list[ConsumerId]) -> None:
        async def remove() -> None:
            await _clock.sleep(_REMOVAL_DELAY)
            del self._removals[task]
            for consumer_id in consumers:
                try:
                    connection.remove_consumer(consumer_id)
                except Exception:  # the others must still be removed
                    logger.exception("The slow consumer %s cannot be removed", consumer_id)

        task = event_loop.spawn(remove, name=f"removal of slow consumers of {connection}")
        self._removals[task] = consumers


def _report_slow(subscription: Subscription) -> None:
    for destination in tuple(subscription.destinations):
        destination.base.slow_consumer(subscription)
