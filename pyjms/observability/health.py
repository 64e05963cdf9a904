"""Health of an application: live, started, ready, and the state of each listener.

    live      the event loop responds; an orchestrator restarts a process that is not live
    started   the start has ended: each listener consumes, or waits until its broker is available
    ready     started, not stopping, each listener has a live consumer and makes progress, and each
              broker that was probed accepts connections

Listeners that were paused, or do not start automatically (`auto_startup`), do not count.

A listener is stuck when one of its handlers has run for longer than `stuck_after` while messages
wait in the consumer's own buffer; or, if the buffer is not informative (prefetch 0 and 1, other
providers), while the handlers of all its consumers have run for that long. It is also stuck while a
call goes on after the listener's `timeout`.

Brokers are probed by connecting to each. As in Spring Boot's health indicator `jms`, a connection
is created, started and closed. If the application caches connections, the templates' connection is
used, so that probing an available broker costs nothing. (spring-jms 8.1.9)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import anyio

from pyjms.jms.api import ConnectionFactory
from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.listener.delivery import Delivery
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger

logger: Final = get_logger(__name__)

Phase = Literal["starting", "running", "stopping", "stopped"]

Status = Literal["up", "stuck", "no_consumer", "stopped", "paused", "not_started"]

_ACCEPTABLE: frozenset[Status] = frozenset({"up", "paused", "not_started"})


@dataclass(frozen=True, slots=True)
class ListenerHealth:
    """The state of one listener."""

    id: str
    """The listener's id."""
    destination: str
    """The destination from which it consumes."""
    status: Status
    """up; stuck, no_consumer (for example, the broker is unavailable) or stopped: the application
    is not ready; paused or not_started: on purpose."""
    consumers: int
    """The number of its consumers."""
    busy: int
    """The number of its handlers in progress."""
    longest: float
    """Seconds for which the longest-running of them has run."""
    timeouts: int = 0
    """The number of calls that took longer than the listener's `timeout`."""
    loop_holds: int = 0
    """How often its `async def` handler has held the event loop for more than 0.5 seconds."""

    @property
    def is_ready(self) -> bool:
        """Whether the application can be ready with the listener in this state."""
        return self.status in _ACCEPTABLE


@dataclass(frozen=True, slots=True)
class BrokerHealth:
    """The result of an attempt to connect to a broker."""

    name: str
    """`activemq`, or its name in the settings' `brokers`."""
    status: Literal["up", "down"]
    """up: it accepted a connection in time."""
    provider: str | None = None
    """The name of the JMS provider; None: it did not answer."""
    error: str | None = None
    """The type of the failure; its message is in the log."""

    @property
    def is_up(self) -> bool:
        """Whether the broker accepted a connection."""
        return self.status == "up"


@dataclass(frozen=True, slots=True)
class Health:
    """The state of an application at one moment."""

    phase: Phase
    """starting, running, stopping or stopped."""
    listeners: tuple[ListenerHealth, ...] = ()
    """Its listeners."""
    brokers: tuple[BrokerHealth, ...] = ()
    """The brokers that were probed; empty without a probe."""

    @property
    def live(self) -> bool:
        """Whether the application has not stopped."""
        return self.phase != "stopped"

    @property
    def started(self) -> bool:
        """Whether the start has ended."""
        return self.phase in {"running", "stopping"}

    @property
    def ready(self) -> bool:
        """Whether it runs, all listeners consume and make progress, and no broker is down."""
        return (
            self.phase == "running"
            and all(each.is_ready for each in self.listeners)
            and all(each.is_up for each in self.brokers)
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why it is not ready."""
        if self.phase != "running":
            return (self.phase,)
        listeners = (f"listener {e.id}: {e.status}" for e in self.listeners if not e.is_ready)
        brokers = (f"broker {e.name}: {e.status}" for e in self.brokers if not e.is_up)
        return (*listeners, *brokers)

    def as_dict(self) -> dict[str, Any]:
        """Return the health as a dict for JSON."""
        return {
            "status": "ready" if self.ready else "; ".join(self.reasons),
            "phase": self.phase,
            "listeners": {
                each.id: {
                    "status": each.status,
                    "destination": each.destination,
                    "consumers": each.consumers,
                    "busy": each.busy,
                    "longest_handler_seconds": round(each.longest, 3),
                    "timeouts": each.timeouts,
                    "loop_holds": each.loop_holds,
                }
                for each in self.listeners
            },
            "brokers": {
                each.name: {"status": each.status}
                | ({"provider": each.provider} if each.error is None else {"error": each.error})
                for each in self.brokers
            },
        }


def health_of(
    phase: Phase, containers: Iterable[AbstractMessageListenerContainer], stuck_after: float | None
) -> Health:
    """Return the health of an application with these containers.

    Args:
        phase: the phase of the application.
        containers: the containers of its listeners.
        stuck_after: seconds after which a handler with messages waiting is stuck; None: never.
    """
    return Health(phase, tuple(_listener(each, stuck_after) for each in containers))


def _listener(
    container: AbstractMessageListenerContainer, stuck_after: float | None
) -> ListenerHealth:
    deliveries = container.deliveries()
    now = _clock.now()
    return ListenerHealth(
        id=container.bean_name or container.destination_description,
        destination=container.destination_description,
        status=_status(container, deliveries, stuck_after),
        consumers=container.scheduled_consumer_count,
        busy=len(deliveries),
        timeouts=container.call_timeout.expired,
        loop_holds=container.loop_holds,
        longest=max((now - each.received_at for each in deliveries), default=0.0),
    )


def _status(
    container: AbstractMessageListenerContainer,
    deliveries: list[Delivery],
    stuck_after: float | None,
) -> Status:
    if not container.is_running:
        if container.is_paused:
            return "paused"
        return "stopped" if container.auto_startup else "not_started"
    if not container.has_consumer:
        return "no_consumer"
    if container.call_timeout.late:
        return "stuck"
    if stuck_after is not None and _is_stuck(container, deliveries, stuck_after):
        return "stuck"
    return "up"


def _is_stuck(
    container: AbstractMessageListenerContainer, deliveries: list[Delivery], stuck_after: float
) -> bool:
    now = _clock.now()
    late = [each for each in deliveries if now - each.received_at > stuck_after]
    if any(_waiting(each) for each in late):
        return True
    is_blind = container.prefetch in {0, 1} or any(_waiting(each) is None for each in late)
    return is_blind and len(late) >= container.max_concurrent_consumers


def _waiting(delivery: Delivery) -> int | None:
    """Return the number of messages behind this one in its consumer's buffer; None: unknown."""
    buffered = getattr(delivery.consumer, "buffered", None)
    return buffered if isinstance(buffered, int) else None


_VALID_FOR = 1.0
"""Seconds for which a result is cached, so that many callers do not add load to the brokers."""


class BrokerProbes:
    """Checks whether brokers accept connections. Use it on one event loop, from any task.

    Args:
        factories: returns the connection factories, by the names of their brokers.
        timeout: seconds that a connection may take; None: no broker is probed.
    """

    def __init__(
        self, factories: Callable[[], Mapping[str, ConnectionFactory]], timeout: float | None
    ) -> None:
        self._factories = factories
        self._timeout = timeout
        self._lock = anyio.Lock()
        self._found: dict[str, BrokerHealth] = {}
        self._asked_at: float | None = None

    async def probe(self) -> tuple[BrokerHealth, ...]:
        """Probe all brokers concurrently; return the results in the order of the factories.

        Takes at most `timeout`. Of several concurrent callers one probes, and the others wait for
        its result, which is cached for a second. When a broker becomes unavailable or available
        again, that is logged. Cancellable: then the next caller probes.
        """
        if self._timeout is None:
            return ()
        async with self._lock:
            now = _clock.now()
            if self._asked_at is None or now - self._asked_at >= _VALID_FOR:
                await self._probe_all()
                self._asked_at = _clock.now()
            return tuple(self._found.values())

    async def _probe_all(self) -> None:
        factories = self._factories()
        answers: dict[str, BrokerHealth] = {}

        async def ask(name: str, factory: ConnectionFactory) -> None:
            answers[name] = await self._ask(name, factory)

        async with anyio.create_task_group() as tasks:
            for name, factory in factories.items():
                tasks.start_soon(ask, name, factory)
        self._found = {name: answers[name] for name in factories}

    async def _ask(self, name: str, factory: ConnectionFactory) -> BrokerHealth:
        provider: str | None = None
        error: str | None = None
        text = f"Connection failed to start within {self._timeout:g}s and will be closed."
        with _clock.timeout(self._timeout) as scope:
            try:
                async with await factory.create_connection() as connection:
                    await connection.start()
                    provider = connection.metadata.jms_provider_name
            except Exception as failure:  # including those of other providers
                error, text = type(failure).__name__, str(failure)
        if provider is None and scope.cancelled_caught:
            error = "TimeoutError"
        self._log_change(name, error, text)
        return BrokerHealth(name, "up" if error is None else "down", provider, error)

    def _log_change(self, name: str, error: str | None, text: str) -> None:
        known = self._found.get(name)
        if error is not None and (known is None or known.is_up):
            logger.warning("Broker %s cannot be reached: %s", name, text)
        elif error is None and known is not None and not known.is_up:
            logger.info("Broker %s can be reached again", name)
