"""Producers with statistics, which `jms.statsEnabled` turns on; without it, they cost nothing."""

from __future__ import annotations

from typing import Any

from pyjms.client.interfaces import ClientSession
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.management.jms_stats import JMSProducerStats, JMSSessionStats
from pyjms.wire.openwire.commands import ProducerId

__all__ = ["MeasuredProducer", "new_producer"]


class MeasuredProducer(ActiveMQMessageProducer):
    """A producer that counts what it has sent."""

    def __init__(
        self,
        session: ClientSession,
        producer_id: ProducerId,
        destination: Destination | None,
        stats: JMSSessionStats,
    ) -> None:
        super().__init__(session, producer_id, destination)
        name = None if destination is None else destination.physical_name
        self._measured = stats.add_producer(str(producer_id), name)
        self.stats: JMSProducerStats | None = self._measured

    async def send(self, *args: Any, **options: Any) -> None:
        await super().send(*args, **options)
        self._measured.on_message()

    def dispose(self, failure: JMSException | None = None) -> None:
        super().dispose(failure)
        self._measured.closed()


def new_producer(
    session: ClientSession, producer_id: ProducerId, destination: Destination | None
) -> ActiveMQMessageProducer:
    """Return a producer, with statistics if its session has statistics."""
    if session.stats is None:
        return ActiveMQMessageProducer(session, producer_id, destination)
    return MeasuredProducer(session, producer_id, destination, session.stats)
