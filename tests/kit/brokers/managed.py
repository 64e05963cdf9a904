"""A broker in a thread of this process, with its web server, for command lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from pyjms_broker.service import BrokerService

__all__ = ["ManagedBroker", "managed_broker"]

T = TypeVar("T")


class ManagedBroker:
    """A broker that runs in the thread of `portal`."""

    def __init__(self, service: BrokerService, portal: BlockingPortal) -> None:
        self.service = service
        self.portal = portal
        self.url = str(service.website.url)
        """Of the web server."""

    @property
    def openwire(self) -> str:
        """The URL for clients."""
        return self.service.connectors[0].connect_uri

    def call(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Call a coroutine function in the broker's thread."""
        return self.portal.call(function, *arguments)

    def queue(self, name: str) -> Any:
        """Return the attributes of a queue."""

        async def read() -> Any:
            wanted = f"org.apache.activemq:*,destinationType=Queue,destinationName={name}"
            (view,) = self.service.management.find(wanted)
            return view.get_all()

        return self.call(read)


@contextmanager
def managed_broker(service: BrokerService) -> Iterator[ManagedBroker]:
    """Run a broker, which has a web server, until the block ends."""
    with start_blocking_portal("asyncio") as portal:
        portal.call(service.start)
        try:
            yield ManagedBroker(service, portal)
        finally:
            portal.call(service.stop)
