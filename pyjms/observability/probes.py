"""Checks whether the brokers of an application can be reached, by connecting to each.

As in Spring Boot's health indicator `jms`, a connection is created, started and closed. If the
application caches connections, the templates' connection is used, so that probing an available
broker costs nothing. (spring-jms 8.1.9)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import anyio

from pyjms import _clock
from pyjms._logger import get_logger
from pyjms.jms.api import ConnectionFactory
from pyjms.observability.health import BrokerHealth

__all__ = ["BrokerProbes"]

logger: Final = get_logger(__name__)

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
