"""Blocking pools and factories around factories, on the real broker."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyjms import (
    ConnectionFactory,
    IllegalStateException,
    InvalidDestinationException,
    JmsPoolConnectionFactory,
    JmsTemplate,
    JmsTransactionManager,
    PooledConnectionFactory,
    Queue,
)
from pyjms.errors import TransactionInProgressException
from pyjms.sync import DelegatingConnectionFactory, TransactionAwareConnectionFactoryProxy
from tests.kit.clients.messages import text_of

_numbers = itertools.count(1)


@pytest.fixture
def factory() -> Iterator[ConnectionFactory]:
    factory = ConnectionFactory(f"vm://pools-{next(_numbers)}?broker.persistent=false")
    with factory.create_connection():  # the broker ends with its last connection
        yield factory


@pytest.mark.parametrize("kind", [PooledConnectionFactory, JmsPoolConnectionFactory])
def test_threads_share_the_connections_and_take_turns_at_the_sessions(
    factory: ConnectionFactory, kind: Any
) -> None:
    sent, threads = 20, 6

    def send(number: int) -> None:
        for index in range(sent):
            with pool.create_connection() as connection, connection.create_session() as session:
                producer = session.create_producer(Queue("q"))
                producer.send(session.create_text_message(f"{number}-{index}"))

    with kind(factory, max_connections=2, max_sessions_per_connection=2) as pool:
        workers = [threading.Thread(target=send, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert pool.num_connections == 2
        assert pool.stats.created_sessions.count <= 4
        assert pool.stats.active_sessions.count == 0
        template = JmsTemplate(pool, receive_timeout=0)
        received = {template.receive_and_convert("q") for _ in range(sent * threads)}
        assert len(received) == sent * threads
        assert pool.is_running
    assert not pool.is_running
    with pytest.raises(IllegalStateException, match="stopped"):
        pool.create_connection()


def test_a_pool_over_a_transaction(factory: ConnectionFactory) -> None:
    with PooledConnectionFactory(factory) as pool:
        template = JmsTemplate(pool, receive_timeout=0)
        with JmsTransactionManager(pool).transaction() as status:
            template.convert_and_send("q", "rolled back")
            status.set_rollback_only()
        with JmsTransactionManager(pool).transaction():
            template.convert_and_send("q", "committed")
        assert template.receive_and_convert("q") == "committed"
        assert template.receive_and_convert("q") is None


def test_a_temporary_queue_ends_with_its_handle(factory: ConnectionFactory) -> None:
    with PooledConnectionFactory(factory) as pool:
        with pool.create_connection() as connection:
            connection.start()
            with connection.create_session() as session:
                queue = session.create_temporary_queue()
                consumer = session.create_consumer(queue)
                session.create_producer(queue).send(session.create_text_message("reply"))
                assert text_of(consumer.receive(5)) == "reply"
        with pool.create_connection() as connection, connection.create_session() as session:
            producer, late = session.create_producer(queue), session.create_text_message("late")
            with pytest.raises(InvalidDestinationException):
                producer.send(late)


def test_the_session_of_a_threads_transaction(factory: ConnectionFactory) -> None:
    proxy = TransactionAwareConnectionFactoryProxy(factory)
    template = JmsTemplate(factory, receive_timeout=0)
    with JmsTransactionManager(factory).transaction() as status:
        with proxy.create_connection() as connection, connection.create_session() as session:
            assert session.transacted
            session.create_producer(Queue("q")).send(session.create_text_message("one"))
            with pytest.raises(TransactionInProgressException):
                session.commit()
        status.set_rollback_only()
    assert template.receive("q") is None


def test_a_delegating_factory_stops_what_it_closes(factory: ConnectionFactory) -> None:
    delegating = DelegatingConnectionFactory(factory, should_stop_connections=True)
    with delegating.create_connection() as connection:
        connection.start()
    JmsTemplate(delegating).convert_and_send("q", "one")
    assert JmsTemplate(factory, receive_timeout=0).receive_and_convert("q") == "one"
