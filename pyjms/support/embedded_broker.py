"""The installed in-process broker, if there is one: for tests, and for trying out pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pyjms.errors import ResourceAllocationException
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE
from pyjms.runtime.distribution import DISTRIBUTION, entry_points
from pyjms.wire.openwire.commands import ActiveMQMessage, ConnectionId


class EmbeddedBroker(Protocol):
    """A real broker in memory, for one test. It belongs to the test's loop."""

    @property
    def url(self) -> str:
        """The URL for clients in this process: `vm://...`."""

    async def tcp_url(self) -> str:
        """Return the URL of the started broker for other processes; the first call opens a port."""

    async def start(self) -> None:
        """Start the broker; clients may connect when this returns."""

    async def stop(self) -> None:
        """Stop the broker and close its connections. Idempotent."""

    async def drop_connections(self, of: ConnectionId | None = None) -> int:
        """Close all connections or that of a client, as a broken network does; return how many."""

    async def restart(self) -> None:
        """Stop the broker and start it again, at the same URL.

        Persistent messages survive if the broker was created with a `data_directory`.
        """

    async def drained(self, name: str, timeout: float = 5.0) -> None:
        """Wait until the queue `name` is empty and all its messages are acknowledged.

        Raises:
            InvalidDestinationException: there is no such queue.
            RequestTimeoutException: it is not after `timeout` seconds of real time; the text says
                how many messages are left.
        """

    async def dead_letters(self, name: str = DEFAULT_DEAD_LETTER_QUEUE) -> list[ActiveMQMessage]:
        """Return the messages in the dead-letter queue `name`, oldest first; they stay there."""


def embedded_broker(data_directory: Path | None = None) -> EmbeddedBroker:
    """Return a new broker from the entry points `pyjms.embedded_brokers`, not started.

    Args:
        data_directory: where it stores messages; None: it keeps them in memory.
    """
    for entry in entry_points(group="pyjms.embedded_brokers"):
        create = entry.load()
        broker: EmbeddedBroker = (
            create() if data_directory is None else create(data_directory=data_directory)
        )
        return broker
    raise ResourceAllocationException(
        "No embedded broker is installed",
        hint=f"install {DISTRIBUTION}, whose package pyjms_broker is the bundled broker",
    )
