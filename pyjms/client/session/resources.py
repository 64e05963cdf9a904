"""The consumers, producers and browsers of a session, and the unit of work that they form.

A consumer that is closed while delivered messages are not settled lingers: the broker is told of
its end only when they are settled, so that commit, rollback and acknowledge still cover them.
(JMS 1.1, section 4.5; activemq-broker X7)
"""

from __future__ import annotations

from pyjms.client.delivery import ActiveMQMessageConsumer, ActiveMQQueueBrowser
from pyjms.client.delivery.chunks import ChunkConsumer
from pyjms.client.interfaces import ClientConnection
from pyjms.client.producer import ActiveMQMessageProducer
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.management.jms_stats import JMSSessionStats
from pyjms.wire.openwire.commands import ConsumerId, ProducerId, RemoveInfo

__all__ = ["SessionResources"]

_UNKNOWN = -2  # RemoveInfo.last_delivered_sequence_id of a session without consumers


class SessionResources:
    """The objects that one session has created and not closed."""

    def __init__(self, connection: ClientConnection, stats: JMSSessionStats | None) -> None:
        self._connection = connection
        self._stats = stats
        self.consumers: list[ActiveMQMessageConsumer] = []
        self._lingering: list[ActiveMQMessageConsumer] = []
        self._producers: dict[ProducerId, ActiveMQMessageProducer] = {}
        self._browsers: set[ActiveMQQueueBrowser] = set()

    @property
    def all_consumers(self) -> list[ActiveMQMessageConsumer]:
        """The open consumers, and the closed ones with messages that are not settled."""
        return [*self.consumers, *self._lingering]

    def consumes(self, destination: Destination) -> bool:
        """Return whether an open consumer consumes from `destination`."""
        return any(consumer.destination == destination for consumer in self.consumers)

    # --- adding and removing

    def add_consumer(self, consumer: ActiveMQMessageConsumer) -> None:
        """Add a consumer and route its dispatches to it."""
        self.consumers.append(consumer)
        self._connection.add_consumer(consumer)

    def add_chunks(self, consumer: ChunkConsumer) -> None:
        """Add a consumer of chunks, which the broker dispatches to its connection consumer."""
        self.consumers.append(consumer)

    def consumer_closed(self, consumer_id: ConsumerId) -> None:
        """Remove a consumer that the application closed; with unsettled messages it lingers."""
        for consumer in self.consumers:
            if consumer.consumer_id == consumer_id:
                self.consumers.remove(consumer)
                self._lingering.append(consumer)
                self.release_closed_consumers(only_settled=True)
                return

    def drop_consumer(self, consumer: ActiveMQMessageConsumer) -> None:
        """Remove a consumer that the broker may not know."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        self._release(consumer, _UNKNOWN)

    def drop_consumers_of(self, destination: Destination) -> None:
        """Remove all consumers of `destination`, settled or not, and tell the broker."""
        for consumers in (self.consumers, self._lingering):
            for consumer in [c for c in consumers if c.destination == destination]:
                consumers.remove(consumer)
                consumer.dispose()
                self._release(consumer, consumer.last_delivered_sequence_id)

    def release_closed_consumers(self, *, only_settled: bool = False) -> None:
        """Tell the broker of the end of lingering consumers."""
        if not self._lingering:
            return
        lingering = [c for c in self._lingering if only_settled and c.has_unsettled]
        released = [c for c in self._lingering if c not in lingering]
        self._lingering = lingering
        for consumer in released:
            consumer.dispose()
            self._release(consumer, consumer.last_delivered_sequence_id)

    def add_producer(self, producer: ActiveMQMessageProducer) -> None:
        """Add a producer and route its window acknowledgements to it."""
        self._producers[producer.producer_id] = producer
        self._connection.add_producer(producer)

    def producer_closed(self, producer_id: ProducerId, *, is_registered: bool = True) -> None:
        """Remove a producer and tell the broker, if it may know it."""
        self._producers.pop(producer_id, None)
        self._connection.remove_producer(producer_id)
        if is_registered:
            self._connection.oneway_if_open(RemoveInfo(producer_id))

    def add_browser(self, browser: ActiveMQQueueBrowser) -> None:
        """Add a browser, to be closed with the session."""
        self._browsers.add(browser)

    def browser_closed(self, browser: ActiveMQQueueBrowser) -> None:
        """Remove a browser."""
        self._browsers.discard(browser)

    # --- the unit of work

    def acknowledge(self) -> None:
        """CLIENT: acknowledge the delivered messages."""
        for consumer in self.all_consumers:
            consumer.ledger.acknowledge()
        self.release_closed_consumers()

    def acknowledge_in_transaction(self) -> None:
        """Acknowledge the delivered messages, because the transaction is about to end."""
        for consumer in self.all_consumers:
            consumer.ledger.acknowledge_in_transaction()

    def stale_count(self) -> int:
        """The number of deliveries by a lost broker that the present one has not repeated."""
        return sum(consumer.ledger.stale_count for consumer in self.all_consumers)

    def settle(self) -> None:
        """Settle the delivered messages after a commit."""
        for consumer in self.all_consumers:
            consumer.ledger.settle()
        self.release_closed_consumers()

    def settle_in_doubt(self) -> None:
        """Settle the delivered messages, but accept redeliveries, which mean a rollback."""
        for consumer in self.all_consumers:
            for dispatch in consumer.ledger.delivered:
                consumer.forget(dispatch)
        self.settle()

    def roll_back(self) -> None:
        """Redeliver the delivered messages after a rollback or `recover`."""
        for consumer in self.all_consumers:
            consumer.roll_back()
        self.release_closed_consumers()

    def mark_failed(self, failure: JMSException) -> None:
        """Make every further call raise the connection's failure; do not close or wake anything."""
        for consumer in self.all_consumers:
            consumer.failure = failure
            consumer.is_closed = True
        for producer in self._producers.values():
            producer.mark_failed(failure)
        for browser in self._browsers:
            browser.dispose()

    def dispose(self, failure: JMSException | None) -> int:
        """Close everything without the broker; return the last sequence id delivered."""
        last = _UNKNOWN
        for consumer in self.all_consumers:
            consumer.dispose(failure)
            last = max(last, consumer.last_delivered_sequence_id)
            if isinstance(consumer, ChunkConsumer):
                consumer.released()
            else:
                self._connection.remove_consumer(consumer.consumer_id)
        for producer in self._producers.values():
            producer.dispose(failure)
            self._connection.remove_producer(producer.producer_id)
        for browser in self._browsers:
            browser.dispose()
        self.consumers.clear()
        self._lingering.clear()
        self._producers.clear()
        self._browsers.clear()
        if self._stats is not None:
            self._stats.closed()
        return last

    def _release(self, consumer: ActiveMQMessageConsumer, last: int) -> None:
        if isinstance(consumer, ChunkConsumer):
            consumer.released()
            return
        self._connection.remove_consumer(consumer.consumer_id)
        if not consumer.is_removed_by_broker:
            self._connection.oneway_if_open(RemoveInfo(consumer.consumer_id, last))
