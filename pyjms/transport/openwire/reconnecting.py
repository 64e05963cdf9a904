"""Transports that reconnect by themselves after they have lost their peer."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import Final, Protocol

from pyjms._logger import get_logger
from pyjms.transport.openwire.correlator import RequestTransport

__all__ = ["InterruptionListener", "InterruptionListeners", "ReconnectingTransport"]

logger: Final = get_logger(__name__)


class InterruptionListener(Protocol):
    """The receiver of interruptions. Both methods are called on the loop and must not block."""

    def transport_interrupted(self, error: Exception) -> None:
        """Handle the loss of the peer, because of `error`. ActiveMQ: transportInterupted."""

    def transport_resumed(self) -> None:
        """Handle the connection to a new peer. ActiveMQ: transportResumed."""


class InterruptionListeners:
    """Passes interruptions on to any number of listeners, whose exceptions are logged."""

    def __init__(self) -> None:
        self._listeners: list[InterruptionListener] = []

    def add(self, listener: InterruptionListener) -> None:
        """Call `listener` at each interruption and resumption."""
        self._listeners.append(listener)

    def remove(self, listener: InterruptionListener) -> None:
        """Call `listener` no more; does nothing if it was not added."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def transport_interrupted(self, error: Exception) -> None:
        """Tell all of them."""
        for listener in list(self._listeners):
            _call(listener.transport_interrupted, error)

    def transport_resumed(self) -> None:
        """Tell all of them."""
        for listener in list(self._listeners):
            _call(listener.transport_resumed)


def _call(function: Callable[..., None], *arguments: object) -> None:
    try:
        function(*arguments)
    except Exception:
        logger.exception("A transport listener failed")


class ReconnectingTransport(RequestTransport, ABC):
    """A transport that survives the loss of its peer.

    `oneway` does not raise while there is no peer: `congested` is true, and `drained` waits.
    Requests wait for the next peer. It fails, once, when it gives up.
    """

    interruptions: InterruptionListener | None = None
    """The receiver of interruptions; set it before `start()`."""
