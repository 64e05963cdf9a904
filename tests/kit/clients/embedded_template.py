"""A broker in memory over vm://, in virtual time, and the recorded behaviour of Spring."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.template.template import JmsTemplate
from pyjms.testing.clock import VirtualClock
from pyjms_broker.testing import EmbeddedTestBroker


@pytest.fixture
async def broker() -> AsyncIterator[EmbeddedTestBroker]:
    async with VirtualClock(autojump=True), EmbeddedTestBroker() as broker:
        yield broker


@pytest.fixture
def factory(broker: EmbeddedTestBroker) -> ConnectionFactory:
    return ConnectionFactory(broker.url)


@pytest.fixture
def template(factory: ConnectionFactory) -> JmsTemplate:
    return JmsTemplate(factory, receive_timeout=1.0)
