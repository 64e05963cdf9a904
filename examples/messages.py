"""Sending and receiving texts in bulk, for the Spark examples."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from pyjms import Connection, ConnectionFactory, Destination, TextMessage

__all__ = ["connected", "make_queues", "send_texts", "take_texts"]

TRANSACTION = 200
SILENCE = 1.0


@contextlib.contextmanager
def connected(url: str) -> Iterator[Connection]:
    """Yield a started connection; close it at the end."""
    connection = ConnectionFactory(url).create_connection()
    try:
        connection.start()
        yield connection
    finally:
        connection.close()


def make_queues(connection: Connection, *names: str) -> None:
    """Create queues: a virtual topic copies its messages to those that exist."""
    session = connection.create_session()
    for name in names:
        session.create_consumer(session.create_queue(name)).close()
    session.close()


def send_texts(connection: Connection, destination: Destination, texts: Iterable[str]) -> int:
    """Send texts, several in each transaction; return their number."""
    session = connection.create_session(transacted=True)
    producer = session.create_producer(destination)
    number = 0
    for number, text in enumerate(texts, start=1):
        producer.send(session.create_text_message(text))
        if number % TRANSACTION == 0:
            session.commit()
    session.commit()
    session.close()
    return number


def take_texts(connection: Connection, queue: str) -> list[str]:
    """Receive all texts of a queue, until none comes for a second."""
    session = connection.create_session(transacted=True)
    consumer = session.create_consumer(session.create_queue(queue))
    texts = []
    while isinstance(message := consumer.receive(SILENCE), TextMessage):
        texts.append(message.text or "")
    session.commit()
    session.close()
    return texts
