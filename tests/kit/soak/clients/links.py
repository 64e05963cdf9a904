"""Connections of well-behaved clients, which notice when the broker was away."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio

from pyjms.client.connection import ActiveMQConnection
from pyjms.client.factory import ConnectionFactory
from pyjms.runtime import clock as _clock
from tests.kit.soak.events import EventLog

__all__ = ["Link", "Links"]

_WIRE: Final = "wireFormat.maxInactivityDuration=6000"
_CLIENT: Final = "jms.closeTimeout=2000&jms.redeliveryPolicy.initialRedeliveryDelay=50"
_FAILOVER: Final = f"initialReconnectDelay=20&maxReconnectDelay=500&{_CLIENT}"


class Link:
    """One connection, and how often it was interrupted. An InterruptionListener."""

    def __init__(self, links: Links, name: str) -> None:
        self.links = links
        self.log = links.log
        self.name = name
        self.interruptions = 0
        self.endpoint: str | None = None
        """The endpoint whose consumer it has, if it is told of interruptions."""
        self.connection: ActiveMQConnection
        self.since = 0.0
        """The time when it was connected to the broker that its messages come from."""

    def transport_interrupted(self, error: Exception) -> None:
        self.interruptions += 1
        if self.endpoint is not None:
            self.log.write("cut", self.endpoint)

    def transport_resumed(self) -> None:
        self.note_connected()

    def note_connected(self) -> None:
        """Record that messages arrive over a new connection from now on."""
        self.since = time.monotonic()


class Links:
    """What the connections of one process share."""

    def __init__(self, url: str, log: EventLog) -> None:
        self.url = url
        self.log = log
        self.finishing = anyio.Event()
        """Set when nothing more is to be sent."""
        self._last = _clock.now()
        self._opening: set[str] = set()
        self._all_open = anyio.Event()

    def heard(self) -> None:
        """Note that a message came."""
        self._last = _clock.now()

    async def wait_until_quiet(self, seconds: float) -> None:
        """Wait until no message has arrived for this time."""
        self.heard()
        while (left := self._last + seconds - _clock.now()) > 0:
            with anyio.move_on_after(left):
                await anyio.sleep_forever()

    def reader_opens(self, name: str) -> None:
        self._opening.add(name)

    def reader_open(self, name: str) -> None:
        self._opening.discard(name)
        if not self._opening:
            self._all_open.set()

    async def wait_for_readers(self) -> None:
        """Wait until every consumer exists: from then on subscriptions miss nothing."""
        await anyio.lowlevel.checkpoint()
        if self._opening:
            await self._all_open.wait()

    @asynccontextmanager
    async def connect(self, name: str, *, direct: bool, query: str = "") -> AsyncIterator[Link]:
        """Open a connection, with `failover:` unless `direct`; `query` has options for its URL."""
        link = Link(self, name)
        url = f"{self.url}?{_WIRE}"
        url = f"{url}&{_CLIENT}{query}" if direct else f"failover:({url})?{_FAILOVER}{query}"
        factory = ConnectionFactory(url, client_id=f"soak-{name}".replace("/", "-"))
        connection = await factory.create_connection()
        link.connection = connection
        link.note_connected()
        connection.add_transport_listener(link)
        async with connection:
            yield link
