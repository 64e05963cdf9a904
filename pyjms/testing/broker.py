"""What an embedded broker offers to tests, and where the installed one is found."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Protocol

from pyjms.errors import ResourceAllocationException
from pyjms.wire.openwire.commands import ActiveMQMessage

__all__ = ["EmbeddedBroker", "embedded_broker"]


class EmbeddedBroker(Protocol):
    """A real broker in memory, for one test. It belongs to the test's loop."""

    @property
    def url(self) -> str:
        """Where clients of this process connect to: `vm://...`."""

    async def tcp_url(self) -> str:
        """Where other processes connect to, once it is started; the first call opens a port."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def drained(self, name: str, timeout: float = 5.0) -> None:
        """Wait until the queue `name` holds nothing and nothing of it is unacknowledged.

        Raises:
            TimeoutError: it still does after `timeout` seconds of real time; the text says how
                much.

        """

    async def dead_letters(self, name: str = "ActiveMQ.DLQ") -> list[ActiveMQMessage]:
        """The messages in the dead-letter queue `name`, oldest first; they stay there."""


def embedded_broker() -> EmbeddedBroker:
    """A new broker from the entry points `pyjms.embedded_brokers`, not started.

    Raises:
        ResourceAllocationException: none is installed.

    """
    for entry in entry_points(group="pyjms.embedded_brokers"):
        broker: EmbeddedBroker = entry.load()()
        return broker
    raise ResourceAllocationException(
        "No embedded broker is installed",
        hint="install pyjms with its bundled broker (the package `broker`)",
    )
