"""The template on a real ActiveMQ 5.17.2 and on our own broker."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.connection.caching import CachingConnectionFactory
from pyjms.core.template import JmsTemplate
from pyjms.jms.destination import Queue

pytestmark = pytest.mark.activemq


@pytest.mark.parametrize("cache_consumers", [False, True])
@pytest.mark.parametrize("transacted", [False, True])
@pytest.mark.parametrize("timeout", [None, 5.0, 0])
async def test_a_receive_leaves_the_other_messages_to_others(
    quick_factory: Any,
    connect: Any,
    name: str,
    cache_consumers: bool,
    transacted: bool,
    timeout: float | None,
) -> None:
    others = await (await connect()).create_session()
    producer = await others.create_producer(Queue(name))
    for number in range(6):
        message = others.create_text_message(str(number))
        message.properties["n"] = number
        await producer.send(message)
    factory = CachingConnectionFactory(quick_factory(), cache_consumers=cache_consumers)
    async with factory:
        template = JmsTemplate(factory, receive_timeout=timeout, session_transacted=transacted)
        assert await template.receive_and_convert(name) == "0"
        consumer = await others.create_consumer(Queue(f"{name}?consumer.prefetchSize=0"))
        assert (await consumer.receive(5)).text == "1"
        await consumer.close()
        assert await template.receive_and_convert(name) == "2"
        assert await template.receive_selected_and_convert(name, "n = 4") == "4"
        consumer = await others.create_consumer(Queue(name))
        assert [(await consumer.receive(5)).text for _ in range(2)] == ["3", "5"]
        template.receive_timeout = 0.05
        assert await template.receive(name) is None
