"""Networks of brokers in memory, for tests, and bare clients of them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from pyjms.transport.registry import create_transport
from pyjms.wire.openwire.commands import ConsumerInfo
from pyjms_broker.network import NetworkConnector, NetworkConnectorAttributes
from pyjms_broker.service import BrokerService
from tests.kit.clients.raw import RawClient
from tests.kit.waiting import until

__all__ = ["Network", "forwarded", "network"]

_numbers = itertools.count(1)


def has_bridges(connector: NetworkConnector) -> bool:
    return bool(connector.bridges)


class Network:
    """Brokers that stop at the end of a test, and their clients."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack

    def broker(self, name: str, **attributes: Any) -> BrokerService:
        """Return a new broker, not started."""
        return BrokerService(f"{name}{next(_numbers)}", persistent=False, **attributes)

    def link(
        self, source: BrokerService, target: BrokerService, **attributes: Any
    ) -> NetworkConnector:
        """Let `source` forward to `target`, which is to be started first."""
        attributes.setdefault("name", f"to-{target.broker_name}")
        return source.add_network_connector(
            f"static:({target.vm_uri}?create=false)", NetworkConnectorAttributes(**attributes)
        )

    async def start(self, *services: BrokerService) -> None:
        """Start brokers, and wait until each has all its bridges."""
        for service in services:
            await self._stack.enter_async_context(service)
        for service in services:
            for connector in service.networks.connectors:
                await until(partial(has_bridges, connector))

    async def client(self, service: BrokerService, client_id: str | None = None) -> RawClient:
        """Return a connected client of a broker."""
        client = RawClient(create_transport(f"{service.vm_uri}?create=false"))
        await client.open(client_id)
        await self.enter(client)
        return client

    def at_the_end(self, stop: Callable[[], Awaitable[object]]) -> None:
        """Have something stopped at the end of the test, that started last first."""
        self._stack.push_async_callback(stop)

    async def enter(self, client: RawClient) -> None:
        """Close a client at the end of the test."""
        self._stack.push_async_callback(client.close)


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    async with AsyncExitStack() as stack:
        yield Network(stack)


def forwarded(service: BrokerService) -> list[ConsumerInfo]:
    """Return the destinations that the broker's bridges consume from it."""
    return [
        subscription.info
        for subscription in service.region_broker.subscriptions.all()
        if subscription.info.network_subscription
    ]
