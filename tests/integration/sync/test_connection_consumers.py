"""Connection consumers of the blocking API."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from pyjms import (
    AcknowledgeMode,
    Connection,
    ConnectionFactory,
    IllegalStateException,
    Message,
    Queue,
    Session,
    TextMessage,
    Topic,
    UnsupportedOperationException,
)
from pyjms.sync import ConnectionConsumer, SimpleServerSessionPool, XAConnectionFactory

Q = Queue("q")
URL = "vm://blocking-connection-consumers?broker.persistent=false"


def _send(connection: Connection, destination: Queue | Topic, *texts: str) -> None:
    with connection.create_session() as session:
        producer = session.create_producer(destination)
        for text in texts:
            producer.send(session.create_text_message(text))


@pytest.mark.fact("activemq-edges N18")
@pytest.mark.parametrize("mode", list(AcknowledgeMode), ids=lambda mode: mode.name)
def test_listeners_may_block_and_settle(mode: AcknowledgeMode) -> None:
    handled: SimpleQueue[str | None] = SimpleQueue()
    together = threading.Barrier(2)
    transacted = mode == AcknowledgeMode.TRANSACTED

    def listener_of(session: Session) -> Callable[[Message], None]:
        def listen(message: Message) -> None:
            assert isinstance(message, TextMessage)
            together.wait(10.0)  # two sessions at the same time
            session.commit() if transacted else message.acknowledge()
            handled.put(message.text)

        return listen

    with ConnectionFactory(URL).create_connection() as connection:
        connection.start()
        pool = SimpleServerSessionPool(
            connection, listener_of, size=2, transacted=transacted, acknowledge_mode=mode
        )
        queue = Queue("q?consumer.prefetchSize=4")
        consumer = connection.create_connection_consumer(queue, None, pool, 1)
        assert isinstance(consumer, ConnectionConsumer)
        assert consumer.server_session_pool is pool
        _send(connection, Q, "a", "b", "c", "d")
        assert sorted(str(handled.get(timeout=10.0)) for _ in range(4)) == ["a", "b", "c", "d"]
        consumer.close()
        pool.close()
        left = connection.create_session().create_consumer(Q)
        assert left.receive(0.2) is None


class OwnPool:
    """One session, run in a thread for each chunk."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.idle = threading.Semaphore(1)

    def get_server_session(self) -> OwnPool:
        self.idle.acquire()
        return self

    def start(self) -> None:
        threading.Thread(target=self._run).start()

    def _run(self) -> None:
        self.session.run()
        self.idle.release()


def test_a_pool_of_the_application() -> None:
    handled: SimpleQueue[Message] = SimpleQueue()
    topic = Topic("t")
    with ConnectionFactory(URL, client_id="me").create_connection() as connection:
        connection.start()
        session = connection.create_session(transacted=True)

        def listen(message: Message) -> None:
            session.commit()
            handled.put(message)

        with pytest.raises(IllegalStateException, match="needs a listener"):
            session.run()
        session.set_message_listener(listen)
        consumer = connection.create_durable_connection_consumer(
            topic, "s", None, OwnPool(session), 2
        )
        _send(connection, topic, "a", "b", "c")
        texts = [handled.get(timeout=10.0).text for _ in range(3)]  # type: ignore[attr-defined]
        assert texts == ["a", "b", "c"]
        consumer.close()
        again = session.create_durable_subscriber(topic, "s")
        session.set_message_listener(None)
        assert again.receive(0.2) is None


def test_xa_connections_have_none() -> None:
    with XAConnectionFactory(URL).create_xa_connection() as connection:
        pool = SimpleServerSessionPool(connection, lambda session: print)
        with pytest.raises(UnsupportedOperationException, match="XA connections"):
            connection.create_connection_consumer(Q, None, pool, 1)
