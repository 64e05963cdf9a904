"""Outages of brokers: one warning when a broker cannot be reached, one line when it is back.

Spring's containers log an error for each listener and each attempt to reconnect. An application
would log the same line for each listener every few seconds, so its containers share an `Outages`:
the first failure to reach a broker is logged as a warning, all others at DEBUG. The warning has the
text of the exception that a send raises during the outage.

    reachable --lost--> lost --unreachable: WARNING--> away --restored: INFO--> reachable
                          +-----------restored: INFO-------------------------------^

A container without an `Outages` logs as Spring's does. (spring-jms 1.11.2, 1.11.5)
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from pyjms import errors
from pyjms.jms.api import Connection, ConnectionFactory
from pyjms.runtime import clock as _clock
from pyjms.runtime.logging import get_logger
from pyjms.template.resources import provider_factory

logger: Final = get_logger(__name__)


def is_connection_failure(error: BaseException) -> bool:
    """Return whether the broker could not be reached, as opposed to refusing a request."""
    return isinstance(error, errors.ConnectionFailedException | errors.ConnectionClosedException)


def leave_losses_to_recovery(connection: Connection, listener: str) -> None:
    """Log the loss of a listener's connection at DEBUG: recovery reports the outage.

    Other errors that the broker reports on the connection stay warnings. A connection that has an
    exception listener, or is shared and accepts none, is left unchanged.
    """

    def report(error: errors.JMSException) -> None:
        level = logging.DEBUG if is_connection_failure(error) else logging.WARNING
        logger.log(level, "Connection of listener %s: %s", listener, error)

    if connection.exception_listener is None:
        with suppress(errors.IllegalStateException):
            connection.exception_listener = report


class Outage:
    """The state of one broker: reachable, or unreachable since when. Use it on one loop."""

    def __init__(self, broker: str) -> None:
        self.broker = broker
        self._away_since: float | None = None
        self._losses: dict[str, BaseException] = {}
        self.timed_out: bool = False
        """Whether a start has waited for the broker until its timeout."""
        self.restorations: int = 0
        """The number of reconnections to the broker."""

    @property
    def is_open(self) -> bool:
        """Whether the last attempt to reach the broker failed."""
        return self._away_since is not None

    def record_loss(self, listener: str, error: BaseException) -> None:
        """Record that a connection was lost; the first attempt to reconnect follows at once."""
        self._losses[listener] = error

    def record_failure(self, error: BaseException) -> None:
        """Record that an attempt to connect failed; the first failure of an outage is logged."""
        if self._away_since is not None:
            return
        self._away_since = _clock.now()
        logger.warning(
            "Broker %s cannot be reached: %s. Listeners keep trying; sends %s meanwhile",
            self.broker,
            error,
            "wait" if self.timed_out else "fail",
        )

    def record_connection(self, listener: str) -> None:
        """Record a successful connection; the first one after an outage is logged."""
        loss = self._losses.pop(listener, None)
        since, self._away_since = self._away_since, None
        self.timed_out = False
        self.restorations += since is not None or loss is not None
        if since is not None:
            self._losses.clear()
            logger.info("Broker %s is back after %.1f s", self.broker, _clock.now() - since)
        elif loss is not None:
            logger.info(
                "Listener %s has reconnected to broker %s, after: %s",
                listener,
                self.broker,
                loss,
            )


class Outages:
    """The outages of the brokers of one application."""

    def __init__(self, startup_timeout: float | None = None) -> None:
        self.startup_timeout = startup_timeout
        """Seconds that a start waits for a `failover:` transport to connect; None: for ever."""
        self._by_broker: dict[str, Outage] = {}

    def of(self, factory: ConnectionFactory) -> Outage:
        """Return the `Outage` of the broker to which this factory connects."""
        broker = _broker_of(factory)
        outage = self._by_broker.get(broker)
        if outage is None:
            outage = self._by_broker[broker] = Outage(broker)
        return outage

    def unreachable(self) -> list[str]:
        """Return the brokers that could not be reached at the last attempt."""
        return [outage.broker for outage in self._by_broker.values() if outage.is_open]


def _broker_of(factory: ConnectionFactory) -> str:
    inner = provider_factory(factory)
    uri = getattr(inner, "uri", None)
    return repr(inner) if uri is None else str(uri).partition("?")[0]
