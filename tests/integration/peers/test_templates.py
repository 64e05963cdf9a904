"""The template on each broker."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from pyjms.connection.caching import CachingConnectionFactory
from pyjms.enums import DeliveryMode
from pyjms.jms.destination import Queue
from pyjms.jms.message import MapMessage
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.template.template import JmsTemplate
from tests.kit.brokers.comparison import MakeFactory


async def soon(receive: Any, *arguments: Any) -> Any:
    """Receive, again where nothing is there yet."""
    for _ in range(200):
        if (received := await receive(*arguments)) is not None:
            return received
        await anyio.sleep(0.05)
    return None


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
        # On Artemis what a closed consumer had been sent is back in the queue a moment later.
        assert await soon(template.receive_and_convert, name) == "2"
        assert await soon(template.receive_selected_and_convert, name, "n = 4") == "4"
        consumer = await others.create_consumer(Queue(name))
        assert [(await consumer.receive(5)).text for _ in range(2)] == ["3", "5"]
        template.receive_timeout = 0.05
        assert await template.receive(name) is None


async def test_options_of_a_send(quick_factory: MakeFactory, name: str) -> None:
    async with CachingConnectionFactory(quick_factory()) as factory:
        template = JmsTemplate(factory, receive_timeout=5.0)
        await template.convert_and_send(
            name, {"a": 1}, properties={"b": "two"}, correlation_id="c", reply_to="replies",
            priority=9, time_to_live=60, group="g", delivery_mode=DeliveryMode.NON_PERSISTENT,
        )  # fmt: skip
        message = await template.receive_selected(name, "b = 'two' AND JMSXGroupID = 'g'")
        assert isinstance(message, MapMessage)
        assert (message.correlation_id, message.reply_to) == ("c", Queue("replies"))
        assert (message.priority, message.expiration - message.timestamp) == (9, 60_000)
        assert message.delivery_mode is DeliveryMode.NON_PERSISTENT


@pytest.mark.parametrize("shared", [True, False])
async def test_concurrent_requests(quick_factory: MakeFactory, name: str, shared: bool) -> None:
    reply_queues = set()

    # A connection that is new for each reply may not have heard of the reply queue yet.
    replies = JmsTemplate(quick_factory("jms.watchTopicAdvisories=false"))

    async def answer(message: Any) -> None:
        reply_queues.add(message.reply_to)
        await replies.convert_and_send(
            message.reply_to, f"re: {message.text}", correlation_id=message.message_id
        )

    async with CachingConnectionFactory(quick_factory()) as factory:
        container = DefaultMessageListenerContainer(
            quick_factory(), destination_name=name, message_listener=answer, concurrent_consumers=4
        )
        await container.start()
        template = JmsTemplate(factory, receive_timeout=10.0, shared_reply_queue=shared)
        answers: dict[int, Any] = {}

        async def ask(number: int) -> None:
            answers[number] = await template.request(name, str(number), type=str)

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(ask, number)
        await container.shutdown()
    assert answers == {number: f"re: {number}" for number in range(20)}
    assert len(reply_queues) == (1 if shared else 20)
