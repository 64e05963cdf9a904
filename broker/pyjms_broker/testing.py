"""The broker for tests: a real one in memory, reached by `vm://`, with questions that tests ask.

Found by pyjms's test kit through entry point group `pyjms.embedded_brokers`. Waiting is
done on events, never by polling. One broker a test: it starts in milliseconds.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple, Self

import anyio

from pyjms import _clock
from pyjms.errors import RequestTimeoutException
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Destination, Queue, parse_destination
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.service import BrokerService

__all__ = ["EmbeddedTestBroker", "QueueStatistics"]

_numbers = itertools.count(1)


class QueueStatistics(NamedTuple):
    """What a destination has seen (activemq-broker Q4). `messages` includes those in flight."""

    messages: int = 0
    inflight: int = 0
    enqueues: int = 0
    dequeues: int = 0
    dispatched: int = 0
    expired: int = 0
    consumers: int = 0
    producers: int = 0


class EmbeddedTestBroker:
    """A broker of its own for one test."""

    def __init__(self, service: BrokerService | None = None) -> None:
        """Take `service`, or make one with the defaults, in memory, with a name of its own."""
        self.service = service or BrokerService(f"test-{next(_numbers)}", persistent=False)

    @property
    def url(self) -> str:
        """Where clients on this loop connect to; never makes another broker."""
        return f"{self.service.vm_uri}?create=false"

    async def tcp_url(self) -> str:
        """Where clients elsewhere connect to; the first call opens a port on 127.0.0.1."""
        if not self.service.connectors:
            await self.service.add_connector("tcp://127.0.0.1:0", name="openwire").start()
        return self.service.connect_uri

    async def start(self) -> None:
        """Start the broker."""
        await self.service.start()

    async def stop(self) -> None:
        """Stop the broker. Idempotent."""
        await self.service.stop()

    async def drained(self, name: str, timeout: float | None = 5.0) -> None:
        """Wait until the queue has no messages, neither waiting nor with a consumer.

        A queue that does not exist has none. `name` is a queue's name or `topic://name`.
        `timeout` is real time, whatever clock the test has.

        Raises:
            RequestTimeoutException: it still has some after `timeout` seconds.

        """
        queue = self._there(parse_destination(name))
        if queue is None or not queue.statistics.messages:
            return
        empty = anyio.Event()

        def look(changed: BrokerDestination) -> None:
            if not changed.statistics.messages:
                empty.set()

        queue.watchers.append(look)
        try:
            with _clock.SystemClock().timeout(timeout) as scope:
                await empty.wait()
        finally:
            queue.watchers.remove(look)
        if scope.cancelled_caught:
            statistics = queue.statistics
            raise RequestTimeoutException(
                f"{queue.destination} was not drained within {timeout} s: "
                f"{statistics.messages} messages, {statistics.inflight} of them in flight, "
                f"{statistics.consumers} consumers",
                hint="is a listener on it, is its connection started, does it acknowledge?",
            )

    async def dead_letters(self, name: str = DEFAULT_DEAD_LETTER_QUEUE) -> list[ActiveMQMessage]:
        """Return the messages that nobody could handle, oldest first; they stay where they are.

        `name` is a dead letter queue, or the destination that they were sent to.
        """
        wanted = parse_destination(name)
        there = self._there(wanted)
        if there is not None and (
            there.is_dead_letter_queue or wanted == Queue(DEFAULT_DEAD_LETTER_QUEUE)
        ):
            return [reference.message for reference in there.browse()]
        return [
            reference.message
            for queue in self.service.region_broker.destinations().values()
            if queue.is_dead_letter_queue
            for reference in queue.browse()
            if reference.message.original_destination == wanted
        ]

    def queue_statistics(self, name: str) -> QueueStatistics:
        """Return the counters of a destination; all zero if it does not exist."""
        there = self._there(parse_destination(name))
        if there is None:
            return QueueStatistics()
        counters = there.statistics
        return QueueStatistics(*(getattr(counters, field) for field in QueueStatistics._fields))

    def _there(self, destination: Destination) -> BrokerDestination | None:
        return self.service.region_broker.destinations().get(destination)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()
