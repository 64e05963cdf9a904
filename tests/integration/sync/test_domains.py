"""The API of one domain each, blocking."""

from __future__ import annotations

import pytest

from pyjms import (
    CachingConnectionFactory,
    ConnectionFactory,
    IllegalStateException,
    Message,
    PooledConnectionFactory,
    Queue,
    TextMessage,
    Topic,
)
from pyjms.sync import (
    QueueConnection,
    QueueConnectionFactory,
    QueueReceiver,
    QueueRequestor,
    QueueSender,
    QueueSession,
    TopicConnection,
    TopicConnectionFactory,
    TopicPublisher,
    TopicRequestor,
    TopicSession,
    TopicSubscriber,
)

Q = Queue("q")
T = Topic("t")
URL = "vm://blocking-domains?broker.persistent=false"


@pytest.mark.fact("jms-api 2.17")
@pytest.mark.parametrize("wrap", [None, CachingConnectionFactory, PooledConnectionFactory])
def test_queues(wrap: type[CachingConnectionFactory] | None) -> None:
    factory = ConnectionFactory(URL) if wrap is None else wrap(ConnectionFactory(URL))
    assert isinstance(factory, QueueConnectionFactory)
    with factory.create_queue_connection() as connection:
        assert isinstance(connection, QueueConnection)
        connection.start()
        session = connection.create_queue_session()
        assert isinstance(session, QueueSession)
        sender = session.create_sender(Q)
        assert isinstance(sender, QueueSender)
        sender.send(session.create_text_message("a"), priority=7)
        receiver = session.create_receiver(Q, "JMSPriority = 7")
        assert isinstance(receiver, QueueReceiver)
        assert sender.queue == receiver.queue == Q
        message = receiver.receive(5.0)
        assert isinstance(message, TextMessage)
        assert message.text == "a"
        with pytest.raises(IllegalStateException, match="not supported by a QueueSession"):
            session.create_topic("t")
        with pytest.raises(IllegalStateException, match="not supported by a QueueSession"):
            session.create_durable_subscriber(T, "s")
        receiver.close()
        session.close()


@pytest.mark.fact("jms-api 2.17")
def test_topics() -> None:
    factory = ConnectionFactory(URL, client_id="me")
    assert isinstance(factory, TopicConnectionFactory)
    with factory.create_topic_connection() as connection:
        assert isinstance(connection, TopicConnection)
        connection.start()
        session = connection.create_topic_session()
        assert isinstance(session, TopicSession)
        subscriber = session.create_subscriber(T)
        local = session.create_subscriber(T, no_local=True)
        durable = session.create_durable_subscriber(T, "s")
        publisher = session.create_publisher(T)
        assert isinstance(publisher, TopicPublisher)
        publisher.publish(session.create_text_message("a"))
        for each in (subscriber, durable):
            assert isinstance(each, TopicSubscriber)
            assert (each.topic, each.no_local) == (T, False)
            assert isinstance(each.receive(5.0), TextMessage)
        assert (publisher.topic, local.no_local, local.receive(0)) == (T, True, None)
        with pytest.raises(IllegalStateException, match="not supported by a TopicSession"):
            session.create_browser(Q)


@pytest.mark.parametrize("of_topics", [False, True])
def test_requestors(of_topics: bool) -> None:
    with ConnectionFactory(URL).create_connection() as service:
        service.start()
        answering = service.create_session()
        replies = answering.create_producer()

        def answer(message: Message) -> None:
            assert isinstance(message, TextMessage)
            assert message.reply_to is not None
            replies.send(message.reply_to, answering.create_text_message(f"{message.text}!"))

        answering.create_consumer(T if of_topics else Q).set_message_listener(answer)
        with ConnectionFactory(URL).create_connection() as connection:
            connection.start()
            session = connection.create_session()
            requestor = TopicRequestor(session, T) if of_topics else QueueRequestor(session, Q)
            with requestor:
                reply = requestor.request(session.create_text_message("a"), 5.0)
                assert isinstance(reply, TextMessage)
                assert reply.text == "a!"
            with pytest.raises(IllegalStateException):
                session.create_producer(Q)
