"""Interruptions of a transport that reconnects: what they mean for a connection and its objects.

Messages that the lost broker has dispatched and the application has not consumed are dispatched
again, so they are dropped and no longer count as received. What happens to messages that were
delivered but not settled depends on the mode: see `AckLedger.interrupted`. (activemq-edges F2)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from pyjms._logger import get_logger
from pyjms.client.interfaces import DispatchTarget, WindowedProducer
from pyjms.transport.openwire import InterruptionListener
from pyjms.wire.openwire.commands import ConsumerId, ProducerId

__all__ = ["Interruptions"]

logger: Final = get_logger(__name__)


class _Connection(Protocol):
    """The connection, as far as interruptions concern it."""

    consumers: dict[ConsumerId, DispatchTarget]
    producers: dict[ProducerId, WindowedProducer]


class Interruptions:
    """The interruptions of one connection, and the application's listeners to them."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._listeners: list[InterruptionListener] = []

    def add(self, listener: InterruptionListener) -> None:
        """Call `listener` at each interruption and resumption."""
        self._listeners.append(listener)

    def remove(self, listener: InterruptionListener) -> None:
        """Call `listener` no more; does nothing if it was not added."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def transport_interrupted(self, error: Exception) -> None:
        """Drop what will be dispatched again; then call the listeners."""
        for consumer in list(self._connection.consumers.values()):
            consumer.interrupted()
        for producer in list(self._connection.producers.values()):
            producer.interrupted()
        for listener in list(self._listeners):
            _call(listener.transport_interrupted, error)

    def transport_resumed(self) -> None:
        """Call the listeners."""
        for listener in list(self._listeners):
            _call(listener.transport_resumed)


def _call(function: Callable[..., None], *arguments: object) -> None:
    try:
        function(*arguments)
    except Exception:
        logger.exception("A transport listener failed")
