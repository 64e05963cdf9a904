"""Sending and taking text messages with the blocking client, at any broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from pyjms import ConnectionFactory, Message, TextMessage


def text_of(message: Message | None) -> str | None:
    """Return the text of a message that was received; fail if there is none, or no text message."""
    assert isinstance(message, TextMessage), message
    return message.text


def send_texts(url: str, queue: str, texts: Sequence[str]) -> None:
    """Send texts in one transaction."""
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(True)
        producer = session.create_producer(session.create_queue(queue))
        for text in texts:
            producer.send(session.create_text_message(text))
        session.commit()


def take_texts(url: str, queue: str, count: int | None = None) -> list[str]:
    """Consume `count` messages of a queue; None: until none arrives for two seconds."""
    found: list[str] = []
    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        session = connection.create_session(True)
        consumer = session.create_consumer(
            session.create_queue(f"{queue}?consumer.prefetchSize=100")
        )
        while count is None or len(found) < count:
            message = consumer.receive(2 if count is None else 5)
            if message is None:
                break
            assert isinstance(message, TextMessage)
            found.append(message.text or "")
        session.commit()
    return found


@pytest.fixture(name="send_texts")
def send_texts_fixture() -> Callable[..., None]:
    return send_texts


@pytest.fixture(name="take_texts")
def take_texts_fixture() -> Callable[..., list[str]]:
    return take_texts
