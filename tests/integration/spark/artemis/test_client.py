"""Our client on Artemis and activemq-broker 6 over OpenWire: what it can do on ActiveMQ 5.17, it can there.

One thing differs: Artemis adds a property `__AMQ_CID`, the connection that sent, to each message.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyjms import BytesMessage, Connection, ConnectionFactory, MapMessage, TextMessage
from tests.kit.clients.messages import text_of
from tests.kit.servers.java_brokers import JavaBroker
from tests.kit.values import present

pytestmark = pytest.mark.maven
PROPERTIES = {"n": 7, "large": 2**40, "half": 0.5, "yes": True, "word": "grüß dich 😀"}


@pytest.fixture
def connection(broker: JavaBroker) -> Iterator[Connection]:
    with ConnectionFactory(broker.url).create_connection() as made:
        made.start()
        yield made


def test_bodies_properties_and_headers_arrive(connection: Connection, broker: JavaBroker) -> None:
    session = connection.create_session()
    queue = session.create_queue("A")
    producer = session.create_producer(queue)
    text = session.create_text_message("grüß dich 😀\0€")
    text.properties.update(PROPERTIES)
    text.correlation_id = "c"
    text.type = "greeting"
    text.reply_to = session.create_queue("ANSWERS")
    producer.send(text, priority=7)
    producer.send(session.create_bytes_message(bytes(range(256))))
    values = session.create_map_message()
    values["n"] = 1
    values["word"] = "€"
    producer.send(values)
    producer.send(session.create_text_message("x" * 300_000))  # beyond Artemis's "large"
    consumer = session.create_consumer(queue)
    first, second, third, fourth = (consumer.receive(5) for _ in range(4))
    assert isinstance(first, TextMessage)
    assert first.text == "grüß dich 😀\0€"
    more = {"__AMQ_CID"} if broker.kind == "artemis" else set()
    assert first.properties.keys() == PROPERTIES.keys() | more
    assert PROPERTIES.items() <= first.properties.items()
    assert (first.correlation_id, first.type, first.priority) == ("c", "greeting", 7)
    assert (first.message_id, first.timestamp) == (text.message_id, text.timestamp)
    assert (str(first.reply_to), str(first.destination)) == ("queue://ANSWERS", "queue://A")
    assert (first.redelivered, first.delivery_count) == (False, 1)
    assert isinstance(second, BytesMessage)
    assert second.data == bytes(range(256))
    assert isinstance(third, MapMessage)
    assert dict(third) == {"n": 1, "word": "€"}
    assert isinstance(fourth, TextMessage)
    assert fourth.text == "x" * 300_000
    assert consumer.receive_no_wait() is None


def test_a_transaction_is_sent_or_not(connection: Connection, broker: JavaBroker) -> None:
    session = connection.create_session(True)
    producer = session.create_producer(session.create_queue("A"))
    producer.send(session.create_text_message("dropped"))
    session.rollback()
    producer.send(session.create_text_message("sent"))
    assert broker.count("A") == 0
    session.commit()
    assert broker.texts("A") == ["sent"]


def test_rolled_back_messages_are_marked_as_redelivered(
    connection: Connection, broker: JavaBroker
) -> None:
    broker.send("A", ["a", "b"])
    session = connection.create_session(True)
    consumer = session.create_consumer(session.create_queue("A"))
    first = [consumer.receive(5) for _ in range(2)]
    assert [present(m).redelivered for m in first] == [False, False]
    session.rollback()
    again = [consumer.receive(5) for _ in range(2)]
    assert [text_of(m) for m in again] == ["a", "b"]
    assert [(present(m).redelivered, present(m).delivery_count) for m in again] == [
        (True, 2),
        (True, 2),
    ]
    session.commit()
    assert broker.count("A") == 0


def test_messages_of_a_closed_connection_are_marked_as_redelivered(broker: JavaBroker) -> None:
    broker.send("A", ["a", "b"])
    for redelivered in (False, True):
        with ConnectionFactory(broker.url).create_connection() as connection:
            connection.start()
            session = connection.create_session(True)
            consumer = session.create_consumer(session.create_queue("A"))
            found = [consumer.receive(5) for _ in range(2)]
            assert [text_of(m) for m in found] == ["a", "b"]
            assert [present(m).redelivered for m in found] == [redelivered] * 2


def test_a_selector_is_the_brokers(connection: Connection) -> None:
    session = connection.create_session()
    queue = session.create_queue("A")
    producer = session.create_producer(queue)
    for number in range(4):
        message = session.create_text_message(str(number))
        message.properties["n"] = number
        producer.send(message)
    odd = session.create_consumer(queue, "(n = 1 OR n > 2) AND JMSPriority = 4")
    assert [text_of(odd.receive(5)), text_of(odd.receive(5))] == ["1", "3"]
    assert odd.receive(0.2) is None
    odd.close()
    rest = session.create_consumer(queue)
    assert [text_of(rest.receive(5)), text_of(rest.receive(5))] == ["0", "2"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_durable_subscription_keeps_messages_while_it_has_no_consumer(
    broker: JavaBroker, end: str
) -> None:
    def session_of(connection: Connection) -> Any:
        connection.set_client_id("c")
        connection.start()
        return connection.create_session()

    with ConnectionFactory(broker.url).create_connection() as connection:
        session = session_of(connection)
        session.create_durable_subscriber(session.create_topic("T"), "all").close()
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_topic("T"))
        for text in ("a", "b"):
            producer.send(session.create_text_message(text))
    getattr(broker, end)()
    broker.start()
    with ConnectionFactory(broker.url).create_connection() as connection:
        session = session_of(connection)
        subscriber = session.create_durable_subscriber(session.create_topic("T"), "all")
        assert [subscriber.receive(5).text, subscriber.receive(5).text] == ["a", "b"]
        assert subscriber.receive(0.2) is None
        subscriber.close()
        session.unsubscribe("all")


def test_a_request_is_answered_through_a_temporary_queue(
    broker: JavaBroker, connection: Connection
) -> None:
    with ConnectionFactory(broker.url).create_connection() as other:
        other.start()
        server = other.create_session()
        requests = server.create_consumer(server.create_queue("REQUESTS"))
        session = connection.create_session()
        answers = session.create_temporary_queue()
        listener = session.create_consumer(answers)
        request = session.create_text_message("ping")
        request.reply_to = answers
        session.create_producer(session.create_queue("REQUESTS")).send(request)
        asked = requests.receive(5)
        answer = server.create_text_message("pong")
        assert asked is not None
        answer.correlation_id = asked.message_id
        assert asked is not None
        server.create_producer(asked.reply_to).send(answer)
        received = listener.receive(5)
        assert isinstance(received, TextMessage)
        assert (received.text, received.correlation_id) == ("pong", request.message_id)
        listener.close()
        session.delete_temporary(answers)


def test_a_browser_leaves_what_it_sees(connection: Connection, broker: JavaBroker) -> None:
    broker.send("A", ["a", "b", "c"])
    session = connection.create_session()
    with session.create_browser(session.create_queue("A")) as browser:
        assert [text_of(message) for message in browser] == ["a", "b", "c"]
    assert broker.count("A") == 3
