"""Requests at a real ActiveMQ 5.17.2, and at our broker: the same."""

from __future__ import annotations

import pytest

from pyjms.errors import NoConsumerException
from pyjms.jms.destination import parse_destination
from pyjms.template.template import JmsTemplate
from tests.kit.brokers.comparison import MakeFactory

pytestmark = pytest.mark.activemq


@pytest.mark.fact("spring-jms 4.14.2")
@pytest.mark.parametrize("pattern", ["{}", "{}.>", "{},other"])
async def test_a_request_without_a_consumer_fails_at_once(
    quick_factory: MakeFactory, name: str, pattern: str
) -> None:
    factory = quick_factory()
    template = JmsTemplate(factory, require_consumer=True)
    with pytest.raises(NoConsumerException):
        await template.request(name, "x", timeout=5.0)
    async with (
        await factory.create_connection() as connection,
        await connection.create_session() as session,
        await session.create_consumer(parse_destination(pattern.format(name))),
    ):
        assert await template.request(name, "x", timeout=0.1) is None
