"""What the broker does when its store has trouble: it says so, waits, or stops. (K24)"""

from __future__ import annotations

import logging
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from broker.connector.base import TransportConnector
from broker.store.api import StoreState
from pyjms import _clock
from pyjms._wakeup import BackgroundTask, spawn

__all__ = ["IOExceptionHandler", "StoreWatch"]

logger = logging.getLogger(__name__)

_RETRY: Final = 1.0
"""Seconds until connectors that could not be opened are tried again."""


@dataclass(frozen=True)
class IOExceptionHandler:
    """What an error of the store leads to. How full disks are met is the store's to say.

    Source: ActiveMQ DefaultIOExceptionHandler.
    """

    ignore_all_errors: bool = False
    """Whether the broker goes on when its store has failed; what needs the store fails then."""
    stop_start_connectors: bool = False
    """Whether clients are sent away while the store can take nothing, to another broker maybe."""
    system_exit_on_shutdown: bool = False
    """Whether the process ends, by SIGTERM, when the broker had to stop."""


class Watched(Protocol):
    """The broker whose store it is."""

    @property
    def broker_name(self) -> str: ...

    @property
    def connectors(self) -> Sequence[TransportConnector]: ...

    async def stop(self) -> None: ...


class StoreWatch:
    """Hears of a store's state and acts. Belongs to the broker's loop."""

    def __init__(self, broker: Watched, handler: IOExceptionHandler) -> None:
        self._broker = broker
        self._handler = handler
        self._state = StoreState.RUNNING
        self._open = True
        self._connectors: BackgroundTask | None = None
        self._stop: BackgroundTask | None = None

    def on_state(self, state: StoreState, error: Exception | None) -> None:
        """Take note of a change of the store's state."""
        former, self._state = self._state, state
        name = self._broker.broker_name
        if state is StoreState.FAILED:
            self._failed(name, error)
        elif state is StoreState.SUSPENDED:
            logger.error(
                "Broker %s: the store takes nothing at the moment: %s. What is sent waits; it "
                "is tried again and again",
                name,
                error,
            )
            self._open_or_close()
        elif former is StoreState.SUSPENDED:
            logger.warning("Broker %s: the store goes on", name)
            self._open_or_close()

    async def close(self) -> None:
        """Leave the connectors alone from now on; they are being stopped."""
        task = self._connectors
        if task is not None:
            task.cancel()
            await task.wait()

    def _failed(self, name: str, error: Exception | None) -> None:
        if self._handler.ignore_all_errors:
            logger.error("Broker %s: the store failed and the broker goes on: %s", name, error)
            return
        logger.error("Broker %s stops: its store failed: %s", name, error, exc_info=error)
        if self._stop is None:
            self._stop = spawn(self._stop_broker, name=f"broker {name} stop on a failed store")

    async def _stop_broker(self) -> None:
        try:
            await self._broker.stop()
        finally:  # with a broken store the stop may fail, too
            if self._handler.system_exit_on_shutdown:
                signal.raise_signal(signal.SIGTERM)

    def _open_or_close(self) -> None:
        if self._handler.stop_start_connectors and (
            self._connectors is None or self._connectors.done
        ):
            self._connectors = spawn(
                self._follow, name=f"broker {self._broker.broker_name} connectors of its store"
            )

    async def _follow(self) -> None:
        """Have the connectors be as the store is, however often that changes meanwhile."""
        failed = False
        while failed or self._open is (self._state is StoreState.SUSPENDED):
            self._open = self._state is not StoreState.SUSPENDED
            name, done = self._broker.broker_name, "opened" if self._open else "closed"
            try:
                for connector in self._broker.connectors:
                    await (connector.start() if self._open else connector.stop())
            except Exception as error:  # somebody may have the port for a moment
                failed = True
                logger.error("Broker %s: connectors not %s, tried again: %s", name, done, error)
                await _clock.sleep(_RETRY)
            else:
                failed = False
                logger.warning("Broker %s: connectors %s", name, done)
