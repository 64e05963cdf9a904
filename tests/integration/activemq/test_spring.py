"""JmsTemplate, listener containers and the blocking face at brokers of others' and our own."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import anyio
import pytest

import pyjms
from pyjms import errors
from pyjms.connection.caching import CachingConnectionFactory
from pyjms.enums import AcknowledgeMode, CacheLevel
from pyjms.jms.api import Session
from pyjms.jms.destination import Queue, Topic
from pyjms.jms.message import Message
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.listener.simple_container import SimpleMessageListenerContainer
from pyjms.runtime import clock as _clock
from pyjms.template.template import JmsTemplate
from tests.kit.brokers.comparison import MakeFactory

pytestmark = pytest.mark.activemq

SEVEN = [1, 2, 3, 4, 5, 6, 7]


def text_message(text: str, session: Session) -> Message:
    return session.create_text_message(text)


@pytest.fixture
def template(quick_factory: MakeFactory) -> JmsTemplate:
    return JmsTemplate(quick_factory(), receive_timeout=5.0)


@pytest.fixture
async def listening(quick_factory: MakeFactory) -> AsyncIterator[Any]:
    """Starts containers; they are shut down after the test."""
    started: list[Any] = []

    async def start(kind: Any, listener: Any, query: str = "", **properties: Any) -> Any:
        properties.setdefault("receive_timeout", 0.2)
        if kind is SimpleMessageListenerContainer:
            del properties["receive_timeout"]
        container = kind(quick_factory(query), message_listener=listener, **properties)
        started.append(container)
        await container.start()
        return container

    yield start
    for container in started:
        await container.shutdown()


async def send_correlated(template: JmsTemplate, name: str, text: str) -> None:
    """Send a message whose dead letter can be found by the queue's name."""

    def create(session: Any) -> Any:
        message = session.create_text_message(text)
        message.correlation_id = name
        return message

    await template.send(name, create)


class Count:
    """Counts texts; `all` is set when so many calls were made."""

    def __init__(self, calls: int, *, fails: bool = False) -> None:
        self.calls = calls
        self.fails = fails
        self.seen: list[Any] = []
        self.all = anyio.Event()

    async def __call__(self, message: Any) -> None:
        self.seen.append(message)
        if len(self.seen) == self.calls:
            self.all.set()
        if self.fails:
            raise RuntimeError("boom")

    async def wait(self) -> None:
        with _clock.timeout(20):
            await self.all.wait()


async def test_the_template_sends_receives_and_browses(template: JmsTemplate, name: str) -> None:
    payloads = ["text", b"bytes", {"key": 7}]
    for payload in payloads:
        await template.convert_and_send(name, payload)
    assert [await template.receive_and_convert(name) for _ in payloads] == payloads
    template.receive_timeout = 0.1
    assert await template.receive(name) is None

    def number(message: Any) -> Any:
        message.properties["n"] = 1
        return message

    await template.convert_and_send(name, "0")
    await template.convert_and_send(name, "1", post_processor=number)

    async def texts(_session: Any, browser: Any) -> list[str]:
        return [message.text async for message in browser]

    found: list[str] = await template.browse(name, texts)
    assert found == ["0", "1"]
    found = await template.browse_selected(name, "n = 1", texts)
    assert found == ["1"]
    assert await template.receive_selected_and_convert(name, "n = 1") == "1"
    assert await template.receive_and_convert(name) == "0"


async def test_transacted_templates_on_a_caching_factory(
    quick_factory: MakeFactory, name: str
) -> None:
    caching = CachingConnectionFactory(quick_factory(), session_cache_size=3)
    template = JmsTemplate(caching, session_transacted=True, receive_timeout=5.0)
    for number in range(20):
        await template.convert_and_send(name, str(number))
    received = [await template.receive_and_convert(name) for _ in range(20)]
    assert received == [str(number) for number in range(20)]
    await caching.destroy()


@pytest.mark.parametrize("concurrency", ["1", "1-5"])
@pytest.mark.parametrize("level", [CacheLevel.CONNECTION, CacheLevel.CONSUMER])
async def test_transacted_containers(
    template: JmsTemplate, listening: Any, name: str, concurrency: str, level: CacheLevel
) -> None:
    count = Count(40)
    await listening(
        DefaultMessageListenerContainer,
        count,
        "jms.prefetchPolicy.queuePrefetch=1",
        destination_name=name,
        session_transacted=True,
        concurrency=concurrency,
        cache_level=level,
    )
    for number in range(40):
        await template.convert_and_send(name, str(number))
    await count.wait()
    assert Counter(message.text for message in count.seen) == Counter(map(str, range(40)))


@pytest.mark.parametrize("mode", [mode for mode in AcknowledgeMode if mode in range(4)])
async def test_a_failing_listener_is_called_seven_times(
    template: JmsTemplate, listening: Any, name: str, mode: AcknowledgeMode
) -> None:
    count = Count(7, fails=True)
    await listening(
        DefaultMessageListenerContainer,
        count,
        destination_name=name,
        session_transacted=mode == AcknowledgeMode.TRANSACTED,
        session_acknowledge_mode=mode,
    )

    await send_correlated(template, name, "bad")
    if mode in (AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK):
        template.receive_timeout = 0.5  # acknowledged before the listener was called: once only
        assert await template.receive(name) is None
        assert [message.delivery_count for message in count.seen] == [1]
        return
    await count.wait()
    assert [message.delivery_count for message in count.seen] == SEVEN
    dead = await template.receive_selected("ActiveMQ.DLQ", f"JMSCorrelationID = '{name}'")
    assert dead is not None
    assert dead.original_destination == Queue(name)
    cause = str(dead.properties["dlqDeliveryFailureCause"])
    assert cause.startswith("java.lang.Throwable: Delivery[7] exceeds redelivery policy limit:")
    assert "maximumRedeliveries = 6" in cause


@pytest.mark.parametrize("kind", [DefaultMessageListenerContainer, SimpleMessageListenerContainer])
@pytest.mark.parametrize("mode", [AcknowledgeMode.TRANSACTED, AcknowledgeMode.CLIENT])
async def test_a_poison_message_is_a_dead_letter_at_once(
    kind: Any, mode: AcknowledgeMode, template: JmsTemplate, listening: Any, name: str
) -> None:
    calls: list[str] = []
    good = anyio.Event()

    async def listener(message: Any) -> None:
        calls.append(message.text)
        if message.text == "bad":
            raise errors.PoisonMessageException("closed") from ValueError("no such account")
        good.set()

    await send_correlated(template, name, "bad")
    await template.convert_and_send(name, "good")
    await listening(
        kind,
        listener,
        destination_name=name,
        session_transacted=mode == AcknowledgeMode.TRANSACTED,
        session_acknowledge_mode=mode,
    )
    await good.wait()
    assert calls == ["bad", "good"]
    dead = await template.receive_selected("ActiveMQ.DLQ", f"JMSCorrelationID = '{name}'")
    assert dead is not None
    cause = str(dead.properties["dlqDeliveryFailureCause"])
    assert cause.endswith("ValueError: no such account")
    assert "redelivery policy" not in cause


async def test_simple_containers(template: JmsTemplate, listening: Any, name: str) -> None:
    count = Count(20)
    await listening(
        SimpleMessageListenerContainer, count, destination_name=name, concurrent_consumers=2
    )
    for number in range(20):
        await template.convert_and_send(name, str(number))
    await count.wait()
    assert Counter(message.text for message in count.seen) == Counter(map(str, range(20)))


async def test_a_virtual_topic_for_two_applications(
    template: JmsTemplate, listening: Any, name: str
) -> None:
    topic = Topic(f"VirtualTopic.{name}")
    counts = {who: Count(6, fails=who == "B") for who in "AB"}
    for who, count in counts.items():
        await listening(
            DefaultMessageListenerContainer,
            count,
            "jms.redeliveryPolicy.maximumRedeliveries=1",
            destination_name=f"Consumer.{who}.{topic.physical_name}",
            session_transacted=True,
            concurrency="1-3",
        )
    for who in counts:  # the queues collect from when their first consumer came
        await until_consumed(template, f"Consumer.{who}.{topic.physical_name}")
    for number in range(6 - 1):
        await template.convert_and_send(topic, str(number))
    await counts["A"].wait()
    assert {message.original_destination for message in counts["A"].seen[1:]} == {topic}
    await counts["B"].wait()


async def until_consumed(template: JmsTemplate, queue: str) -> None:
    """Send one message past the topic; its consumer is there when it is called."""
    await template.convert_and_send(queue, "first")


async def test_request_and_reply(template: JmsTemplate, listening: Any, name: str) -> None:
    async def answer(message: Any, session: Any) -> None:
        producer = await session.create_producer(message.reply_to)
        reply = session.create_text_message(f"re: {message.text}")
        reply.correlation_id = message.message_id
        await producer.send(reply)
        await producer.close()

    await listening(
        DefaultMessageListenerContainer,
        answer,
        destination_name=name,
        session_transacted=True,
        concurrency="1-3",
    )
    for text in ("1", "2", "3"):
        reply: Any = await template.send_and_receive(name, partial(text_message, text))
        assert reply.text == f"re: {text}"


def test_the_blocking_face(broker_url: str, name: str) -> None:
    template = pyjms.JmsTemplate(pyjms.ConnectionFactory(broker_url), receive_timeout=5.0)
    template.convert_and_send(name, {"id": 1})
    assert template.receive_and_convert(name) == {"id": 1}
    with pyjms.ConnectionFactory(broker_url).create_connection() as connection:
        connection.start()
        session = connection.create_session(transacted=True)
        producer = session.create_producer(session.create_queue(name))
        producer.send(session.create_text_message("blocking"))
        session.commit()
        consumer = session.create_consumer(session.create_queue(name))
        received = consumer.receive(5)
        assert isinstance(received, pyjms.TextMessage)
        assert received.text == "blocking"
        session.commit()
