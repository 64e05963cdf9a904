"""Fixtures of this folder's tests: a broker in memory behind a proxy that cuts connections."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyjms.transport.uri import TransportURI
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.failures.cutting_proxy import CuttingProxy, cutting_proxy


@pytest.fixture
async def broker() -> AsyncIterator[EmbeddedTestBroker]:
    async with EmbeddedTestBroker() as broker:
        yield broker


@pytest.fixture
async def proxy(broker: EmbeddedTestBroker) -> AsyncIterator[CuttingProxy]:
    port = TransportURI.parse(await broker.tcp_url()).port
    assert port is not None
    async with cutting_proxy(port) as proxy:
        yield proxy
