"""What ActiveMQ's client has beyond JMS, in the blocking API."""

from __future__ import annotations

import threading
from typing import Any

import anyio.to_thread
import pytest

from pyjms import (
    ConnectionFactory,
    DeliveryMode,
    IllegalStateException,
    JmsTemplate,
    Message,
    Queue,
    RequestTimeoutException,
    TextMessage,
)
from pyjms.wire.openwire.commands import ActiveMQMessage
from pyjms_broker.api.broker import BrokerFilter
from pyjms_broker.api.completion import Completion
from pyjms_broker.api.context import ProducerExchange
from pyjms_broker.service import BrokerService
from tests.kit.clients.messages import text_of
from tests.kit.waiting import LONGEST_WAIT

Q = Queue("q")


class Silence(BrokerFilter):
    """Never answers a send."""

    def send(self, exchange: ProducerExchange, message: ActiveMQMessage) -> Completion:
        del exchange, message
        return Completion()


async def test_a_producer_has_its_own_limit_for_sends() -> None:
    broker = BrokerService("silent-to-threads", persistent=False, plugins=[Silence])
    await broker.add_connector("tcp://127.0.0.1:0", name="openwire").start()
    await broker.start()

    def send() -> None:
        with ConnectionFactory(broker.connect_uri).create_connection() as connection:
            session = connection.create_session()
            producer = session.create_producer(Q)
            assert producer.send_timeout is None
            producer.send_timeout = 0.1
            assert producer.send_timeout == 0.1
            with pytest.raises(RequestTimeoutException):
                producer.send(
                    session.create_text_message("x"), delivery_mode=DeliveryMode.NON_PERSISTENT
                )

    try:
        await anyio.to_thread.run_sync(send)
    finally:
        await broker.stop()


class Upper:
    """Sends and delivers texts in capitals, and records the arguments of the calls."""

    def producer_transform(self, session: Any, producer: Any, message: Message) -> Message:
        assert isinstance(message, TextMessage)
        replacement: TextMessage = session.create_text_message(f"sent {message.text}".upper())
        return replacement

    def consumer_transform(self, session: Any, consumer: Any, message: Message) -> Message:
        assert isinstance(message, TextMessage)
        replacement: TextMessage = session.create_text_message(f"{message.text} received")
        return replacement


def test_a_factorys_transformer_is_that_of_all_it_creates() -> None:
    factory = ConnectionFactory("vm://transformers?broker.persistent=false")
    factory.transformer = transformer = Upper()
    with factory.create_connection() as connection:
        session = connection.create_session()
        producer, consumer = session.create_producer(Q), session.create_consumer(Q)
        for blocking in (factory, connection, session, producer, consumer):
            assert blocking.transformer is transformer
        producer.send(session.create_text_message("x"))
        connection.start()
        assert text_of(consumer.receive(5.0)) == "SENT X received"
        consumer.transformer = None
        producer.send(session.create_text_message("y"))
        assert text_of(consumer.receive(5.0)) == "SENT Y"
        consumer.close()
        with factory.create_context() as context:
            simplified = context.create_consumer(Q)
            assert simplified.transformer is transformer
            simplified.transformer = None
            context.create_producer().send(Q, "c")
            assert simplified.receive_body(str, 5.0) == "SENT C"
        template = JmsTemplate(factory, receive_timeout=5.0)
        template.convert_and_send("other", "z")
        assert template.receive_and_convert("other") == "SENT Z received"


@pytest.mark.parametrize("simplified", [False, True])
def test_available_messages_are_announced_in_a_thread_that_may_receive(simplified: bool) -> None:
    factory = ConnectionFactory("vm://available?broker.persistent=false")
    threads, texts, done = set(), [], threading.Event()

    def take(consumer: Any) -> None:
        threads.add(threading.current_thread().name)
        texts.append(consumer.receive_no_wait().text)
        if len(texts) == 2:
            consumer.set_message_available_listener(None)
            done.set()

    with factory.create_context() as context:
        owner = context if simplified else context.session()
        consumer = owner.create_consumer(Q)
        context.start()
        consumer.set_message_available_listener(take)
        assert consumer.message_available_listener is take
        with pytest.raises(IllegalStateException, match="message available listener"):
            consumer.set_message_listener(print)
        for text in "ab":
            context.create_producer().send(Q, text)
        assert done.wait(LONGEST_WAIT)
        assert texts == ["a", "b"]
        (name,) = threads
        assert name != threading.current_thread().name
        assert consumer.message_available_listener is None
        handled = threading.Event()  # type: ignore[unreachable]
        consumer.set_message_listener(lambda _: handled.set())
        consumer.set_message_available_listener(None)
        context.create_producer().send(Q, "c")
        assert handled.wait(LONGEST_WAIT)
