"""What a session has made and is still open, and closed consumers whose messages are not settled.

A consumer closed with messages handed out in a transaction, or not acknowledged, lingers:
the broker hears of its end when they are settled, so commit and acknowledge still cover
them. (JMS 4.5; ActiveMQ X7)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import RemoveInfo

if TYPE_CHECKING:
    from pyjms.client.connection.connection import ActiveMQConnection
    from pyjms.client.delivery.browser import ActiveMQQueueBrowser
    from pyjms.client.delivery.consumer import ActiveMQMessageConsumer
    from pyjms.client.producer import ActiveMQMessageProducer

__all__ = ["SessionMembers"]

_UNKNOWN = -2  # RemoveInfo.last_delivered_sequence_id of a session without consumers


class SessionMembers:
    """The consumers, producers and browsers of one session."""

    def __init__(self, connection: ActiveMQConnection) -> None:
        self._connection = connection
        self.consumers: list[ActiveMQMessageConsumer] = []
        self._lingering: list[ActiveMQMessageConsumer] = []
        self._producers: set[ActiveMQMessageProducer] = set()
        self._browsers: set[ActiveMQQueueBrowser] = set()

    @property
    def all_consumers(self) -> list[ActiveMQMessageConsumer]:
        """The open consumers and the lingering ones."""
        return [*self.consumers, *self._lingering]

    def consumers_of(self, destination: Destination) -> list[ActiveMQMessageConsumer]:
        """The open consumers of `destination`."""
        return [c for c in self.consumers if c.destination == destination]

    def add_consumer(self, consumer: ActiveMQMessageConsumer) -> None:
        """Let dispatches reach `consumer`."""
        self.consumers.append(consumer)
        self._connection.consumers[consumer.consumer_id] = consumer

    def consumer_closed(self, consumer: ActiveMQMessageConsumer) -> None:
        """Take a consumer out; with messages that are not settled it lingers."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            self._lingering.append(consumer)
            self.release_lingering(only_settled=True)

    def drop_consumer(self, consumer: ActiveMQMessageConsumer) -> None:
        """Take out a consumer that the broker may not know."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        self._release(consumer, _UNKNOWN)

    def release_lingering(self, *, only_settled: bool = False) -> None:
        """Tell the broker of the end of consumers that lingered."""
        if not self._lingering:
            return
        waiting = [c for c in self._lingering if only_settled and c.has_unsettled]
        released = [c for c in self._lingering if c not in waiting]
        self._lingering = waiting
        for consumer in released:
            consumer.dispose()
            self._release(consumer, consumer.last_delivered_sequence_id)

    def add_producer(self, producer: ActiveMQMessageProducer) -> None:
        """Let window acknowledgements reach `producer`."""
        self._producers.add(producer)
        self._connection.producers[producer.producer_id] = producer

    def producer_closed(self, producer: ActiveMQMessageProducer) -> None:
        """Take a producer out and tell the broker."""
        self._producers.discard(producer)
        self._connection.producers.pop(producer.producer_id, None)
        self._connection.oneway_if_open(RemoveInfo(producer.producer_id))

    def add_browser(self, browser: ActiveMQQueueBrowser) -> None:
        """Close `browser` with the session."""
        self._browsers.add(browser)

    def browser_closed(self, browser: ActiveMQQueueBrowser) -> None:
        """Take a browser out."""
        self._browsers.discard(browser)

    def dispose(self, failure: JMSException | None) -> int:
        """End all on this side; return the last sequence number handed out."""
        last = _UNKNOWN
        for consumer in self.all_consumers:
            consumer.dispose(failure)
            last = max(last, consumer.last_delivered_sequence_id)
            self._connection.consumer_closed(consumer.consumer_id)
        for producer in self._producers:
            producer.dispose(failure)
            self._connection.producers.pop(producer.producer_id, None)
        for browser in self._browsers:
            browser.dispose()
        self.consumers.clear()
        self._lingering.clear()
        self._producers.clear()
        self._browsers.clear()
        return last

    def _release(self, consumer: ActiveMQMessageConsumer, last: int) -> None:
        self._connection.consumer_closed(consumer.consumer_id)
        self._connection.oneway_if_open(RemoveInfo(consumer.consumer_id, last))
