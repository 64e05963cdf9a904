"""A broker in memory in real time, over vm:// and over a socket: a virtual clock runs ahead of one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyjms_broker.testing import EmbeddedTestBroker


@pytest.fixture
async def broker() -> AsyncIterator[EmbeddedTestBroker]:
    async with EmbeddedTestBroker() as broker:
        yield broker


@pytest.fixture(params=["vm", "tcp"])
async def url(broker: EmbeddedTestBroker, request: pytest.FixtureRequest) -> str:
    """The URL for clients, with no options except `create`."""
    return broker.url if request.param == "vm" else await broker.tcp_url()
