"""Fixtures of this folder's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyjms_broker.service import BrokerService
from tests.kit.brokers.networks import network
from tests.kit.clients.raw import RawClient
from tests.kit.web.console import Console, console_of, furnished


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn has no other


@pytest.fixture
async def service() -> AsyncIterator[BrokerService]:
    async with BrokerService("demo", persistent=False, scheduler_support=True) as service:
        yield service


@pytest.fixture
async def console(service: BrokerService) -> AsyncIterator[Console]:
    """The console of a broker that has nothing yet."""
    async with console_of(service) as console:
        yield console


@pytest.fixture
async def shop(service: BrokerService) -> AsyncIterator[RawClient]:
    """A client of the broker, which has something of everything then."""
    async with furnished(service) as client:
        yield client
