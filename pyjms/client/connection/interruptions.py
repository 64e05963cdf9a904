"""Interruptions of a transport that reconnects: their effects on a connection and its objects.

Messages that the lost broker has dispatched and the application has not consumed will be dispatched
again, so they are dropped and no longer count as received. The effect on messages that were
delivered but not settled depends on the mode: see `AckLedger.interrupted`. (activemq-edges F2)
"""

from __future__ import annotations

from typing import Protocol

from pyjms.client.interfaces import DispatchTarget, WindowedProducer
from pyjms.transport.openwire import InterruptionListeners
from pyjms.wire.openwire.commands import ConsumerId, ProducerId

__all__ = ["Interruptions"]


class _Connection(Protocol):
    """The part of a connection that interruptions affect."""

    consumers: dict[ConsumerId, DispatchTarget]
    producers: dict[ProducerId, WindowedProducer]


class Interruptions(InterruptionListeners):
    """The interruptions of one connection, and the application's listeners to them."""

    def __init__(self, connection: _Connection) -> None:
        super().__init__()
        self._connection = connection

    def transport_interrupted(self, error: Exception) -> None:
        """Drop the messages that will be dispatched again; then call the listeners."""
        for consumer in list(self._connection.consumers.values()):
            consumer.interrupted()
        for producer in list(self._connection.producers.values()):
            producer.interrupted()
        super().transport_interrupted(error)
