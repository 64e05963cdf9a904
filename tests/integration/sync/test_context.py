"""The simplified API of JMS 2.0, blocking."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest

from pyjms import (
    AcknowledgeMode,
    CachingConnectionFactory,
    ConnectionFactory,
    IllegalStateException,
    JMSConsumer,
    JMSContext,
    JMSProducer,
    MessageFormatException,
    PooledConnectionFactory,
    Queue,
    SingleConnectionFactory,
    UserCredentialsConnectionFactoryAdapter,
)
from pyjms.jms.message import Message, TextMessage
from tests.kit.values import present

Q = Queue("q")


@pytest.fixture(params=["plain", "single", "caching", "pooled", "credentials"])
def context(request: pytest.FixtureRequest) -> Iterator[JMSContext]:
    factory = ConnectionFactory(f"vm://contexts-{request.param}?broker.persistent=false")
    wrapped = {
        "single": SingleConnectionFactory,
        "caching": CachingConnectionFactory,
        "pooled": PooledConnectionFactory,
        "credentials": UserCredentialsConnectionFactoryAdapter,
    }.get(request.param, lambda target: target)(factory)
    with wrapped.create_context() as context:
        yield context


@pytest.mark.fact("jms-api 11.3", "jms-api 11.4", "jms-api 11.6")
def test_a_context_sends_and_receives(context: JMSContext) -> None:
    assert isinstance(context, JMSContext)
    producer = context.create_producer()
    assert isinstance(producer, JMSProducer)
    chained = producer.set_priority(7).set_property("n", 1).set_type("t").set_correlation_id("c")
    assert chained is producer
    assert producer.send(Q, "text").send(Q, {"a": 1}) is producer
    consumer = context.create_consumer(Q)
    assert isinstance(consumer, JMSConsumer)
    with pytest.raises(MessageFormatException):
        consumer.receive_body(dict, 5.0)
    message = consumer.receive(5.0)
    assert isinstance(message, TextMessage)
    assert (message.text, message.priority, message.type) == ("text", 7, "t")
    assert message is not None
    assert (message.properties["n"], message.correlation_id) == (1, "c")
    assert consumer.receive_body(dict, 5.0) == {"a": 1}
    assert consumer.receive_body_no_wait(dict) is None
    assert (producer.priority, cast("Any", producer).type, producer.properties["n"]) == (7, "t", 1)
    producer.delivery_delay = 0.0
    assert producer.property_exists("n")
    assert not producer.clear_properties().property_exists("n")
    assert context.create_queue("q") == Q
    assert context.session_mode is AcknowledgeMode.AUTO


def test_a_listener_of_a_context_runs_in_a_thread_and_outlives_the_first_context() -> None:
    factory = ConnectionFactory("vm://contexts-two?broker.persistent=false")
    first = factory.create_context()
    got: list[tuple[str | None, str]] = []
    arrived = threading.Event()
    with first.create_context(AcknowledgeMode.CLIENT) as second:

        def listen(message: Message) -> None:
            second.acknowledge()
            assert isinstance(message, TextMessage)
            got.append((message.text, threading.current_thread().name))
            arrived.set()

        second.create_consumer(Q).set_message_listener(listen)
        first.close()
        with pytest.raises(IllegalStateException, match="The context is closed"):
            first.create_producer()
        second.create_context(AcknowledgeMode.AUTO).create_producer().send(Q, "x")
        assert arrived.wait(10)
    ((text, thread),) = got
    assert text == "x"
    assert thread != threading.current_thread().name


@pytest.mark.fact("jms-api 3.11")
def test_a_producer_of_a_context_sends_asynchronously() -> None:
    factory = ConnectionFactory("vm://contexts-async?broker.persistent=false")
    sent: list[str | None] = []

    class Listener:
        def on_completion(self, message: Message) -> None:
            with pytest.raises(IllegalStateException, match="completion listener"):
                made.close()
            assert isinstance(message, TextMessage)
            sent.append(message.text)

        def on_exception(self, message: Message, error: Exception) -> None:
            raise AssertionError(error)

    listener = Listener()
    made = factory.create_context(session_mode=AcknowledgeMode.TRANSACTED)
    producer = made.create_producer().set_async(listener)
    assert producer.async_ is listener
    producer.send(Q, "x")
    made.commit()
    assert sent == ["x"]
    producer.set_async(None).send(Q, "y")
    made.close()
    assert sent == ["x"]


def test_the_consumer_of_a_context_has_statistics() -> None:
    url = "vm://contexts-statistics?broker.persistent=false&jms.statsEnabled=true"
    with ConnectionFactory(url).create_context() as context:
        consumer = context.create_consumer(Q)
        context.create_producer().send(Q, "a")
        assert consumer.receive_body(str, 5.0) == "a"
        assert present(consumer.stats).message_count.count == 1
