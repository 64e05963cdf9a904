"""The broker's reaction to failures of its store. (activemq-persistence K24)

    RUNNING  --space or database missing-->  SUSPENDED  --available again-->  RUNNING
    any      --any other error----------->   FAILED (final)

While the store is SUSPENDED, senders wait; with `stop_start_connectors` the connectors are closed,
so that clients fail over to another broker. When the store has FAILED, the broker stops unless
`ignore_all_errors` is set. The store decides which state an error leads to.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask, end_tasks, spawn
from pyjms.runtime.logging import get_logger
from pyjms_broker.attribute import flag
from pyjms_broker.store.api import StoreState

if TYPE_CHECKING:
    from pyjms_broker.service.service import BrokerService

__all__ = ["IOExceptionHandler", "StoreMonitor"]

logger = get_logger(__name__)

_RETRY_DELAY: Final = 1.0
"""Seconds until opening or closing connectors is retried."""


@dataclass(frozen=True)
class IOExceptionHandler:
    """The reaction to a failed store. Source: ActiveMQ DefaultIOExceptionHandler."""

    ignore_all_errors: bool = flag("Whether the broker keeps running without its store.")
    stop_start_connectors: bool = flag("Whether connectors are closed while the disk is full.")
    system_exit_on_shutdown: bool = flag(
        "Whether the process is ended with SIGTERM after the broker had to stop."
    )


class StoreMonitor:
    """Reacts to changes of a store's state. Use only on the broker's event loop."""

    def __init__(self, broker: BrokerService, handler: IOExceptionHandler) -> None:
        self._broker = broker
        self._handler = handler
        self._state = StoreState.RUNNING
        self._open = True
        self._connectors: BackgroundTask | None = None
        self._stop: BackgroundTask | None = None

    def on_state(self, state: StoreState, error: Exception | None) -> None:
        """React to a change of the store's state."""
        former, self._state = self._state, state
        name = self._broker.broker_name
        if state is StoreState.FAILED:
            self._on_failure(name, error)
        elif state is StoreState.SUSPENDED:
            logger.error(
                "Broker %s: the store is suspended: %s. Senders wait, and it is retried until it "
                "works again",
                name,
                error,
            )
            self._open_or_close()
        elif former is StoreState.SUSPENDED:
            logger.warning("Broker %s: the store works again", name)
            self._open_or_close()

    async def close(self) -> None:
        """Stop opening and closing connectors, because the broker stops them."""
        await end_tasks(self._connectors)

    def _on_failure(self, name: str, error: Exception | None) -> None:
        if self._handler.ignore_all_errors:
            logger.error(
                "Broker %s: the store failed, the broker keeps running without it: %s", name, error
            )
            return
        logger.error("Broker %s stops because its store failed: %s", name, error, exc_info=error)
        if self._stop is None:
            self._stop = spawn(self._stop_broker, name=f"broker {name} stop on a failed store")

    async def _stop_broker(self) -> None:
        try:
            await self._broker.stop()
        finally:  # with a failed store, stopping may fail as well
            if self._handler.system_exit_on_shutdown:
                signal.raise_signal(signal.SIGTERM)

    def _open_or_close(self) -> None:
        if self._handler.stop_start_connectors and (
            self._connectors is None or self._connectors.done
        ):
            self._connectors = spawn(
                self._follow_state,
                name=f"broker {self._broker.broker_name} connectors of its store",
            )

    async def _follow_state(self) -> None:
        """Open or close the connectors according to the store's state until both agree."""
        failed = False
        while failed or self._open is (self._state is StoreState.SUSPENDED):
            self._open = self._state is not StoreState.SUSPENDED
            name, done = self._broker.broker_name, "opened" if self._open else "closed"
            try:
                for connector in self._broker.connectors:
                    await (connector.start() if self._open else connector.stop())
            except Exception as error:  # another program may be using the port temporarily
                failed = True
                logger.error(
                    "Broker %s: connectors could not be %s, retrying: %s", name, done, error
                )
                await _clock.sleep(_RETRY_DELAY)
            else:
                failed = False
                logger.warning("Broker %s: connectors %s", name, done)
