"""An in-memory broker for tests, connected by `vm://`, with queries for assertions.

`pyjms.testing` finds it through the entry point group `pyjms.embedded_brokers`. It waits for events
and never polls. Use one broker per test; it starts in milliseconds.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Final, NamedTuple, Self

import anyio

from pyjms.errors import InvalidDestinationException, RequestTimeoutException, nearest_name
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Destination, Queue, parse_destination
from pyjms.runtime import clock as _clock
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionId
from pyjms_broker.api.destination import BrokerDestination
from pyjms_broker.connector.vm import registry as vm_registry
from pyjms_broker.service import BrokerService
from pyjms_broker.service.configuration import KahaDBPersistenceFactory
from pyjms_broker.store.api import PersistenceAdapter
from pyjms_broker.store.journal.settings import JournalSettings

__all__ = ["EmbeddedTestBroker", "QueueStatistics"]

_numbers = itertools.count(1)
_SMALL_FILE: Final = 1 << 20


class QueueStatistics(NamedTuple):
    """The counters of a destination (activemq-broker Q4). `messages` includes those in flight."""

    messages: int = 0
    inflight: int = 0
    enqueues: int = 0
    dequeues: int = 0
    dispatched: int = 0
    expired: int = 0
    consumers: int = 0
    producers: int = 0


class _SmallStore(KahaDBPersistenceFactory):
    """A KahaDB store with small files, because each test has its own."""

    def create(self, directory: Path, broker_name: str) -> PersistenceAdapter:
        from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter  # noqa: PLC0415 - few tests need it
        from pyjms_broker.store.kahadb.settings import KahaDBSettings  # noqa: PLC0415

        journal = JournalSettings(max_file_length=_SMALL_FILE)
        return KahaDBPersistenceAdapter(directory, KahaDBSettings(journal=journal))


class EmbeddedTestBroker:
    """A broker for one test."""

    def __init__(
        self, service: BrokerService | None = None, *, data_directory: Path | None = None
    ) -> None:
        """Use `service`, or create one with a scheduler and a unique name.

        Messages are kept in memory. With `data_directory` they are kept in a store there, so that
        persistent messages survive `restart`.
        """
        name = f"test-{next(_numbers)}"
        if service is None and data_directory is not None:
            service = BrokerService(
                name,
                data_directory=data_directory,
                persistence=_SmallStore(),
                scheduler_support=True,
            )
        self.service = service or BrokerService(name, persistent=False, scheduler_support=True)

    @property
    def url(self) -> str:
        """The URL for clients in this process, which never creates another broker."""
        return f"{self.service.vm_uri}?create=false"

    async def tcp_url(self) -> str:
        """Return the URL for clients in other processes; the first call opens a local port."""
        if not self.service.connectors:
            await self.service.add_connector("tcp://127.0.0.1:0", name="openwire").start()
        return self.service.connect_uri

    async def start(self) -> None:
        """Start the broker."""
        await self.service.start()

    async def stop(self) -> None:
        """Stop the broker. Idempotent."""
        await self.service.stop()

    async def drop_connections(self, of: ConnectionId | None = None) -> int:
        """Drop all connections, or that of a client, like a network failure; return their number.

        Unacknowledged messages are redelivered. Clients may reconnect at once.
        """
        registration = vm_registry.find(self.service.broker_name)
        own = [] if registration is None else [registration.connector]
        client: object = None if of is None else self.service.connections.by_id.get(of)
        dropped = [
            connection
            for connector in (*own, *self.service.connectors)
            for connection in list(connector.connections)
            if of is None or connection is client
        ]
        for connection in dropped:
            connection.stop_soon(ConnectionError("dropped by the test"))
        for connection in dropped:
            await connection.wait_stopped()
        return len(dropped)

    async def restart(self) -> None:
        """Restart the broker at the same URL.

        Persistent messages survive if there is a store (`data_directory`); others are lost.
        """
        await self.service.stop()
        await self.service.start()

    async def drained(self, name: str, timeout: float | None = 5.0) -> None:
        """Wait until a queue has no messages, including those in flight.

        `name` is a queue's name or `topic://name`. `timeout` is in seconds of real time, even with
        a virtual clock; None: no limit.

        Raises:
            InvalidDestinationException: there is no such queue: nobody has sent to it or consumes
                it. The text suggests another name.
            RequestTimeoutException: the queue still has messages after `timeout` seconds.
        """
        queue = self._destination(parse_destination(name))
        if queue is None:
            raise self._unknown(parse_destination(name))
        if not queue.statistics.messages:
            return
        empty = anyio.Event()

        def check(changed: BrokerDestination) -> None:
            if not changed.statistics.messages:
                empty.set()

        queue.watchers.append(check)
        try:
            with _clock.SystemClock().timeout(timeout) as scope:
                await empty.wait()
        finally:
            queue.watchers.remove(check)
        if scope.cancelled_caught:
            statistics = queue.statistics
            raise RequestTimeoutException(
                f"{queue.destination} was not drained within {timeout} s: "
                f"{statistics.messages} messages, {statistics.inflight} of them in flight, "
                f"{statistics.consumers} consumers",
                hint="check that a listener consumes it, is started and acknowledges",
            )

    async def dead_letters(self, name: str = DEFAULT_DEAD_LETTER_QUEUE) -> list[ActiveMQMessage]:
        """Return dead letters, oldest first, without consuming them.

        `name` is a dead-letter queue, or the original destination of the messages.
        """
        wanted = parse_destination(name)
        found = self._destination(wanted)
        if found is not None and (
            found.is_dead_letter_queue or wanted == Queue(DEFAULT_DEAD_LETTER_QUEUE)
        ):
            return [reference.message for reference in found.browse()]
        return [
            reference.message
            for queue in self.service.region_broker.destinations().values()
            if queue.is_dead_letter_queue
            for reference in queue.browse()
            if reference.message.original_destination == wanted
        ]

    def queue_statistics(self, name: str) -> QueueStatistics:
        """Return the counters of a destination; all zero if it does not exist."""
        found = self._destination(parse_destination(name))
        if found is None:
            return QueueStatistics()
        counters = found.statistics
        return QueueStatistics(*(getattr(counters, field) for field in QueueStatistics._fields))

    def _unknown(self, destination: Destination) -> InvalidDestinationException:
        known = map(str, self.service.region_broker.destinations())
        near = nearest_name(str(destination), known)
        return InvalidDestinationException(
            f"There is no {destination}: nobody has sent to it, and nobody consumes it",
            hint=f"did you mean {near}?" if near else "check the name",
        )

    def _destination(self, destination: Destination) -> BrokerDestination | None:
        return self.service.region_broker.destinations().get(destination)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()
